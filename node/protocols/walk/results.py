"""The end: a result is final once a majority has journaled it under one epoch; then everybody gets it.

This is a vote on one value: a later epoch can only publish again what an earlier majority may have taken, so all final
copies are identical, whoever crashed in between.
"""

from __future__ import annotations

from node.protocols.effects import Answered, Finished, Log, Received, Reply, Send, Stop, Tick
from node.protocols.exits import DONE
from node.protocols.walk import claims, delivery, facts, leases, memory, questions, trust, visit
from node.protocols.walk.effects import Effect
from node.protocols.walk.messages import Publish, Published, Result
from node.protocols.walk.state import Arrived, Claim, Context, Ended, Inputs, Phase, Planned, State, Step, Watch
from node.protocols.walk.values import NO_EPOCH
from node.protocols.walk.view_lines import abandoned_line, rejoined_line, result_line


def finish(ctx: Context, state: State, inputs: Inputs) -> Step:
    """The last visit is over. ``release = "holder"``: the others get an end mark without the value."""
    custody = state.durable.custody
    assert isinstance(custody, Ended)
    end = trust.end_of(custody.out, inputs) if ctx.release_all else inputs.dice.secret(trust.END_BYTES)
    withheld = b"" if ctx.release_all else end + custody.out
    state = state._replace(durable=state.durable._replace(withheld=withheld), draft=None, handed=True)
    result = Result(custody.hop.epoch, end, bytes(custody.out) if ctx.release_all else b"")
    state, effects = publish(ctx, state, result, inputs)
    return state, [Log(custody.sent.line), *effects]


def publish(ctx: Context, state: State, result: Result, inputs: Inputs) -> Step:
    """Journal the result here, then ask everybody to."""
    state = state._replace(
        durable=state.durable._replace(result=result, promised=max(state.durable.promised, result.epoch)),
        phase=Phase.PUBLISHING,
        unpublished=ctx.others,
        outbid=NO_EPOCH,
        tries=0,
    )
    return _tell(state)


def _tell(state: State) -> Step:
    """Send the result to all that have not acknowledged it in its present standing."""
    result = state.durable.result
    assert result is not None
    attempt = state.attempt + 1
    state = state._replace(attempt=attempt, publishing=state.unpublished, retry_at=None)
    message = Publish(result, state.durable.final, state.farewell)
    return state, [Send(peer, attempt, message) for peer in sorted(state.unpublished)]


def on_published(ctx: Context, state: State, event: Answered[Publish, Published], inputs: Inputs) -> Step:
    """One more acknowledgement of the result (not yet final). A majority makes it final, whoever promised what."""
    peer, answer, result = event.peer, event.answer, state.durable.result
    assert result is not None
    state = state._replace(publishing=state.publishing - {peer})
    if answer is not None:
        if answer.accepted:
            durable = state.durable._replace(given={**state.durable.given, peer: ctx.end_hop(result.epoch)})
            state = state._replace(unpublished=state.unpublished - {peer}, durable=durable)
        else:
            state = state._replace(outbid=max(state.outbid, answer.promised))
    if state.publishing:
        return state, []
    if ctx.n - len(state.unpublished) >= ctx.majority:
        return _finalise(ctx, state, inputs)
    if state.outbid > result.epoch:
        return leases.give_up(ctx, state, state.outbid, inputs)
    return _back_off(ctx, state, inputs), []


def _back_off(ctx: Context, state: State, inputs: Inputs) -> State:
    return state._replace(tries=state.tries + 1, retry_at=inputs.now + ctx.timing.back_off_s(state.tries))


def _finalise(ctx: Context, state: State, inputs: Inputs) -> Step:
    state, effects = _close(ctx, state, inputs)
    state, more = _tell(state._replace(unpublished=ctx.others, tries=0))
    return state, effects + more


def _value(state: State) -> bytes:
    """The final token, where this user may know it; else nothing."""
    result, withheld = state.durable.result, state.durable.withheld
    assert result is not None
    return withheld[trust.END_BYTES :] if withheld[: trust.END_BYTES] == result.end else result.token


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


def on_served(ctx: Context, state: State, event: Answered[Publish, Published], inputs: Inputs) -> Step:
    """One more user has the final result; when all have, they are told so, and everybody may leave."""
    peer, answer = event.peer, event.answer
    state = state._replace(publishing=state.publishing - {peer})
    if answer is not None and answer.accepted:
        state = state._replace(unpublished=state.unpublished - {peer})
    if state.publishing:
        return state, []
    if state.unpublished:
        return _back_off(ctx, state, inputs), []
    if state.farewell:
        return state, [Stop(DONE, "the result is final and everybody has it")]
    return _tell(state._replace(unpublished=ctx.others, farewell=True, tries=0))


def on_retry(ctx: Context, state: State, event: Tick, inputs: Inputs) -> Step:
    """Try again those that have not acknowledged."""
    return _tell(state)


def on_publish(ctx: Context, state: State, event: Received[Publish], inputs: Inputs) -> Step:
    """A result arrives: journal it, unless a newer epoch was promised. That it is final others must say as well."""
    peer, ticket, message = event
    durable, result = state.durable, trust.readable(ctx, state, message.result, inputs)
    if result is None:
        return state, [Reply(ticket, Published(False, durable.promised))]
    if durable.final and durable.result is not None and durable.result.end != result.end:
        return state, [Reply(ticket, Published(False, durable.promised))]  # not the end that became final
    if durable.final:
        stop: list[Effect] = [Stop(DONE, "the result is final")] if message.everybody else []
        return state, [Reply(ticket, Published(True, durable.promised)), *stop]
    if message.final:
        state = state._replace(claim=Claim(peer, result))
    if not state.checked and not (state.first_life and facts.fresh(ctx, durable)):
        # To accept is to vote: not before others said what they remember of this user.
        state, effects = questions.ensure_checked(ctx, state, inputs)
        return state, [Reply(ticket, Published(False, durable.promised)), *effects]
    # One vote per epoch: an old disk can end a walk a second time, under the epoch of the first end.
    voted = durable.result is not None and durable.result.epoch == result.epoch and durable.result.end != result.end
    taken, effects = result.epoch >= durable.promised and not voted, list[Effect]()
    if taken:
        state, effects = _journal(ctx, state, peer, result, inputs)
    if not message.final:
        return state, [*effects, Reply(ticket, Published(taken, state.durable.promised))]
    final = claims.confirmed(ctx, state)
    state, more = adopt(ctx, state, final, inputs) if final else questions.confirm(ctx, state, peer, inputs)
    return state, [*effects, Reply(ticket, Published(state.durable.final, state.durable.promised)), *more]


def _journal(ctx: Context, state: State, peer: int, result: Result, inputs: Inputs) -> Step:
    """A vote for this result. Both sides remember it, as they do a hop: an old disk on either gives itself away."""
    effects: list[Effect] = []
    end, known = ctx.end_hop(result.epoch), result == state.durable.result
    if result.epoch > state.durable.promised:
        state, effects = leases.give_up(ctx, state, result.epoch, inputs)
    elif delivery.arrived_elsewhere(state, end):
        state, effects = delivery.delivered(ctx, state, inputs)
    state = state._replace(durable=state.durable._replace(taken={**state.durable.taken, peer: end}))
    if known:
        return state, effects
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
    return state, effects


def learn(ctx: Context, state: State, result: Result, inputs: Inputs) -> Step:
    """Others were asked, and the walk is over. A log with its result in it counts as whole: one that lacks what they
    remember says so."""
    heard = () if state.checked else state.heard.items()
    lacks = any(memory.remembers_more(state, peer, answer) for peer, answer in heard)
    state, effects = adopt(ctx, state, result, inputs)
    return state, [Log(rejoined_line(inputs))] * lacks + effects


def adopt(ctx: Context, state: State, result: Result, inputs: Inputs) -> Step:
    """A final result learned from a peer. What was still in hand of an older epoch is given up, and said so."""
    custody, given_up = state.durable.custody, list[Effect]()
    unacknowledged = isinstance(custody, Arrived | Planned) and not state.durable.acked
    if unacknowledged and custody is not None and custody.hop.epoch < result.epoch:
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


def on_linger_over(ctx: Context, state: State, event: Tick, inputs: Inputs) -> Step:
    """The linger is over; but not while somebody is being told: with many users one round takes longer than that."""
    if state.publishing:
        return state._replace(stop_at=inputs.now + ctx.timing.linger_s), []
    return state._replace(stop_at=None), [Stop(DONE, "the result is final")]
