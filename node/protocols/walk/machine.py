"""The protocol as one pure function and two tables.

Theory of operation. A user is a state and ``step(ctx, state, event, inputs) -> (state, effects)``; clock, dice, noise
come in with ``inputs``. Every event has a name and a row in a table, ``CUSTODY`` or, for a token that may be lost,
``WATCH``: the handler that runs, and where it may lead. A handler sets state and returns. What a state leads to by
itself (``PROGRESS``) then fires until nothing more does. ``step`` checks that each of them ends where its row says, and
puts the change of the durable half in front of all other effects. So: what was not journaled was never sent.
docs/PROTOCOL.md draws its diagrams from these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from node.protocols.effects import (
    Answered,
    Begin,
    Log,
    Persist,
    PersistFailed,
    Received,
    Reply,
    Stopping,
    StreamClosed,
    Tick,
)
from node.protocols.walk import arrival, election, handover, restart, results, roll_call, trust
from node.protocols.walk.effects import Computed, Effect, Event
from node.protocols.walk.messages import (
    Accepted,
    Already,
    Answer,
    Declined,
    Fence,
    Granted,
    Handoff,
    Locate,
    Offer,
    Publish,
    Refused,
    Request,
)
from node.protocols.walk.state import Context, Inputs, Phase, State, Step, Watch, diff, without
from node.protocols.walk.view_lines import peer_line

Handler = Callable[[Context, State, Any, Inputs], Step]


class Transition(NamedTuple):
    """A handler and the phases it may lead to."""

    run: Handler
    to: frozenset[Phase]


class WatchTransition(NamedTuple):
    """A handler of the watch, the watches it may lead to, and the phases."""

    run: Handler
    to: frozenset[Watch]
    phases: frozenset[Phase]


P, W = Phase, Watch
_AT_REST = tuple(phase for phase in Phase if phase not in (P.READY, P.TOO_FEW))
_REROUTED = (P.READY, P.TOO_FEW)
_TAKEN = (P.COMPUTING, P.READY, P.TOO_FEW)


def _rows(event: str, phases: Iterable[Phase], run: Handler, *to: Phase) -> dict[tuple[Phase, str], Transition]:
    return {(phase, event): Transition(run, frozenset(to)) for phase in phases}


def _any(event: str, run: Handler, *to: Phase) -> dict[tuple[Phase, str], Transition]:
    """In every phase, which may stay as it is."""
    return {(phase, event): Transition(run, frozenset({phase, *to})) for phase in _AT_REST}


#: (phase, event) -> what happens. An event that is not listed for a phase is stale and changes nothing.
CUSTODY: Mapping[tuple[Phase, str], Transition] = {
    **_rows("begin", [P.IDLE], restart.on_begin, P.IDLE, P.CHECKING, P.WAITING, P.DONE),
    **_any("offer", arrival.on_offer, P.IDLE, P.CHECKING),
    **_any("handoff", arrival.on_handoff, P.IDLE, *_TAKEN),
    **_rows("computed", [P.COMPUTING], handover.on_computed, *_TAKEN),
    **_rows("granted", [P.OFFERING], handover.on_granted, P.HANDING),
    **_rows("already", [P.OFFERING], handover.on_already, P.IDLE, *_REROUTED),
    **_rows("declined", [P.OFFERING], handover.on_declined, P.IDLE, P.ROUTING, *_REROUTED),
    **_rows("no answer", [P.OFFERING], handover.on_offer_lost, P.WAITING, P.ROUTING, *_REROUTED),
    **_rows("accepted", [P.HANDING], handover.on_accepted, P.IDLE),
    **_rows("refused", [P.HANDING], handover.on_declined, P.IDLE, P.ROUTING, *_REROUTED),
    **_rows("no answer", [P.HANDING], handover.on_handoff_lost, P.WAITING),
    **_rows("retry", [P.ROUTING, P.WAITING], handover.on_retry, P.READY),
    **_rows("retry", [P.COMPUTING], handover.on_retry, *_TAKEN),
    **_rows("retry", [P.STALLED], handover.on_retry, P.STALLED, *_REROUTED),
    **_rows("retry", [P.IDLE], handover.on_retry, P.IDLE, P.CHECKING),
    **_rows("retry", [P.CHECKING], handover.on_retry, P.CHECKING),
    **_rows("retry", [P.PUBLISHING], results.on_retry, P.PUBLISHING),
    **_rows("retry", [P.DONE], results.on_retry, P.DONE),
    **_any("publish", results.on_publish, P.IDLE, P.CHECKING, P.DONE),
    **_rows("published", [P.PUBLISHING], results.on_published, P.PUBLISHING, P.IDLE, P.DONE),
    **_rows("published", [P.DONE], results.on_served, P.DONE),
    **_rows("linger over", [P.DONE], results.on_linger_over, P.DONE),
    **_any("locate", election.on_locate),
    **_any("fence", election.on_fence, P.IDLE, P.CHECKING),
    **_any("stream closed", handover.on_stream_closed),
    **_any("stopping", restart.on_stopping),
    **_any("disk full", restart.on_disk_full, P.WAITING, P.ROUTING),
}

#: A walk without faults takes these arrows, and no others from one phase to another.
HAPPY_PATH: tuple[tuple[Phase, str, Phase], ...] = (
    (P.IDLE, "begin", P.CHECKING),
    (P.CHECKING, "located", P.COMPUTING),
    (P.CHECKING, "located", P.READY),
    (P.IDLE, "handoff", P.COMPUTING),
    (P.COMPUTING, "computed", P.READY),
    (P.IDLE, "handoff", P.READY),
    (P.READY, "", P.CHECKING),
    (P.READY, "", P.OFFERING),
    (P.OFFERING, "granted", P.HANDING),
    (P.READY, "", P.HANDING),
    (P.HANDING, "accepted", P.IDLE),
    (P.READY, "", P.ROUTING),  # a hop to itself is two transitions
    (P.ROUTING, "retry", P.READY),
    (P.READY, "", P.PUBLISHING),
    (P.PUBLISHING, "published", P.DONE),
    (P.HANDING, "publish", P.IDLE),  # the end comes before the last acknowledgement
    (P.IDLE, "publish", P.DONE),
    (P.IDLE, "located", P.DONE),
)

Progress = Callable[[Context, State, Inputs], Step]

#: What a phase leads to by itself, within the same transition.
PROGRESS: Mapping[Phase, tuple[Progress, frozenset[Phase]]] = {
    P.READY: (
        handover.go_on,
        frozenset({P.CHECKING, *_TAKEN, P.ROUTING, P.OFFERING, P.HANDING, P.PUBLISHING}),
    ),
    P.TOO_FEW: (handover.stall, frozenset({P.STALLED})),
}


def _watch_row(run: Handler, to: Iterable[Watch], phases: Iterable[Phase] = ()) -> WatchTransition:
    return WatchTransition(run, frozenset(to), frozenset(phases))


#: (watch, event) -> what happens about a token that may be lost; RESTING also asks around after a restart.
WATCH: Mapping[tuple[Watch, str], WatchTransition] = {
    (W.RESTING, "lease over"): _watch_row(election.on_lease_over, [W.RESTING, W.PROBING, W.LOCATING]),
    (W.PROBING, "lease over"): _watch_row(election.on_lease_over, [W.PROBING]),
    (W.LOCATING, "lease over"): _watch_row(election.on_lease_over, [W.LOCATING]),
    (W.FENCING, "lease over"): _watch_row(election.on_lease_over, [W.FENCING]),
    (W.RESTING, "located"): _watch_row(roll_call.on_located, [W.RESTING], [P.IDLE, P.CHECKING, *_TAKEN, P.DONE]),
    (W.PROBING, "located"): _watch_row(election.on_probed, [W.RESTING, W.LOCATING]),
    (W.LOCATING, "located"): _watch_row(election.on_located, [W.LOCATING, W.RESTING, W.FENCING], [P.IDLE, P.DONE]),
    (W.FENCING, "promised"): _watch_row(election.on_promised, [W.FENCING, W.RESTING], [P.IDLE, *_TAKEN, P.PUBLISHING]),
}


def step(ctx: Context, state: State, event: Event, inputs: Inputs) -> Step:
    """One transition. ``Persist`` of every durable change comes before all other effects."""
    after, effects = _progress(ctx, *_transition(ctx, state, event, inputs), inputs)
    if after.durable is not state.durable:
        changes = diff(state.durable, after.durable)
        if changes:
            effects = [Persist(changes, _needs_sync(changes)), *effects]
    return after, effects


def _needs_sync(changes: Mapping[str, Any]) -> bool:
    """An acknowledgement seen, or a vote received, can be asked for again; everything else must survive power loss."""
    return not changes.keys() <= {"given", "votes"}


def _progress(ctx: Context, state: State, effects: list[Effect], inputs: Inputs) -> Step:
    """To the fixed point. A reply to who handed the token over comes last: the token waits for nobody."""
    onward: list[Effect] = []
    while (found := PROGRESS.get(state.phase)) is not None:
        run, to = found
        before = state.phase
        state, more = run(ctx, state, inputs)
        assert state.phase in to, (before, state.phase)
        onward += more
    if not onward:
        return state, effects
    last = effects[-1:] if effects and isinstance(effects[-1], Reply) else []
    return state, [*effects[: len(effects) - len(last)], *onward, *last]


def _transition(ctx: Context, state: State, event: Event, inputs: Inputs) -> Step:
    match event:
        case Received(peer, _, request):
            state, up = _seen_alive(ctx, trust.noted(state, peer, request), peer, inputs)
            state, effects = _custody(ctx, state, _REQUESTS[type(request)], event, inputs)
            return state, up + effects
        case Answered():
            return _answer(ctx, state, event, inputs)
        case Tick():
            return _tick(ctx, state, event, inputs)
        case Computed():
            return _custody(ctx, state, "computed", event, inputs)
        case Begin():
            return _custody(ctx, state, "begin", event, inputs)
        case StreamClosed():
            return _custody(ctx, state, "stream closed", event, inputs)
        case Stopping():
            return _custody(ctx, state, "stopping", event, inputs)
        case PersistFailed():
            return _custody(ctx, state, "disk full", event, inputs)


def _custody(ctx: Context, state: State, name: str, event: Event, inputs: Inputs) -> Step:
    transition = CUSTODY.get((state.phase, name))
    if transition is None:
        return state, []
    after, effects = transition.run(ctx, state, event, inputs)
    assert after.phase in transition.to, (state.phase, name, after.phase)
    return after, effects


def _watch(ctx: Context, state: State, name: str, event: Event, inputs: Inputs) -> Step:
    lookout = WATCH.get((state.watch, name))
    if lookout is None:
        return state, []
    after, effects = lookout.run(ctx, state, event, inputs)
    assert after.watch in lookout.to, (state.watch, name, after.watch)
    assert after.phase is state.phase or after.phase in lookout.phases, (state.watch, name, state.phase, after.phase)
    return after, effects


def _seen_alive(ctx: Context, state: State, peer: int, inputs: Inputs) -> Step:
    if peer not in state.down:
        return state, []
    return state._replace(down=without(state.down, peer)), [Log(peer_line(ctx, peer, "up", inputs))]


_REQUESTS: Mapping[type, str] = {
    Offer: "offer",
    Handoff: "handoff",
    Locate: "locate",
    Fence: "fence",
    Publish: "publish",
}

_OUTCOMES: Mapping[type, str] = {
    Granted: "granted",
    Already: "already",
    Declined: "declined",
    Accepted: "accepted",
    Refused: "refused",
    type(None): "no answer",
}


def _answer(ctx: Context, state: State, event: Answered[Request, Answer], inputs: Inputs) -> Step:
    """Route an answer to whoever waits for it; an answer to an older attempt is stale."""
    peer, attempt, request, _ = event
    state = trust.noted(state, peer, event.answer)
    match request:
        case Offer() | Handoff():
            expected = P.OFFERING if isinstance(request, Offer) else P.HANDING
            if attempt != state.attempt or state.phase is not expected:
                return state, []
            event = trust.trusted(ctx, state, event, inputs)
            name = _OUTCOMES[type(event.answer)]
            if (state.phase, name) not in CUSTODY:  # an answer to another question is none
                name = "no answer"
            return _custody(ctx, state, name, event, inputs)
        case Publish():
            if attempt != state.attempt or peer not in state.publishing:
                return state, []
            return _custody(ctx, state, "published", trust.trusted(ctx, state, event, inputs), inputs)
        case Locate() | Fence():
            if attempt != state.query or peer not in state.asked:
                return state, []
            name = "promised" if isinstance(request, Fence) else "located"
            return _watch(ctx, state, name, trust.trusted(ctx, state, event, inputs), inputs)


def _tick(ctx: Context, state: State, event: Tick, inputs: Inputs) -> Step:
    """The earliest due wait, one at a time: the runtime ticks again while something is due."""
    if state.stop_at is not None and inputs.now >= state.stop_at:
        return _custody(ctx, state, "linger over", event, inputs)
    if state.disk_retry_at is not None and inputs.now >= state.disk_retry_at:
        state = state._replace(disk_full=False, disk_retry_at=None)
    if state.retry_at is not None and inputs.now >= state.retry_at:
        return _custody(ctx, state, "retry", event, inputs)
    if state.watch_at is not None and inputs.now >= state.watch_at:
        return _watch(ctx, state, "lease over", event, inputs)
    return state, []
