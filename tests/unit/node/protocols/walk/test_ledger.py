"""The ring's noise rule (THEORY.md#ring, ADR 13): whoever is skipped or refuses, every increment holds a full foreign
noise, and as many of them as it holds contributions of one user, so that S <= K."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from copy import copy
from dataclasses import replace

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
        self.me, self.here, self.position = ctx.start, 1, 1
        self.fresh = True  # nothing of this visit has left yet

    def copy(self) -> Walk:
        other = copy(self)
        other.noise, other.data = self.noise[:], self.data[:]
        other.seen, other.exposure = self.seen.copy(), self.exposure.copy()
        return other

    def add(self, units: int, real: bool) -> None:
        ctx = self.ctx._replace(me=self.me)
        self.token = extend(ctx, self.token, Mixed(self.token.payload, None, None, 0), units, real)
        self.noise += [self.me] * units
        self.data += [self.me] * real
        self.seen[self.me] = len(self.noise), len(self.data)

    def see(self, user: int) -> None:
        """The increment of ``user`` ends here: S grows by c^2 over its full noises."""
        noise, data = self.seen.get(user, (0, 0))
        foreign = sum(adder != user for adder in self.noise[noise:])
        assert foreign >= self.ctx.rule.full, f"u{user} sees an increment without one full foreign noise"
        for giver, count in Counter(self.data[data:]).items():
            self.exposure[giver, user] += count**2 * self.ctx.rule.full / foreign
        self.seen[user] = len(self.noise), len(self.data)

    def send(self, route: Route) -> None:
        ctx = self.ctx._replace(me=self.me)
        self.token = pass_by(ctx, self.token, self.here, route)
        owed = units_of(ctx, self.token, route.next) if self.fresh else missing_units(ctx, self.token, route.next, 0)
        self.add(owed, self.fresh)

    def goes_on(self, deed: int) -> bool:
        """The user at the next position does this; False when a user would have to send to itself."""
        self.position += 1
        user = self.ctx.topology.passed_by(self.position - 1, self.position + 1)[0]
        if user == self.me:
            return False
        if deed == SKIP:
            return True
        self.send(Route(user, self.position))
        self.see(user)
        self.here = self.position
        if deed == REFUSE:
            self.fresh = False
            ledger = list(self.token.ledger)
            ledger[user] = self.token.noise_units
            self.token = self.token._replace(ledger=tuple(ledger))
        else:
            self.me, self.fresh = user, True
        return True

    def finish(self) -> None:
        self.send(Route(FINISH, self.position + 1))
        if self.ctx.release_all:
            for user in range(self.ctx.n):
                if user != self.me:
                    self.see(user)


def walks(ctx: Context, length: int, deeds: int) -> Iterator[tuple[tuple[int, ...], Walk]]:
    """Every pattern of what users at positions 2, 3, ... do, with its walk; patterns share their beginnings."""
    begun: list[tuple[tuple[int, ...], Walk]] = [((), Walk(ctx))]
    while begun:
        pattern, run = begun.pop()
        if len(pattern) == length:
            run.finish()
            yield pattern, run
            continue
        for deed in range(deeds):
            longer = run.copy()
            if longer.goes_on(deed):
                begun.append(((*pattern, deed), longer))


def straight(ctx: Context, length: int) -> Walk:
    ((_, run),) = walks(ctx, length, GO + 1)
    return run


@pytest.mark.parametrize("spread", [False, True], ids=["Alg. 1", "spread"])
@pytest.mark.parametrize(("n", "length"), [(3, 9), (4, 9), (5, 9)])
@pytest.mark.parametrize("release", [True, False], ids=["all", "holder"])
def test_every_increment_holds_a_full_foreign_noise_under_all_skips_and_refusals(
    n: int, length: int, spread: bool, release: bool
) -> None:
    assert sum(1 for _ in walks(ring(n, spread, release), length - 1, REFUSE + 1)) > 500


@pytest.mark.parametrize("spread", [False, True], ids=["Alg. 1", "spread"])
@pytest.mark.parametrize(("n", "rounds", "deeds"), [(3, 4, 2), (4, 3, 2), (5, 3, 2), (3, 3, 3)])
@pytest.mark.parametrize("release", [True, False], ids=["all", "holder"])
def test_a_ring_of_k_rounds_shows_at_most_k_whoever_is_skipped_and_comes_back(
    n: int, rounds: int, deeds: int, spread: bool, release: bool
) -> None:
    """THEORY.md#ring, #release: S <= K for every pair, under every pattern of deaths, returns and refusals."""
    ctx = ring(n, spread, release)
    worst, walked = 0.0, 0
    for pattern, run in walks(ctx, n * rounds - 1, deeds):
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
    kept = straight(base, rounds * n - 1)
    released = straight(base._replace(release_all=True), rounds * n - 1)
    assert len(kept.noise) == math.ceil((rounds * n - 1) / (n - 1))
    assert len(released.noise) == len(kept.noise) + 1
