"""The ring's noise rule (THEORY.md#ring, ADR 13): whoever is skipped or refuses, every increment holds a full foreign
noise, and as many of them as it holds contributions of one user, so that S <= K."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from network_dp.topology import Ring
from node.protocols.walk.routing import Route, missing_units, pass_by, units_of
from node.protocols.walk.state import FINISH, Context, Mixed
from node.protocols.walk.values import Token
from node.protocols.walk.visit import extend
from simulator.faults.scenario import STAGES, cast

RINGS = {
    (ctx.n, bool(ctx.rule.share)): ctx
    for i, stage in enumerate(STAGES)
    for ctx in [cast(i).contexts[0]]
    if ctx.rule.by_ledger and stage.plan.caps.contributions is None
}

LONG = 1000  # rounds: longer than any pattern
GO, SKIP, REFUSE = range(3)  # what the user at a position does: take it, not answer the offer, see the bytes and refuse


class Walk:
    """A ring walk by the rule, with every noise component and every contribution named after who added it."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.token = Token(np.zeros(1, np.int64), 0, 0, 0, (0,) * ctx.n)
        self.noise: list[int] = []  # who added each component, in order
        self.data: list[int] = []  # who contributed, in order
        self.seen: dict[int, tuple[int, int]] = {}  # user -> components and contributions in its last token
        self.exposure: Counter[tuple[int, int]] = Counter()  # (u, v) -> S of u to v

    def add(self, me: int, units: int, real: bool) -> None:
        ctx = self.ctx._replace(me=me)
        self.token = extend(ctx, self.token, Mixed(self.token.payload, None, None, 0), units, real)
        self.noise += [me] * units
        self.data += [me] * real
        self.seen[me] = len(self.noise), len(self.data)

    def see(self, user: int) -> None:
        """The increment of ``user`` ends here: S grows by c^2 over its full noises."""
        noise, data = self.seen.get(user, (0, 0))
        foreign = sum(adder != user for adder in self.noise[noise:])
        assert foreign >= self.ctx.rule.full, f"u{user} sees an increment without one full foreign noise"
        for giver, count in Counter(self.data[data:]).items():
            self.exposure[giver, user] += count**2 * self.ctx.rule.full / foreign
        self.seen[user] = len(self.noise), len(self.data)


def walk(ctx: Context, pattern: tuple[int, ...]) -> Walk | None:
    """Follow a pattern of what users at positions 2, 3, ... do; None when a user would have to send to itself."""
    run, me, here = Walk(ctx), ctx.start, 1
    fresh = True  # nothing of this visit has left yet
    for position, deed in enumerate(pattern, start=2):
        user = ctx.topology.passed_by(position - 1, position + 1)[0]
        if user == me:
            return None
        if deed == SKIP:
            continue
        _send(run, me, here, Route(user, position), fresh)
        run.see(user)
        here = position
        if deed == REFUSE:
            fresh = False
            ledger = list(run.token.ledger)
            ledger[user] = run.token.noise_units
            run.token = run.token._replace(ledger=tuple(ledger))
        else:
            me, fresh = user, True
    _send(run, me, here, Route(FINISH, len(pattern) + 2), fresh)
    if ctx.release_all:
        for user in range(ctx.n):
            if user != me:
                run.see(user)
    return run


def _send(run: Walk, me: int, here: int, route: Route, fresh: bool) -> None:
    ctx = run.ctx._replace(me=me)
    run.token = pass_by(ctx, run.token, here, route)
    units = units_of(ctx, run.token, route.next) if fresh else missing_units(ctx, run.token, route.next, 0)
    run.add(me, units, fresh)


@pytest.mark.parametrize("spread", [False, True], ids=["Alg. 1", "spread"])
@pytest.mark.parametrize(("n", "length"), [(3, 9), (4, 9), (5, 9)])
@pytest.mark.parametrize("release", [True, False], ids=["all", "holder"])
def test_every_increment_holds_a_full_foreign_noise_under_all_skips_and_refusals(
    n: int, length: int, spread: bool, release: bool
) -> None:
    ctx = ring(n, spread, release)
    deeds = product((GO, SKIP, REFUSE), repeat=length - 1)
    walked = sum(walk(ctx, pattern) is not None for pattern in deeds)
    assert walked > 500


@pytest.mark.parametrize("spread", [False, True], ids=["Alg. 1", "spread"])
@pytest.mark.parametrize(("n", "rounds", "deeds"), [(3, 4, 2), (4, 3, 2), (5, 3, 2), (3, 3, 3)])
@pytest.mark.parametrize("release", [True, False], ids=["all", "holder"])
def test_a_ring_of_k_rounds_shows_at_most_k_whoever_is_skipped_and_comes_back(
    n: int, rounds: int, deeds: int, spread: bool, release: bool
) -> None:
    """THEORY.md#ring, #release: S <= K for every pair, under every pattern of deaths, returns and refusals."""
    ctx = ring(n, spread, release)
    worst, walked = 0.0, 0
    for pattern in product(range(deeds), repeat=n * rounds - 1):
        run = walk(ctx, pattern)
        if run is None:
            continue
        walked += 1
        most = max(run.exposure.values(), default=0.0)
        assert most <= rounds + 1e-9, f"S = {most:g} after {pattern}"
        worst = max(worst, most)
    assert walked > 100 and worst == pytest.approx(rounds)


def ring(n: int, spread: bool, release: bool) -> Context:
    ctx = RINGS.get((n, spread), RINGS[4, spread])
    names = tuple(f"u{i}" for i in range(n))
    rule = replace(ctx.rule, full=n - 1 if spread else 1)
    return ctx._replace(names=names, topology=Ring(n, 0, LONG), rule=rule, release_all=release)


@pytest.mark.parametrize("n", [3, 4, 5, 6])
@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 7])
def test_without_faults_the_number_of_noises_is_that_of_theorem_1_corrected(n: int, rounds: int) -> None:
    base = ring(n, spread=False, release=False)
    pattern = (GO,) * (rounds * n - 1)
    kept = walk(base, pattern)
    released = walk(base._replace(release_all=True), pattern)
    assert kept is not None and released is not None
    assert len(kept.noise) == math.ceil((rounds * n - 1) / (n - 1))
    assert len(released.noise) == len(kept.noise) + 1
