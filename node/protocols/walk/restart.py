"""The first event of a process, and what to do when the disk takes nothing."""

from __future__ import annotations

from node.protocols.effects import Answered, Begin, Log, Note, PersistFailed, Received, Reply, Stopping
from node.protocols.walk import facts, memory, questions, results
from node.protocols.walk.effects import Computed, Effect, Event
from node.protocols.walk.messages import (
    Answer,
    Declined,
    Fence,
    Handoff,
    Locate,
    Offer,
    Promise,
    Publish,
    Published,
    Refused,
    Request,
    Why,
)
from node.protocols.walk.state import Arrived, Context, Inputs, Phase, State, Step, Watch, without
from node.protocols.walk.values import NO_EPOCH
from node.protocols.walk.view_lines import abandoned_line

START_S_PER_USER = 0.05  # a machine needs this long to bring one more user up
STAGGERED = 16


def _start_patience(ctx: Context) -> float:
    """How long to wait for a first sign of the walk: users near the starter look first, the others let them."""
    place = min((ctx.me - ctx.start - 1) % ctx.n, STAGGERED)
    return ctx.timing.start_timeout_s + START_S_PER_USER * ctx.n + place * ctx.timing.locate_timeout_s


def on_begin(ctx: Context, state: State, event: Begin, inputs: Inputs) -> Step:
    """First event of a process: pick up where the journal ends. Bytes planned before a crash may have left.

    A user that ran before and took nothing yet may have been away while the others finished: it asks them."""
    durable, custody = state.durable, state.durable.custody
    lease = _start_patience(ctx) if durable.high_water.step < 0 else ctx.timing.lease_s
    state = state._replace(
        watch_at=inputs.now + lease * (1.0 + inputs.dice.unit() * 0.25),
        first_life=not event.again and facts.fresh(ctx, durable),
        at_boot=memory.at_boot(ctx, durable),
    )
    if state.first_life and not facts.worth_asking(ctx, state):
        state = state._replace(checked=True)
    effects = _given_up(state, inputs)
    if durable.final:
        state, more = results.serve(ctx, state, inputs)
    elif durable.ended:
        state, more = state._replace(watch_at=inputs.now + ctx.timing.retry_base_s, handed=True), []
    elif custody is None:
        waits = state.first_life and not facts.starts(ctx, state)
        state, more = (state, []) if waits else questions.check(ctx, state, inputs)
    elif custody.hop.epoch < durable.promised or durable.acked:
        # Others may have gone on meanwhile: ask soon.
        state = state._replace(handed=True, watch_at=inputs.now + ctx.timing.retry_max_s * inputs.dice.unit())
        state, more = questions.check(ctx, state, inputs)
    elif isinstance(custody, Arrived):
        # First of all: an old disk would compute, with other noise, what left long ago.
        state, more = questions.check(ctx, state._replace(phase=Phase.CHECKING), inputs)
    else:
        state, more = state._replace(phase=Phase.WAITING, handed=True, retry_at=inputs.now), []
    return state, effects + more


def _given_up(state: State, inputs: Inputs) -> list[Effect]:
    """What the last transition before the crash may not have written to the view log any more; the lines of the visit
    itself are the journal's (``node/storage/in_step.py``)."""
    durable, custody = state.durable, state.durable.custody
    if custody is None or custody.hop.epoch >= durable.promised or durable.acked or durable.final:
        return []
    return [Log(abandoned_line(custody, durable.promised, inputs))]


def on_stopping(ctx: Context, state: State, event: Stopping, inputs: Inputs) -> Step:
    """Grant nothing more."""
    return state._replace(draining=True, grants={}), []


def on_disk_full(ctx: Context, state: State, event: PersistFailed[Event], inputs: Inputs) -> Step:
    """The journal could not be written: the old state stands. A peer gets a typed no (definite: its token goes
    elsewhere); own business is tried again later."""
    if isinstance(event.cause, Received):
        return _refuse(ctx, state, event.cause, inputs)
    return _wait(ctx, state, event.cause, inputs)


def _refuse(ctx: Context, state: State, cause: Received[Request], inputs: Inputs) -> Step:
    promised = state.durable.promised
    answers: dict[type, Answer] = {
        Offer: Declined(Why.BUSY, promised),
        Handoff: Refused(Why.BUSY, promised),
        Fence: Promise(False, Why.BUSY, promised, facts.rank(ctx, state), None, False),
        Publish: Published(False, NO_EPOCH),
    }
    watch_at = state.watch_at if state.watch_at is not None else inputs.now + ctx.timing.lease_s
    state = state._replace(
        grants=without(state.grants, cause.peer),
        disk_full=True,
        disk_retry_at=inputs.now + ctx.timing.retry_max_s,
        watch_at=watch_at,
    )
    note = Note("error", "the disk took no journal record: refusing tokens; free some space")
    return state, [note, Reply(cause.ticket, answers[type(cause.request)])]


def _wait(ctx: Context, state: State, cause: Event, inputs: Inputs) -> Step:
    at = inputs.now + ctx.timing.retry_max_s
    if isinstance(cause, Answered) and isinstance(cause.request, Locate | Fence):
        state = state._replace(watch=Watch.RESTING, watch_at=inputs.now + ctx.timing.lease_s, asked=frozenset())
        if not state.checked and state.phase in (Phase.IDLE, Phase.CHECKING):
            state = state._replace(retry_at=at)
    elif state.phase in (Phase.HANDING, Phase.OFFERING):
        state = state._replace(phase=Phase.WAITING if state.handed else Phase.ROUTING, retry_at=at)
    elif state.phase is not Phase.COMPUTING or isinstance(cause, Computed):
        state = state._replace(retry_at=None if state.phase is Phase.IDLE else at)
    note = Note("error", "the disk took no journal record; free some space")
    return state._replace(disk_full=True, disk_retry_at=at), [note]
