"""The first event of a process, and what to do when the disk takes nothing."""

from __future__ import annotations

from node.protocol import election, memory, results
from node.protocol.effects import Answered, Computed, Effect, Event, Log, Note
from node.protocol.messages import Fence, Locate
from node.protocol.state import UNROUTED, Context, Inputs, Phase, State, Watch
from node.protocol.view_lines import abandoned_line
from node.protocol.visit import Step

START_S_PER_USER = 0.05  # a machine needs this long to bring one more user up
STAGGERED = 16


def _start_patience(ctx: Context) -> float:
    """How long to wait for a first sign of the walk: users near the starter look first, the others let them."""
    place = min((ctx.me - ctx.start - 1) % ctx.n, STAGGERED)
    return ctx.timing.start_timeout_s + START_S_PER_USER * ctx.n + place * ctx.timing.locate_timeout_s


def resume(ctx: Context, state: State, inputs: Inputs, *, again: bool = False) -> Step:
    """First event of a process: pick up where the journal ends. Bytes planned before a crash may have left.

    A user that ran before and took nothing yet may have been away while the others finished: it asks them."""
    durable, custody = state.durable, state.durable.custody
    lease = _start_patience(ctx) if durable.mark.step < 0 else ctx.timing.lease_s
    state = state._replace(
        watch_at=inputs.now + lease * (1.0 + inputs.dice.unit() * 0.25),
        first_life=not again and election.fresh(ctx, durable),
        woke=memory.woke(ctx, durable),
    )
    if state.first_life and not election.worth_asking(ctx, state):
        state = state._replace(checked=True)
    effects = _given_up(state, inputs)
    if durable.final:
        state, more = results.serve(ctx, state, inputs)
    elif durable.ended:
        state, more = state._replace(watch_at=inputs.now + ctx.timing.retry_base_s, handed=True), []
    elif custody is None:
        waits = state.first_life and not election.starts(ctx, state)
        state, more = (state, []) if waits else election.check(ctx, state, inputs)
    elif custody.hop.epoch < durable.promised or durable.acked:
        # Others may have gone on meanwhile: ask soon.
        state = state._replace(handed=True, watch_at=inputs.now + ctx.timing.retry_max_s * inputs.dice.unit())
        state, more = election.check(ctx, state, inputs)
    elif custody.next == UNROUTED:
        # First of all: an old disk would compute, with other noise, what left long ago.
        state, more = election.check(ctx, state._replace(phase=Phase.CHECKING), inputs)
    else:
        state, more = state._replace(phase=Phase.WAITING, handed=True, retry_at=inputs.now), []
    return state, effects + more


def _given_up(state: State, inputs: Inputs) -> list[Effect]:
    """What the last transition before the crash may not have written to the view log any more; the lines of the visit
    itself are the journal's (``node/in_step.py``)."""
    durable, custody = state.durable, state.durable.custody
    if custody is None or custody.hop.epoch >= durable.promised or durable.acked or durable.final:
        return []
    return [Log(abandoned_line(custody, durable.promised, inputs))]


def disk_refused(ctx: Context, state: State, cause: Event, inputs: Inputs) -> Step:
    """The journal could not be written: the old state stands, and whatever the event was about is tried again later."""
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
