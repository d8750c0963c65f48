"""What plans promise by default, found again by other means than the accountant's (THEORY.md#minorant, #profile).

Oracles: the least energy from its definition, in fractions, on every walk of up to nine steps;
and at n = 2000, T = 20 000 walks that are drawn where rare exposures are likely, weighted by what that changed.
"""

import itertools
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import binom

from network_dp import calibrate, exposure
from network_dp.accounting import gaussian, moments, profile
from network_dp.accounting.moments import Law
from network_dp.promise import DISCRETE_INFLATION


def energy(jumps, length):
    """Least energy of a cycle: from corner to corner of the staircase, always by the flattest way that stays below."""
    corners = [(0, 0), *((jump - 1, i) for i, jump in enumerate(jumps)), (length, len(jumps))]
    total, at = Fraction(0), 0
    while corners[at][0] < length:
        x, y = corners[at]
        slopes = [(Fraction(b - y, a - x), -i) for i, (a, b) in enumerate(corners) if a > x]
        slope, reached = min(slopes)
        total += slope * slope * (corners[-reached][0] - x)
        at = -reached
    return total


def exposure_of(task, walk, released):
    """S of user "u" to "v"; "o" is anybody else."""
    cycles = walk.split("v") if released else walk.split("v")[:-1]
    jumps = [[t for t, holder in enumerate(cycle, 1) if holder == "u"] for cycle in cycles]
    each = zip(jumps, map(len, cycles), strict=True)
    if task == "sgd":
        return sum(energy(at, length) for at, length in each if at)
    return sum(Fraction(len(at) ** 2, length) for at, length in each if at)


@lru_cache
def patterns(task, steps, released):
    """How many walks over v, u and others have which exposure, and how often v and u in them."""
    found = {}
    for walk in map("".join, itertools.product("vuo", repeat=steps)):
        key = exposure_of(task, walk, released), walk.count("v"), walk.count("u")
        found[key] = found.get(key, 0) + 1
    return found


def exact_law(law):
    """P(S = s), in fractions: v stands for any of the colluders."""
    n, c, found = law.n_users, law.colluders, {}
    for (value, seen, mine), count in patterns(law.task, law.n_steps, law.released).items():
        others = law.n_steps - seen - mine
        chance = count * Fraction(c, n) ** seen * Fraction(1, n) ** mine * Fraction(n - c - 1, n) ** others
        if chance:
            found[value] = found.get(value, 0) + chance
    assert sum(found.values()) == 1
    return np.array([float(value) for value in found]), np.array([float(chance) for chance in found.values()])


TINY = [
    pytest.param(Law(task, n, steps, c, released), marks=[] if steps < 7 else [pytest.mark.slow])
    for steps in (1, 2, 4, 6, 9)
    for task in ("sum", "sgd")
    for n in (2, 3, 4, 5)
    for c in range(1, n)
    for released in (False, True)
]


@pytest.mark.parametrize("law", TINY, ids=str)
def test_moments_are_those_of_all_walks(law):
    values, chances = exact_law(law)
    for b in (0.01, 0.7, 4.0):
        exact = math.log(float(chances @ np.exp(b * values)))
        assert exact - 1e-13 <= moments.log_moment(law, b) <= exact + 1e-10


@pytest.mark.parametrize("law", TINY[:: len(TINY) // 24], ids=str)
def test_delta_is_that_of_all_walks_rounded_up_a_little(law):
    values, chances = exact_law(law)
    for sigma, delta in itertools.product((0.5, 2.0), (1e-2, 1e-5)):
        found = profile.epsilon(law, sigma, 1.0, delta)
        exact = float(chances @ gaussian.deltas(np.sqrt(values) / sigma, found))
        assert exact <= delta
        assert found == 0 or exact > 0.9 * delta


def test_the_least_energy_is_the_least_of_all_ways():
    """By convexity a best A = a_1 + .. + a_t is straight between the points where it touches the stairs: try all."""
    for length in range(1, 9):
        for steps in itertools.product((0, 1), repeat=length):
            stairs = [0, *itertools.accumulate(steps)]
            ways = []
            for touched in itertools.product((False, True), repeat=length - 1):
                points = [0, *(t for t, is_one in enumerate(touched, 1) if is_one), length]
                pieces = list(itertools.pairwise(points))
                height = np.interp(range(length + 1), points, [stairs[t] for t in points])
                if (height <= np.array(stairs) + 1e-12).all():
                    ways.append(sum(Fraction((stairs[b] - stairs[a]) ** 2, b - a) for a, b in pieces))
            jumps = [t for t, is_mine in enumerate(steps, 1) if is_mine]
            assert energy(jumps, length) == min(ways)


def test_every_pair_of_a_walk_has_the_exposure_of_the_definition():
    rng = np.random.default_rng(4)
    for task, released in itertools.product(("sum", "sgd"), (False, True)):
        for _ in range(10):
            walk = rng.integers(4, size=30)
            found = exposure.matrix(walk, 4, task, released)
            for u, v in itertools.permutations(range(4), 2):
                text = "".join("v" if holder == v else "u" if holder == u else "o" for holder in walk)
                assert found[u, v] == pytest.approx(float(exposure_of(task, text, released)), abs=1e-12)


# --- importance sampling: cycles that are short, and contributions close to their end, are drawn too often

_OFTEN = 0.15


def _log_uniform(rng, last):
    """1 .. last, m with probability ln(1 + 1/m) / ln(1 + last)."""
    return np.minimum(np.floor((last + 1.0) ** rng.random(np.shape(last))), last)


def _drawn_cycles(law, left, rng):
    """Lengths of the next cycles (`left`: not seen any more), how many steps are u's, and weights."""
    p, n = 1 / law.n_users, law.n_users
    short = rng.random(left.size) < _OFTEN
    length = np.where(short, _log_uniform(rng, np.full(left.size, n)), rng.geometric(p, left.size) - 1.0)
    length = np.minimum(length, left)
    seen = length < left
    usual = np.where(seen, p, 1.0) * (1 - p) ** length
    at_least = np.log((n + 1) / np.clip(length, 1, n + 1)) / math.log(n + 1)  # P(log-uniform >= length)
    rare = np.where(
        seen, (length >= 1) * (length <= n) * np.log1p(1 / np.maximum(length, 1)) / math.log(n + 1), at_least
    )
    weight = usual / ((1 - _OFTEN) * usual + _OFTEN * rare)
    rate, m = 1 / (n - 1), np.maximum(length, 1).astype(np.int64)
    often = np.maximum(rate, np.minimum(1.0 / m, 0.5))
    forced = rng.random(left.size) < _OFTEN
    mine = np.where(forced, 1 + rng.binomial(m - 1, often), rng.binomial(m, rate))
    truth = binom.pmf(mine, m, rate)
    chosen = truth / ((1 - _OFTEN) * truth + _OFTEN * binom.pmf(mine - 1, m - 1, often))
    mine, chosen = np.where(length >= 1, mine, 0), np.where(length >= 1, chosen, 1.0)
    return length, np.where(seen, mine, 0), weight * np.where(seen, chosen, 1.0)


def _drawn_energy(length, mine, rng):
    """Energy of one cycle with `mine` contributions, and the weight: one of them is often drawn close to the end."""
    togo = set()
    if rng.random() < 0.5:
        togo.add(int(_log_uniform(rng, length)))
    while len(togo) < mine:
        togo.add(int(rng.integers(1, length + 1)))
    steps = np.array(sorted(togo, reverse=True), dtype=np.float64)
    density = np.log1p(1 / steps).sum() / math.log(length + 1)
    weight = 1 / (0.5 + 0.5 * density * length / mine)
    if mine == 1:
        return 1 / steps[0], weight
    return float(energy([length + 1 - int(g) for g in steps], length)), weight


def sampled(law, walks, seed):
    rng = np.random.default_rng(seed)
    left, total, weight = np.full(walks, float(law.n_steps)), np.zeros(walks), np.ones(walks)
    alive = np.arange(walks)
    while alive.size:
        length, mine, factor = _drawn_cycles(law, left[alive], rng)
        weight[alive] *= factor
        some = mine > 0
        if law.task == "sum":
            total[alive[some]] += mine[some] ** 2 / length[some]
        else:
            for walk, m, c in zip(alive[some].tolist(), length[some].tolist(), mine[some].tolist(), strict=True):
                more, factor = _drawn_energy(int(m), c, rng)
                total[walk] += more
                weight[walk] *= factor
        left[alive] -= length + 1
        alive = alive[left[alive] > 0]
    return total, weight


def drawn_delta(law, walks, mu, epsilon, seed):
    """delta of path and view together, and its standard error."""
    values, weights = sampled(law, walks, seed)
    assert abs(weights.mean() - 1) < 6 * weights.std() / math.sqrt(walks)
    each = weights * gaussian.deltas(mu * np.sqrt(values), epsilon)
    return float(each.mean()), float(each.std()) / math.sqrt(walks)


@pytest.mark.slow
@pytest.mark.parametrize("task,walks", [("sum", 400_000), ("sgd", 60_000)])
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_the_default_noise_of_2000_users_and_20000_steps_has_the_delta_it_promises(task, walks, epsilon):
    law = Law(task, 2000, 20_000)
    sigma = calibrate.sigma(epsilon, 1e-6, 1.0, task=task, n_users=2000, n_steps=20_000)
    found, error = drawn_delta(law, walks, 1 / sigma, epsilon, seed=7)
    assert error < 0.25e-6
    assert 1e-6 / DISCRETE_INFLATION - 4 * error < found * 1.05
    assert found - 4 * error < 1e-6


def test_sampled_walks_have_the_law_of_all_walks():
    for task in ("sum", "sgd"):
        law = Law(task, 5, 6)
        values, chances = exact_law(law)
        exact = float(chances @ gaussian.deltas(np.sqrt(values), 1.0))
        found, error = drawn_delta(law, 8_000, 1.0, 1.0, seed=5)
        assert abs(found - exact) < 4 * error < 0.1 * exact
