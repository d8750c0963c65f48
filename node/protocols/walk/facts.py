"""Where a user stands: what its state says of it, to itself and to others. Nothing here changes anything."""

from __future__ import annotations

from node.protocols.walk.state import HOLDING, Context, Durable, Phase, Planned, State
from node.protocols.walk.values import NO_HOP, Hop

SOMEBODY = -1  # a lost disk does not know from whom it took the last hop
CHECK_EVERYBODY_UP_TO = 64  # beyond, a restarted user asks a sample what it forgot: n users asking n would be a flood


def rank(ctx: Context, state: State) -> Hop:
    """The furthest hop this user could take up again."""
    durable = state.durable
    if durable.rejoined:
        return NO_HOP
    end = NO_HOP if durable.result is None else ctx.end_hop(durable.result.epoch)
    return max(end, furthest_sent(durable))


def furthest_sent(durable: Durable) -> Hop:
    return NO_HOP if durable.custody is None else durable.custody.out_hop


def responsible(ctx: Context, state: State) -> bool:
    """Is this user alive with a token of a valid epoch in hand (or about to start, or publishing)?"""
    custody = state.durable.custody
    current = custody is None or custody.hop.epoch >= state.durable.promised
    return (in_hand(ctx, state) and current) or state.phase in (Phase.PUBLISHING, Phase.DONE)


def in_hand(ctx: Context, state: State) -> bool:
    """Does this user surely hold the token? Not while its bytes may be with somebody else."""
    custody = state.durable.custody
    if state.phase in (Phase.COMPUTING, Phase.STALLED):
        return True
    to_itself = isinstance(custody, Planned) and custody.next == ctx.me
    return state.phase in HOLDING and (custody is None or not state.handed or to_itself)


def fresh(ctx: Context, durable: Durable) -> bool:
    """Nothing was journaled yet, so there is nothing to have forgotten (a lost disk is found out at start)."""
    return durable.high_water.step < 0 and durable.promised == (0, ctx.start) and not durable.rejoined


def worth_asking(ctx: Context, state: State) -> bool:
    """May a few peers know that this user, new to all appearance, is the copy of an untouched disk? In a large crowd
    those that do are too few to be found by asking a few. The starter always asks: it must not start twice."""
    return ctx.n <= CHECK_EVERYBODY_UP_TO or starts(ctx, state)


def starts(ctx: Context, state: State) -> bool:
    durable = state.durable
    return ctx.me == ctx.start and not durable.started and durable.high_water.step < 0 and not durable.rejoined


def high_water(state: State) -> Hop:
    """The furthest hop that this user has taken, or may have."""
    return max(state.durable.high_water, state.barrier)
