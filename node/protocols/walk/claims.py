"""What users say of the end of the walk, and when it is believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from node.protocols.walk import trust
from node.protocols.walk.messages import Located, Promise, Result
from node.protocols.walk.state import Context, Ended, State

WITNESSES = 8  # of a final result, where a majority would be more: to ask n users n times each would be a flood
FEW_WITNESSES, CROWD = 4, 64


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
    if not isinstance(custody, Ended):
        return False
    return custody.out == result.token or state.durable.withheld[: trust.END_BYTES] == result.end
