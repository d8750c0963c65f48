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


def live(ctx: Context, state: State, now: float) -> Sequence[int]:
    """Users not known to be down, this one included."""
    if not state.down:
        return range(ctx.n)
    return [user for user in range(ctx.n) if user == ctx.me or state.down.get(user, now) <= now]


def choose(ctx: Context, state: State, step: int, inputs: Inputs, *, barred: frozenset[int]) -> Route | None:
    """The next user after a visit at ``step``; None when too few users are alive to go on.

    Uniform over the users that the topology allows (THEORY.md#absent-users).
    ``barred`` ones are at their edge cap and the bytes are fixed.
    """
    alive = live(ctx, state, inputs.now)
    users, next_step = ctx.topology.next(step, alive)
    if not users:
        return Route(FINISH, next_step)
    if len(alive) < ctx.min_live:
        return None
    open_to = users if not barred else [user for user in users if user not in barred] or [ctx.me]
    return Route(open_to[inputs.dice.below(len(open_to)) if ctx.topology.drawn else 0], next_step)


def pass_by(ctx: Context, token: Token, position: int, route: Route, times: int = 1) -> Token:
    """The ledger for a route that leaves users out (``NoiseRule.passed_by``); ``times`` = -1 takes it back."""
    if not ctx.rule.by_ledger or route.step == position + 1:
        return token
    passed = ctx.topology.passed_by(position, route.step)
    return token._replace(ledger=ctx.rule.passed_by(token.ledger, passed, times))


def units_of(ctx: Context, token: Token, receiver: int) -> int:
    """Noise components a visit adds: by the ledger, or one full noise."""
    if not ctx.rule.by_ledger:
        return ctx.rule.full
    return ctx.rule.share + missing_units(ctx, token, receiver, ctx.rule.share)


def missing_units(ctx: Context, token: Token, receiver: int, own: int) -> int:
    """Components still missing for ``receiver`` when this hop adds ``own`` anyway. On a release (``FINISH``) everybody
    but the finisher receives (THEORY.md#release)."""
    if receiver != FINISH:
        seen = token.ledger[receiver]
    elif ctx.release_all:
        seen = max(w for user, w in enumerate(token.ledger) if user != ctx.me)
    else:
        return 0
    return ctx.rule.missing(token.noise_units + own, seen)
