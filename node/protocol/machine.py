"""The protocol as one pure function and two tables.

Theory of operation. A user is a state and ``step(ctx, state, event, inputs) -> (state, effects)``; clock, dice, noise
come in with ``inputs``. The custody table says, for every phase and outcome, which handler runs and which phases it may
lead to; the watch table does the same for a token that may be lost. Requests from peers are answered in every phase.
``step`` checks that a handler ends where the table says, and puts the change of the durable half in front of all other
effects. So: what was not journaled was never sent. docs/PROTOCOL.md draws its diagrams from these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from node.protocol import election, handover, restart, results, trust
from node.protocol.effects import (
    Answered,
    Begin,
    Cold,
    Computed,
    Event,
    Log,
    Note,
    Persist,
    PersistFailed,
    Received,
    Reply,
    Stopping,
    Tick,
)
from node.protocol.messages import (
    Accepted,
    Already,
    Answer,
    Declined,
    Fence,
    Granted,
    Handoff,
    Locate,
    Located,
    Offer,
    Promise,
    Publish,
    Published,
    Refused,
    Request,
    Why,
)
from node.protocol.state import Context, Durable, Inputs, Phase, State, Watch
from node.protocol.values import NO_EPOCH
from node.protocol.view_lines import peer_line
from node.protocol.visit import Step


class Transition(NamedTuple):
    """A handler and the phases it may lead to."""

    run: Callable[[Context, State, Any, Inputs], Step]
    to: frozenset[Phase]


def _to(run: Callable[[Context, State, Any, Inputs], Step], *phases: Phase) -> Transition:
    return Transition(run, frozenset(phases))


P = Phase
_ONWARD = (P.ROUTING, P.OFFERING, P.HANDING, P.CHECKING, P.STALLED, P.PUBLISHING)

#: (phase, outcome) -> what happens. An outcome that is not listed for a phase is stale and changes nothing.
CUSTODY: Mapping[tuple[Phase, str], Transition] = {
    (P.COMPUTING, "computed"): _to(handover.computed, *_ONWARD),
    (P.OFFERING, "granted"): _to(handover.granted, P.HANDING),
    (P.OFFERING, "already"): _to(handover.already, P.IDLE, *_ONWARD),
    (P.OFFERING, "declined"): _to(handover.declined, P.IDLE, *_ONWARD),
    (P.OFFERING, "no answer"): _to(lambda c, s, a, i: handover.offer_lost(c, s, i), P.WAITING, *_ONWARD),
    (P.HANDING, "accepted"): _to(handover.accepted, P.IDLE),
    (P.HANDING, "refused"): _to(handover.declined, P.IDLE, *_ONWARD),
    (P.HANDING, "no answer"): _to(lambda c, s, a, i: handover.handoff_lost(c, s, i), P.WAITING),
    (P.ROUTING, "retry"): _to(lambda c, s, a, i: handover.retry(c, s, i), P.COMPUTING, *_ONWARD),
    (P.WAITING, "retry"): _to(lambda c, s, a, i: handover.retry(c, s, i), P.COMPUTING, *_ONWARD),
    (P.STALLED, "retry"): _to(lambda c, s, a, i: handover.retry(c, s, i), *_ONWARD),
    (P.CHECKING, "retry"): _to(lambda c, s, a, i: handover.retry(c, s, i), P.CHECKING),
    (P.COMPUTING, "retry"): _to(lambda c, s, a, i: handover.retry(c, s, i), P.COMPUTING, *_ONWARD),
    (P.IDLE, "retry"): _to(lambda c, s, a, i: handover.retry(c, s, i), P.IDLE, P.CHECKING),
    (P.PUBLISHING, "retry"): _to(lambda c, s, a, i: results.remind(c, s, i), P.PUBLISHING),
    (P.DONE, "retry"): _to(lambda c, s, a, i: results.remind(c, s, i), P.DONE),
    (P.DONE, "linger over"): _to(lambda c, s, a, i: results.leave(c, s, i), P.DONE),
}


class Lookout(NamedTuple):
    """A handler of the watch, and the watches it may lead to."""

    run: Callable[[Context, State, int, Any, Inputs], Step]
    to: frozenset[Watch]


W = Watch

#: (watch, outcome) -> what happens about a token that may be lost; RESTING also asks around after a restart.
WATCH: Mapping[tuple[Watch, str], Lookout] = {
    (W.RESTING, "lease over"): Lookout(
        lambda c, s, p, a, i: election.watch(c, s, i), frozenset({W.RESTING, W.PROBING, W.LOCATING})
    ),
    **{
        (searching, "lease over"): Lookout(lambda c, s, p, a, i: election.watch(c, s, i), frozenset({searching}))
        for searching in (W.PROBING, W.LOCATING, W.FENCING)
    },
    (W.RESTING, "located"): Lookout(election.checked, frozenset({W.RESTING})),
    (W.PROBING, "located"): Lookout(election.probed, frozenset({W.RESTING, W.LOCATING})),
    (W.LOCATING, "located"): Lookout(election.locating, frozenset({W.LOCATING, W.RESTING, W.FENCING})),
    (W.FENCING, "promised"): Lookout(election.voted, frozenset({W.FENCING, W.RESTING})),
}


def step(ctx: Context, state: State, event: Event, inputs: Inputs) -> Step:
    """One transition. ``Persist`` of every durable change comes before all other effects."""
    after, effects = _transition(ctx, state, event, inputs)
    if after.durable is not state.durable:
        changes = diff(state.durable, after.durable)
        if changes:
            effects = [Persist(changes, _needs_sync(changes)), *effects]
    return after, effects


MAPPINGS = frozenset({"edges", "taken", "given", "votes"})


def diff(before: Durable, after: Durable) -> dict[str, Any]:
    """Changed fields; of a mapping, the changed entries only."""
    changes: dict[str, Any] = {}
    was = vars(before)
    for name, new in vars(after).items():
        old = was[name]
        if new is old or new == old:
            continue
        if name in MAPPINGS:
            changes[name] = {key: value for key, value in new.items() if old.get(key) != value}
        else:
            changes[name] = new
    return changes


def merge(before: Mapping[str, Any], changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Two changes in a row as one."""
    if not before:
        return changes
    mixed = {name: {**before[name], **changes[name]} for name in MAPPINGS if name in before and name in changes}
    return {**before, **changes, **mixed}


def apply(durable: Durable, changes: Mapping[str, Any]) -> Durable:
    """The inverse of ``diff``: replaying all changes from the first gives the durable state back."""
    merged: dict[str, Any] = {
        name: {**getattr(durable, name), **value} if name in MAPPINGS else value for name, value in changes.items()
    }
    return durable._replace(**merged)


def _needs_sync(changes: Mapping[str, Any]) -> bool:
    """An acknowledgement seen, or a vote received, can be asked for again; everything else must survive power loss."""
    return not changes.keys() <= {"given", "votes"}


def _transition(ctx: Context, state: State, event: Event, inputs: Inputs) -> Step:
    match event:
        case Received(peer, ticket, request):
            return _request(ctx, state, peer, ticket, request, inputs)
        case Answered(peer, attempt, request, answer):
            return _answer(ctx, state, peer, attempt, request, answer, inputs)
        case Tick():
            return _tick(ctx, state, inputs)
        case Computed(_, visit):
            custody = state.durable.custody
            if custody is None or custody.visit != visit:
                return state, []  # of a token given up meanwhile
            return _custody(ctx, state, "computed", event, inputs)
        case Begin(again):
            return restart.resume(ctx, state, inputs, again=again)
        case Cold(peer):
            return handover.cold(state, peer), []
        case Stopping():
            return state._replace(draining=True, grants={}), []
        case PersistFailed(cause):
            return _disk_failed(ctx, state, cause, inputs)


def _custody(ctx: Context, state: State, outcome: str, argument: object, inputs: Inputs) -> Step:
    transition = CUSTODY.get((state.phase, outcome))
    if transition is None:
        return state, []
    after, effects = transition.run(ctx, state, argument, inputs)
    # give_up (a newer epoch) and adopt (a final result) may end any phase.
    assert after.phase in transition.to or after.phase in (P.IDLE, P.DONE), (state.phase, outcome, after.phase)
    return after, effects


def _request(ctx: Context, state: State, peer: int, ticket: int, request: Request, inputs: Inputs) -> Step:
    state, up = _seen_alive(ctx, trust.noted(state, peer, request), peer, inputs)
    match request:
        case Handoff():
            after, effects = handover.handed(ctx, state, peer, ticket, request, inputs)
        case Offer():
            after, effects = handover.offered(ctx, state, peer, ticket, request, inputs)
        case Locate():
            after, effects = election.located(ctx, state, peer, ticket)
        case Fence():
            after, effects = election.fenced(ctx, state, peer, ticket, request, inputs)
        case Publish():
            after, effects = results.published(ctx, state, peer, ticket, request, inputs)
    return after, up + effects


def _seen_alive(ctx: Context, state: State, peer: int, inputs: Inputs) -> Step:
    if peer not in state.down:
        return state, []
    down = {user: until for user, until in state.down.items() if user != peer}
    return state._replace(down=down), [Log(peer_line(ctx, peer, "up", inputs))]


_OUTCOME: Mapping[type, str] = {
    Granted: "granted",
    Already: "already",
    Declined: "declined",
    Accepted: "accepted",
    Refused: "refused",
    type(None): "no answer",
}


def _answer(
    ctx: Context, state: State, peer: int, attempt: int, request: Request, answer: Answer | None, inputs: Inputs
) -> Step:
    """Route an answer to whoever waits for it; an answer to an older attempt is stale."""
    state = trust.noted(state, peer, answer)
    match request:
        case Offer() | Handoff():
            expected = P.OFFERING if isinstance(request, Offer) else P.HANDING
            if attempt != state.attempt or state.phase is not expected:
                return state, []
            answer = trust.trusted(ctx, state, answer, inputs)
            outcome = _OUTCOME[type(answer)]
            if (state.phase, outcome) not in CUSTODY:  # an answer to another question is none
                outcome, answer = "no answer", None
            return _custody(ctx, state, outcome, answer, inputs)
        case Publish():
            if attempt != state.attempt or peer not in state.publishing:
                return state, []
            answer = trust.trusted(ctx, state, answer, inputs)
            assert answer is None or isinstance(answer, Published)
            run = results.spread if state.phase is P.PUBLISHING else results.served
            return run(ctx, state, peer, answer, inputs)
        case Locate() | Fence():
            if attempt != state.query or peer not in state.asked:
                return state, []
            answer = trust.trusted(ctx, state, answer, inputs)
            outcome = "promised" if isinstance(request, Fence) else "located"
            assert answer is None or isinstance(answer, Promise if isinstance(request, Fence) else Located)
            return _watch(ctx, state, outcome, peer, answer, inputs)


def _watch(ctx: Context, state: State, outcome: str, peer: int, answer: Answer | None, inputs: Inputs) -> Step:
    lookout = WATCH.get((state.watch, outcome))
    if lookout is None:
        return state, []
    after, effects = lookout.run(ctx, state, peer, answer, inputs)
    assert after.watch in lookout.to, (state.watch, outcome, after.watch)
    return after, effects


def _tick(ctx: Context, state: State, inputs: Inputs) -> Step:
    """The earliest due wait, one at a time: the runtime ticks again while something is due."""
    if state.stop_at is not None and inputs.now >= state.stop_at:
        return _custody(ctx, state, "linger over", None, inputs)
    if state.disk_retry_at is not None and inputs.now >= state.disk_retry_at:
        state = state._replace(disk_full=False, disk_retry_at=None)
    if state.retry_at is not None and inputs.now >= state.retry_at:
        return _custody(ctx, state, "retry", None, inputs)
    if state.watch_at is not None and inputs.now >= state.watch_at:
        return _watch(ctx, state, "lease over", ctx.me, None, inputs)
    return state, []


def _disk_failed(ctx: Context, state: State, cause: Event, inputs: Inputs) -> Step:
    """The old state stands. A peer gets a typed no (definite: its token goes elsewhere); own business waits."""
    if not isinstance(cause, Received):
        return restart.disk_refused(ctx, state, cause, inputs)
    promised = state.durable.promised
    answers: dict[type, Answer] = {
        Offer: Declined(Why.BUSY, promised),
        Handoff: Refused(Why.BUSY, promised),
        Fence: Promise(False, Why.BUSY, promised, election.rank(ctx, state), None, False),
        Publish: Published(False, NO_EPOCH),
    }
    grants = {user: grant for user, grant in state.grants.items() if user != cause.peer}
    watch_at = state.watch_at if state.watch_at is not None else inputs.now + ctx.timing.lease_s
    retry_at = inputs.now + ctx.timing.retry_max_s
    state = state._replace(grants=grants, disk_full=True, disk_retry_at=retry_at, watch_at=watch_at)
    note = Note("error", "the disk took no journal record: refusing tokens; free some space")
    return state, [note, Reply(cause.ticket, answers[type(cause.request)])]
