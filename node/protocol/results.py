"""The end: a result is final once a majority has journaled it under one epoch; then everybody gets it.

This is a vote on one value: a later epoch can only publish again what an earlier majority may have taken, so all final
copies are identical, whoever crashed in between.
"""

from __future__ import annotations

from node.protocol import election, exits, visit
from node.protocol.effects import Effect, Finished, Log, Reply, Send, Stop
from node.protocol.messages import Publish, Published, Result
from node.protocol.state import FINISH, Context, Inputs, Phase, State, Watch
from node.protocol.view_lines import abandoned_line, result_line
from node.protocol.visit import Step

END_BYTES = 16


def finish(ctx: Context, state: State, inputs: Inputs) -> Step:
    """The last visit is over. ``release = "holder"``: the others get an end mark without the value."""
    custody = state.durable.custody
    assert custody is not None
    end = inputs.dice.secret(END_BYTES)
    kept = b"" if ctx.release_all else end + custody.out
    state = state._replace(durable=state.durable._replace(kept=kept), draft=None, handed=True)
    result = Result(custody.hop.epoch, end, bytes(custody.out) if ctx.release_all else b"")
    state, effects = publish(ctx, state, result, inputs)
    return state, [Log(custody.sent_line), *effects]


def publish(ctx: Context, state: State, result: Result, inputs: Inputs) -> Step:
    """Journal the result here, then ask everybody to."""
    state = state._replace(
        durable=state.durable._replace(result=result, promised=max(state.durable.promised, result.epoch)),
        phase=Phase.PUBLISHING,
        unpublished=ctx.others,
        tries=0,
    )
    return _tell(state, everybody=False)


def _tell(state: State, *, everybody: bool) -> Step:
    """Send the result to all that have not acknowledged it in its present standing."""
    result = state.durable.result
    assert result is not None
    attempt = state.attempt + 1
    state = state._replace(attempt=attempt, publishing=state.unpublished, retry_at=None)
    message = Publish(result, state.durable.final, everybody)
    return state, [Send(peer, attempt, message) for peer in sorted(state.unpublished)]


def spread(ctx: Context, state: State, peer: int, answer: Published | None, inputs: Inputs) -> Step:
    """One more acknowledgement of the result (not yet final)."""
    result = state.durable.result
    assert result is not None
    state = state._replace(publishing=state.publishing - {peer})
    if answer is not None:
        if not answer.accepted and answer.promised > result.epoch:
            return election.give_up(ctx, state, answer.promised, inputs)
        if answer.accepted:
            state = state._replace(unpublished=state.unpublished - {peer})
    if state.publishing:
        return state, []
    if ctx.n - len(state.unpublished) < ctx.majority:
        wait_s = min(ctx.timing.retry_max_s, ctx.timing.retry_base_s * 2.0 ** min(state.tries, 16))
        return state._replace(tries=state.tries + 1, retry_at=inputs.now + wait_s), []
    return _finalise(ctx, state, inputs)


def _finalise(ctx: Context, state: State, inputs: Inputs) -> Step:
    everybody = not state.unpublished
    state, effects = _close(ctx, state, inputs)
    state, more = _tell(state._replace(unpublished=ctx.others), everybody=everybody)
    return state, effects + more


def _value(state: State) -> bytes:
    """The final token, where this user may know it; else nothing."""
    result, kept = state.durable.result, state.durable.kept
    assert result is not None
    return kept[END_BYTES:] if kept[:END_BYTES] == result.end else result.token


def _close(ctx: Context, state: State, inputs: Inputs) -> Step:
    """The result is final here: write it down."""
    result = state.durable.result
    assert result is not None
    value = _value(state)
    token = visit.read_token(ctx, value) if value else None
    state = state._replace(
        durable=state.durable._replace(final=True),
        phase=Phase.DONE,
        watch=Watch.RESTING,
        watch_at=None,
        retry_at=None,
        draft=None,
        asked=frozenset(),
        stop_at=inputs.now + ctx.timing.linger_s,
    )
    line = result_line(ctx, result.epoch, token, inputs)
    return state, [Log(line), Finished(result, value)]


def served(ctx: Context, state: State, peer: int, answer: Published | None, inputs: Inputs) -> Step:
    """One more user knows that the result is final; when all do, this one may leave."""
    state = state._replace(publishing=state.publishing - {peer})
    if answer is not None and answer.accepted:
        state = state._replace(unpublished=state.unpublished - {peer})
    if state.publishing:
        return state, []
    if not state.unpublished:
        return state, [Stop(exits.DONE, "the result is final and everybody has it")]
    return state._replace(retry_at=inputs.now + ctx.timing.retry_max_s), []


def remind(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Try again those that have not acknowledged."""
    return _tell(state, everybody=False)


def published(ctx: Context, state: State, peer: int, ticket: int, message: Publish, inputs: Inputs) -> Step:
    """A result arrives: journal it, unless a newer epoch was promised (a final one is always right)."""
    durable, result = state.durable, message.result
    if durable.final and durable.result is not None and durable.result.end != result.end:
        return state, [Reply(ticket, Published(False, durable.promised))]  # not the end that became final
    if durable.final:
        stop: list[Effect] = [Stop(exits.DONE, "the result is final")] if message.everybody else []
        return state, [Reply(ticket, Published(True, durable.promised)), *stop]
    if message.final:
        state, effects = adopt(ctx, state, result, inputs)
        if message.everybody:
            effects = [*effects, Stop(exits.DONE, "the result is final and everybody has it")]
        return state, [Reply(ticket, Published(True, state.durable.promised)), *effects]
    if not state.checked and not (state.first_life and election.fresh(ctx, durable)):
        # To accept is to vote: not before others said what they remember of this user.
        state, effects = election.ensure_checked(ctx, state, inputs)
        return state, [Reply(ticket, Published(False, durable.promised)), *effects]
    if result.epoch < durable.promised:
        return state, [Reply(ticket, Published(False, durable.promised))]
    effects = []
    if result.epoch > durable.promised:
        state, effects = election.give_up(ctx, state, result.epoch, inputs)
    state = state._replace(
        durable=state.durable._replace(result=result),
        phase=Phase.IDLE,
        draft=None,
        retry_at=None,
        watch=Watch.RESTING,
        watch_at=inputs.now + ctx.timing.lease_s * (1.0 + inputs.dice.unit()),
        watch_round=0,
        asked=frozenset(),
    )
    return state, [*effects, Reply(ticket, Published(True, state.durable.promised))]


def adopt(ctx: Context, state: State, result: Result, inputs: Inputs) -> Step:
    """A final result learned from a peer. What was still in hand of an older epoch is given up, and said so."""
    custody, given_up = state.durable.custody, list[Effect]()
    if custody is not None and custody.next != FINISH and not state.durable.acked and custody.hop.epoch < result.epoch:
        given_up = [Log(abandoned_line(custody, result.epoch, inputs))]
    state = state._replace(durable=state.durable._replace(result=result), publishing=frozenset())
    state, effects = _close(ctx, state, inputs)
    return state, given_up + effects


def serve(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Started again after the end: answer late-comers, who look once a lease at least, then leave."""
    result = state.durable.result
    assert result is not None
    linger_s = max(ctx.timing.linger_s, 1.5 * ctx.timing.lease_s)
    state = state._replace(phase=Phase.DONE, watch_at=None, stop_at=inputs.now + linger_s, checked=True)
    value = _value(state)
    token = visit.read_token(ctx, value) if value else None
    return state, [Log(result_line(ctx, result.epoch, token, inputs)), Finished(result, value)]


def leave(ctx: Context, state: State, inputs: Inputs) -> Step:
    """The linger is over; but not while somebody is being told: with many users one round takes longer than that."""
    if state.publishing:
        return state._replace(stop_at=inputs.now + ctx.timing.linger_s), []
    return state._replace(stop_at=None), [Stop(exits.DONE, "the result is final")]
