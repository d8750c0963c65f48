"""What a visit will do to a long token, once its head is there and while its payload is still on its way.

A forecast, not a decision: it changes nothing, and ``handed`` decides by itself when the token is whole. It rests on
the same functions. So whoever reckons ahead by it (``node/ahead.py``) nearly always has what the transition needs.
"""

from __future__ import annotations

from typing import Any

from node.protocol import routing, visit
from node.protocol.handover import would_take
from node.protocol.messages import Handoff
from node.protocol.state import FINISH, Context, Foreseen, State
from node.protocol.values import TokenError, decode_head


def foresee(ctx: Context, state: State, peer: int, begun: Handoff, supply: Any, now: float) -> Foreseen | None:
    """``begun``: a hand-over with the first bytes of its token. ``supply``: the noise that the next visit will take.

    None where the token would not be taken, or where more than contribution and noise would be added to it."""
    if not would_take(ctx, state, peer, begun, now):
        return None
    if not ctx.worker.quick or ctx.edge_cap is not None or visit.is_capped(ctx, state.durable):
        return None
    try:
        token = decode_head(begun.token, **ctx.shape)
    except TokenError:
        return None
    route = routing.foreseen(ctx, state, begun.hop.step, now)
    if route is None or not token.contributions or not visit.plausible(ctx, token, begun.hop.step):
        return None
    if route.next == FINISH and ctx.release_all:
        return None
    received = routing.pass_by(ctx, token, begun.hop.step, route)
    units = routing.units_of(ctx, received, route.next)
    index = visit.next_index(ctx, state.durable, begun.hop)
    filler = ctx.worker.filler(index, supply, units)
    if filler is None:
        return None
    return Foreseen(index, supply, units, visit.outgoing_head(ctx, received, units), filler)
