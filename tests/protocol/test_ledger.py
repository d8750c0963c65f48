"""The ring's noise rule (theory 3): one full foreign noise in every increment, whoever is skipped or refuses."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from node.protocol.routing import holder_at, missing_units, units_for
from node.protocol.state import FINISH, Context, Mixed
from node.protocol.values import Token
from node.protocol.visit import extend
from simulator.faults.scenario import STAGES, cast

RINGS = {
    (ctx.n, bool(ctx.share)): ctx
    for i, stage in enumerate(STAGES)
    for ctx in [cast(i).contexts[0]]
    if ctx.ledger and stage.plan.caps.contributions is None
}

GO, SKIP, REFUSE = range(3)  # what the user at a position does: take it, not answer the offer, see the bytes and refuse


class Walk:
    """A ring walk by the rule, with every noise component named after who added it."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.token = Token(np.zeros(1, np.int64), 0, 0, 0, (0,) * ctx.n)
        self.noise: list[int] = []  # who added each component, in order
        self.seen: dict[int, int] = {}  # user -> components in the last token it saw or sent

    def add(self, me: int, units: int) -> None:
        ctx = self.ctx._replace(me=me)
        self.token = extend(ctx, self.token, Mixed(self.token.payload, None, None, 0), units, False)
        self.noise += [me] * units

    def foreign(self, user: int) -> int:
        """Components of others in the increment ``user`` would see now."""
        return sum(adder != user for adder in self.noise[self.seen.get(user, 0) :])

    def see(self, user: int) -> None:
        assert self.foreign(user) >= self.ctx.full, f"u{user} sees an increment without one full foreign noise"
        self.seen[user] = len(self.noise)


def walk(ctx: Context, pattern: tuple[int, ...]) -> Walk | None:
    """Follow a pattern of what users at positions 2, 3, ... do; None when a user would have to send to itself."""
    run, me = Walk(ctx), holder_at(ctx, 1)
    fresh = True  # nothing of this visit has left yet
    for position, deed in enumerate(pattern, start=2):
        user = holder_at(ctx, position)
        if user == me:
            return None
        if deed == SKIP:
            continue
        here = ctx._replace(me=me)
        run.add(me, units_for(here, run.token, user) if fresh else missing_units(here, run.token, user, 0))
        run.seen[me] = len(run.noise)
        run.see(user)
        if deed == REFUSE:
            fresh = False
            ledger = list(run.token.ledger)
            ledger[user] = run.token.noise_units
            run.token = run.token._replace(ledger=tuple(ledger))
        else:
            me, fresh = user, True
    finisher = ctx._replace(me=me)
    run.add(me, units_for(finisher, run.token, FINISH) if fresh else missing_units(finisher, run.token, FINISH, 0))
    run.seen[me] = len(run.noise)
    if ctx.release_all:
        for user in range(ctx.n):
            if user != me:
                run.see(user)
    return run


@pytest.mark.parametrize("spread", [False, True], ids=["Alg. 1", "spread"])
@pytest.mark.parametrize(("n", "length"), [(3, 9), (4, 9), (5, 9)])
@pytest.mark.parametrize("release", [True, False], ids=["all", "holder"])
def test_every_increment_holds_a_full_foreign_noise_under_all_skips_and_refusals(
    n: int, length: int, spread: bool, release: bool
) -> None:
    ctx = RINGS.get((n, spread), RINGS[4, spread])
    names = tuple(f"u{i}" for i in range(n))
    ctx = ctx._replace(names=names, start=0, full=n - 1 if spread else 1, release_all=release)
    deeds = product((GO, SKIP, REFUSE), repeat=length - 1)
    walked = sum(walk(ctx, pattern) is not None for pattern in deeds)
    assert walked > 500


@pytest.mark.parametrize("n", [3, 4, 5, 6])
@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 7])
def test_without_faults_the_number_of_noises_is_that_of_theorem_1_corrected(n: int, rounds: int) -> None:
    base = RINGS[4, False]._replace(names=tuple(f"u{i}" for i in range(n)), start=0)
    pattern = (GO,) * (rounds * n - 1)
    kept = walk(base._replace(release_all=False), pattern)
    released = walk(base._replace(release_all=True), pattern)
    assert kept is not None and released is not None
    assert len(kept.noise) == math.ceil((rounds * n - 1) / (n - 1))
    assert len(released.noise) == len(kept.noise) + 1
