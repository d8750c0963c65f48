"""Where the token goes next, and how much noise must be in it (THEORY.md#absent-users, #ring, #release).

Nothing here looks at data or at the payload: the path never depends on them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from network_dp.topology import Next
from node.protocols.walk.state import FINISH, Context, Inputs, State
from node.protocols.walk.values import Token


class Route(NamedTuple):
    """The next user (or ``FINISH``) and the step it will have."""

    next: int
    step: int


def live(ctx: Context, state: State, now: float) -> Sequence[int]:
    """Users not known to be down, this one included."""
    if not state.down:
        return range(ctx.n)
    return [user for user in range(ctx.n) if user == ctx.me or state.down.get(user, now) <= now]


def can_go_on(ctx: Context, state: State, step: int, now: float) -> bool:
    """Are enough users alive for the token to leave a visit at ``step``?"""
    alive = live(ctx, state, now)
    return len(alive) >= ctx.min_live and not ctx.topology.awaited(ctx.me, step, alive)


def choose(ctx: Context, state: State, step: int, inputs: Inputs, *, barred: frozenset[int]) -> Route | None:
    """The next user after a visit at ``step``; None when too few users are alive to go on.

    Drawn among the users that the topology allows, by its weights (THEORY.md#absent-users, #graphs).
    ``barred`` ones are at their edge cap and the bytes are fixed.
    """
    drawn = ctx.topology.next(ctx.me, step, live(ctx, state, inputs.now))
    if drawn.step > ctx.total:  # nobody to go to is no end: a user's peers may all be down
        return Route(FINISH, drawn.step)
    if not can_go_on(ctx, state, step, inputs.now):
        return None
    return Route(_draw(ctx, drawn, inputs, barred) if ctx.topology.drawn else drawn.users[0], drawn.step)


def _draw(ctx: Context, drawn: Next, inputs: Inputs, barred: frozenset[int]) -> int:
    users, weights = drawn.users, drawn.weights
    if barred:
        kept = [place for place, user in enumerate(users) if user not in barred]
        users = [users[place] for place in kept] or [ctx.me]
        weights = None if weights is None or not kept else [weights[place] for place in kept]
    if weights is None:
        return users[inputs.dice.below(len(users))]
    sums = list(accumulate(weights))
    return users[bisect_right(sums, inputs.dice.below(sums[-1]))]


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
