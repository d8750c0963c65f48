"""Where the token goes next, and how much noise must be in it (THEORY.md#absent-users, #ring, #release).

Nothing here looks at data or at the payload: the path never depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from node.protocol.state import FINISH, Context, Inputs, State
from node.protocol.values import Token


class Route(NamedTuple):
    """The next user (or ``FINISH``) and the step it will have."""

    next: int
    step: int


def holder_at(ctx: Context, position: int) -> int:
    """Ring: the user at a position; positions count 1, 2, 3, ... over all users, dead ones included."""
    return (ctx.start + position - 1) % ctx.n


def round_of(ctx: Context, position: int) -> int:
    return (position - 1) // ctx.n + 1


def live(ctx: Context, state: State, now: float) -> Sequence[int]:
    """Users not known to be down, this one included."""
    if not state.down:
        return range(ctx.n)
    return [user for user in range(ctx.n) if user == ctx.me or state.down.get(user, now) <= now]


def choose(ctx: Context, state: State, step: int, inputs: Inputs, *, barred: frozenset[int]) -> Route | None:
    """The next user after a visit at ``step``; None when too few users are alive to go on.

    Complete graph: uniform over the users not known to be down, the sender included (THEORY.md#absent-users). Ring:
    the next position whose user is not known to be down. ``barred`` users are at their edge cap and the bytes are
    fixed.
    """
    if ctx.ring:
        return _next_position(ctx, state, step, inputs.now)
    if step >= ctx.total:
        return Route(FINISH, step + 1)
    alive = live(ctx, state, inputs.now)
    if len(alive) < ctx.min_live:
        return None
    open_to = alive if not barred else [user for user in alive if user not in barred] or [ctx.me]
    return Route(open_to[inputs.dice.below(len(open_to))], step + 1)


def _next_position(ctx: Context, state: State, step: int, now: float) -> Route | None:
    alive = live(ctx, state, now)
    for position in range(step + 1, ctx.total + 1):
        holder = holder_at(ctx, position)
        if holder in alive:
            return Route(holder, position) if len(alive) >= ctx.min_live else None
    return Route(FINISH, ctx.total + 1)


def pass_by(ctx: Context, token: Token, position: int, route: Route, times: int = 1) -> Token:
    """Raise W_r by a full noise for every user between ``position`` and the route's: it misses a round.

    When it comes back, its window holds as many contributions of everybody else as rounds, c of them; with c full
    noises in it, it is worth c^2 / c, what c windows of one round would be worth: S <= K whoever is skipped (ADR 13).
    ``times`` = -1 takes it back, for bytes that go elsewhere.
    """
    if not ctx.ledger or route.step == position + 1:
        return token
    ledger = list(token.ledger)
    for passed in range(position + 1, route.step):
        ledger[holder_at(ctx, passed)] += times * ctx.full
    return token._replace(ledger=tuple(ledger))


def units_of(ctx: Context, token: Token, receiver: int) -> int:
    """Noise components a visit adds: by the ledger, or one full noise."""
    return units_for(ctx, token, receiver) if ctx.ledger else ctx.full


def units_for(ctx: Context, token: Token, receiver: int) -> int:
    """Noise components this hop adds, by the ledger rule (THEORY.md#ring-ledger): the receiver finds one full foreign
    noise, and one more for every time it was passed by.

    Each hop adds ``share``; before sending to r the sender brings W - W_r up to a full noise. Share 0 is Alg. 1, share
    1 of n - 1 the spread variant. On a release (``FINISH``) everybody but the finisher is a receiver
    (THEORY.md#release).
    """
    return ctx.share + missing_units(ctx, token, receiver, ctx.share)


def missing_units(ctx: Context, token: Token, receiver: int, own: int) -> int:
    """Components still missing for ``receiver`` when this hop adds ``own`` anyway."""
    if receiver != FINISH:
        seen = token.ledger[receiver]
    elif ctx.release_all:
        seen = max(w for user, w in enumerate(token.ledger) if user != ctx.me)
    else:
        return 0
    return max(0, ctx.full - (token.noise_units + own - seen))
