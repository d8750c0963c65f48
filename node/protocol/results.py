"""The end: a result is final once a majority has journaled it under one epoch; then everybody gets it.

This is a vote on one value: a later epoch can only publish again what an earlier majority may have taken, so all final
copies are identical, whoever crashed in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from node.protocol import election, exits, memory, trust, visit
from node.protocol.effects import Effect, Finished, Log, Reply, Send, Stop
from node.protocol.messages import Located, Promise, Publish, Published, Result
from node.protocol.state import FINISH, Claim, Context, Inputs, Phase, State, Watch
from node.protocol.values import NO_EPOCH
from node.protocol.view_lines import abandoned_line, rejoined_line, result_line
from node.protocol.visit import Step

WITNESSES = 8  # of a final result, where a majority would be more: to ask n users n times each would be a flood
FEW_WITNESSES, CROWD = 4, 64


def finish(ctx: Context, state: State, inputs: Inputs) -> Step:
    """The last visit is over. ``release = "holder"``: the others get an end mark without the value."""
    custody = state.durable.custody
    assert custody is not None
    end = trust.end_of(custody.out, inputs) if ctx.release_all else inputs.dice.secret(trust.END_BYTES)
    kept = b"" if ctx.release_all else end + custody.out
    state = state._replace(durable=state.durable._replace(kept=kept), draft=None, handed=True)
    result = Result(custody.hop.epoch, end, bytes(custody.out) if ctx.release_all else b"")
    state, effects = publish(ctx, state, result, inputs)
    return state, [Log(custody.sent_line), *effects]


def witnesses_needed(ctx: Context) -> int:
    return min(ctx.majority, WITNESSES if ctx.n <= CROWD else FEW_WITNESSES)


def heard(state: State, peer: int, answer: Located) -> State:
    """One more answer. What is final stays so: such a word counts also when its speaker has left meanwhile."""
    state = state._replace(heard={**state.heard, peer: answer})
    if not answer.final or answer.result is None:
        return state
    return state._replace(finals={**state.finals, peer: answer.result.end})


def confirmed(ctx: Context, state: State) -> Result | None:
    """The result that somebody says is final, once enough users, this one included, say that they have journaled it:
    one user alone could say so of anything."""
    has = {**state.finals}
    has |= {user: answer.result.end for user, answer in state.heard.items() if answer.result is not None}
    claims = [answer.result for answer in state.heard.values() if answer.final and answer.result is not None]
    if state.claim is not None:
        has[state.claim.peer] = state.claim.result.end
        claims.append(state.claim.result)
    if state.durable.result is not None:
        has[ctx.me] = state.durable.result.end
    for claim in claims:
        if sum(end == claim.end for end in has.values()) >= witnesses_needed(ctx):
            return claim
    return None


class Reported(NamedTuple):
    """A result, and whether it rests on more than one user's word."""

    result: Result
    sure: bool


def reported(ctx: Context, state: State, votes: Mapping[int, Promise]) -> Reported | None:
    """The result to publish again: of the newest epoch, and one that a majority may have journaled, or that this user
    ended the walk with, or that two users say they have. One user's word against all others' is no end of a walk."""
    known = {user: vote.result for user, vote in votes.items()} | {ctx.me: state.durable.result}
    results = [result for result in known.values() if result is not None]
    for result in sorted(results, key=lambda result: result.epoch, reverse=True):
        users = sum(other.end == result.end for other in results)
        sure = users > 1 or _ended_here(state, result)
        if sure or len(known) - users <= ctx.n - ctx.majority:
            return Reported(result, sure)
    return None


def _ended_here(state: State, result: Result) -> bool:
    custody = state.durable.custody
    if custody is None or custody.next != FINISH:
        return False
    return custody.out == result.token or state.durable.kept[: trust.END_BYTES] == result.end


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


def spread(ctx: Context, state: State, peer: int, answer: Published | None, inputs: Inputs) -> Step:
    """One more acknowledgement of the result (not yet final). A majority makes it final, whoever promised what."""
    result = state.durable.result
    assert result is not None
    state = state._replace(publishing=state.publishing - {peer})
    if answer is not None:
        if answer.accepted:
            state = state._replace(unpublished=state.unpublished - {peer})
        else:
            state = state._replace(outbid=max(state.outbid, answer.promised))
    if state.publishing:
        return state, []
    if ctx.n - len(state.unpublished) >= ctx.majority:
        return _finalise(ctx, state, inputs)
    if state.outbid > result.epoch:
        return election.give_up(ctx, state, state.outbid, inputs)
    return _back_off(ctx, state, inputs), []


def _back_off(ctx: Context, state: State, inputs: Inputs) -> State:
    wait_s = min(ctx.timing.retry_max_s, ctx.timing.retry_base_s * 2.0 ** min(state.tries, 16))
    return state._replace(tries=state.tries + 1, retry_at=inputs.now + wait_s)


def _finalise(ctx: Context, state: State, inputs: Inputs) -> Step:
    state, effects = _close(ctx, state, inputs)
    state, more = _tell(state._replace(unpublished=ctx.others, tries=0))
    return state, effects + more


def _value(state: State) -> bytes:
    """The final token, where this user may know it; else nothing."""
    result, kept = state.durable.result, state.durable.kept
    assert result is not None
    return kept[trust.END_BYTES :] if kept[: trust.END_BYTES] == result.end else result.token


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
    """One more user has the final result; when all have, they are told so, and everybody may leave."""
    state = state._replace(publishing=state.publishing - {peer})
    if answer is not None and answer.accepted:
        state = state._replace(unpublished=state.unpublished - {peer})
    if state.publishing:
        return state, []
    if state.unpublished:
        return _back_off(ctx, state, inputs), []
    if state.farewell:
        return state, [Stop(exits.DONE, "the result is final and everybody has it")]
    return _tell(state._replace(unpublished=ctx.others, farewell=True, tries=0))


def remind(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Try again those that have not acknowledged."""
    return _tell(state)


def published(ctx: Context, state: State, peer: int, ticket: int, message: Publish, inputs: Inputs) -> Step:
    """A result arrives: journal it, unless a newer epoch was promised. That it is final others must say as well."""
    durable, result = state.durable, trust.readable(ctx, state, message.result, inputs)
    if result is None:
        return state, [Reply(ticket, Published(False, durable.promised))]
    if durable.final and durable.result is not None and durable.result.end != result.end:
        return state, [Reply(ticket, Published(False, durable.promised))]  # not the end that became final
    if durable.final:
        stop: list[Effect] = [Stop(exits.DONE, "the result is final")] if message.everybody else []
        return state, [Reply(ticket, Published(True, durable.promised)), *stop]
    if message.final:
        state = state._replace(claim=Claim(peer, result))
    if not state.checked and not (state.first_life and election.fresh(ctx, durable)):
        # To accept is to vote: not before others said what they remember of this user.
        state, effects = election.ensure_checked(ctx, state, inputs)
        return state, [Reply(ticket, Published(False, durable.promised)), *effects]
    # One vote per epoch: an old disk can end a walk a second time, under the epoch of the first end.
    voted = durable.result is not None and durable.result.epoch == result.epoch and durable.result.end != result.end
    taken, effects = result.epoch >= durable.promised and not voted, list[Effect]()
    if taken and result != durable.result:
        state, effects = _journal(ctx, state, result, inputs)
    if not message.final:
        return state, [*effects, Reply(ticket, Published(taken, state.durable.promised))]
    final = confirmed(ctx, state)
    state, more = adopt(ctx, state, final, inputs) if final else election.confirm(ctx, state, peer, inputs)
    return state, [*effects, Reply(ticket, Published(state.durable.final, state.durable.promised)), *more]


def _journal(ctx: Context, state: State, result: Result, inputs: Inputs) -> Step:
    """A vote for this result."""
    effects: list[Effect] = []
    if result.epoch > state.durable.promised:
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
