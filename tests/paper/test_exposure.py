"""Exposure (THEORY.md#exposure) against dumb oracles: one pair and one step at a time, and exact linear algebra."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from network_dp import exposure
from network_dp.errors import AccountingError
from network_dp.exposure import Observation, one_user


def least_energy(events):
    """Convex-minorant energy of one cycle, by trying every chord. events: (noise variance, height) per step."""
    times = np.concatenate([[0.0], np.cumsum([noise for noise, _ in events])])
    heights = np.concatenate([[0.0], np.cumsum([height for _, height in events])])
    points = [(times[t], heights[t]) for t in range(len(events) + 1)]
    at, energy = 0, 0.0
    while at < len(points) - 1 and points[at][1] < heights[-1]:
        chords = []
        for later in range(at + 1, len(points)):
            dx, dy = points[later][0] - points[at][0], points[later][1] - points[at][1]
            chords.append((dy / dx if dx > 0 else (math.inf if dy > 0 else 0.0), -later))
        slope, negative = min(chords)
        if math.isinf(slope):
            return math.inf
        energy += slope**2 * (points[-negative][0] - points[at][0])
        at = -negative
    return energy


def slow_exposure(walk, u, observers, task, released, contributing, sizes, noisy):
    total, cycle = 0.0, []
    for t, holder in enumerate([*walk, None]):
        if holder in observers or (holder is None and released):
            c = sum(1 for _, height in cycle if height)
            if task == "sum" and c:
                m = sum(1 for noise, _ in cycle if noise)
                total += c * c / m if m else math.inf
            elif c:
                total += least_energy(cycle)
            cycle = []
        elif holder is not None:
            cycle.append((sizes[t] ** 2 * noisy[t], sizes[t] * (holder == u and contributing[t])))
    return total


walks = st.integers(2, 5).flatmap(
    lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1), min_size=0, max_size=30))
)


@settings(max_examples=150, deadline=None)
@given(walks, st.sampled_from(["sum", "sgd"]), st.booleans(), st.booleans(), st.integers(0, 10**6))
def test_matrix_equals_one_pair_and_one_step_at_a_time(case, task, released, collude, seed):
    n, walk = case
    rng = np.random.default_rng(seed)
    contributing, noisy = rng.random(len(walk)) < 0.8, rng.random(len(walk)) < 0.9
    sizes = rng.uniform(0.5, 2, len(walk)) if task == "sgd" else np.ones(len(walk))
    colluders = [0, n - 1] if collude else []
    found = exposure.matrix(
        walk,
        n,
        task,
        released=released,
        colluders=colluders,
        contributing=contributing,
        step_sizes=sizes if task == "sgd" else None,
        noisy=noisy,
    )
    for u, v in itertools.product(range(n), repeat=2):
        observers = set(colluders) if v in colluders else {v}
        expected = (
            0.0 if u in observers else slow_exposure(walk, u, observers, task, released, contributing, sizes, noisy)
        )
        assert found[u, v] == pytest.approx(expected, rel=1e-9), (u, v)


@settings(max_examples=60, deadline=None)
@given(walks, st.booleans(), st.integers(1, 4), st.integers(0, 10**6))
def test_cycles_longer_than_the_table_are_pooled_to_the_same_energy(case, released, depth, seed):
    n, walk = case
    sizes = np.random.default_rng(seed).uniform(0.5, 2, len(walk))
    full = exposure.matrix(walk, n, "sgd", released=released, step_sizes=sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_user, "_DEPTH", depth)
        assert exposure.matrix(walk, n, "sgd", released=released, step_sizes=sizes) == pytest.approx(full, rel=1e-9)


@pytest.mark.parametrize("task", ["sum", "sgd"])
@pytest.mark.parametrize("n,n_steps", [(2, 3_000), (3, 4_000), (40, 4_000)])
def test_row_by_row_and_column_by_column_agree_on_long_walks(task, n, n_steps):
    walk = np.random.default_rng(n).integers(n, size=n_steps)
    walk[100:140] = 0  # one user holds the token for long: more contributions in a cycle than the table covers
    found = exposure.matrix(walk, n, task, released=True)
    assert np.array(list(exposure.rows(walk, n, task, released=True))) == pytest.approx(found)
    for v in range(n):  # a set of one colluder goes by columns
        alone = exposure.matrix(walk, n, task, released=True, colluders=[v])[:, v]
        assert alone == pytest.approx(found[:, v], rel=1e-9)


def observations_of(walk, v, released):
    """Everything v sees of the running sum, own contributions and noise removed."""
    seen, counts, noises = [], {}, {}
    for t, holder in enumerate(walk):
        if holder == v:
            seen.append(Observation(dict(counts), dict(noises)))
        else:
            counts[holder] = counts.get(holder, 0) + 1
            noises[t] = 1.0
    return [*seen, Observation(dict(counts), dict(noises))] if released else seen


@settings(max_examples=60, deadline=None)
@given(walks, st.booleans())
def test_sum_exposure_is_the_general_rule_on_all_observations(case, released):
    n, walk = case
    found = exposure.matrix(walk, n, "sum", released=released)
    for v in range(n):
        general = exposure.general(observations_of(walk, v, released))
        for u in set(range(n)) - {v}:
            assert found[u, v] == pytest.approx(general.get(u, 0.0), rel=1e-7)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=9).filter(any))
def test_sgd_exposure_of_a_cycle_is_the_least_energy_by_numerical_optimisation(mine):
    steps = len(mine)
    allowance = np.cumsum(mine).astype(float)
    partial = np.tril(np.ones((steps, steps)))[:-1]
    best = minimize(
        lambda a: a @ a,
        np.array(mine, dtype=float),
        jac=lambda a: 2 * a,
        method="SLSQP",
        bounds=[(0, None)] * steps,
        constraints=[
            {"type": "ineq", "fun": lambda a: allowance[:-1] - partial @ a, "jac": lambda a: -partial},
            {"type": "eq", "fun": lambda a: a.sum() - allowance[-1], "jac": lambda a: np.ones(steps)},
        ],
        options={"ftol": 1e-12, "maxiter": 300},
    )
    walk = [0 if m else 2 for m in mine] + [1]
    assert exposure.matrix(walk, 3, "sgd")[0, 1] == pytest.approx(best.fun, abs=1e-5)


def test_one_contribution_with_g_steps_to_go_costs_one_gth():
    walk = [0, 2, 2, 2, 1]
    assert exposure.matrix(walk, 3, "sgd")[0, 1] == pytest.approx(1 / 4)
    assert exposure.matrix([2, 0, 0, 1], 3, "sgd")[0, 1] == pytest.approx(2.0)  # not 1/2 + 1
    assert exposure.matrix([0, 2, 0, 2, 2, 2, 1], 3, "sgd")[0, 1] == pytest.approx(4 / 6)  # pooled, not 1/6 + 1/4


def test_a_step_forwarded_unchanged_adds_no_cover_and_noise_only_steps_do():
    assert exposure.matrix([0, 2, 1], 3, "sum", noisy=[True, False, True])[0, 1] == 1.0
    assert exposure.matrix([0, 0, 1], 3, "sum", contributing=[True, False, True])[0, 1] == 0.5
    assert math.isinf(exposure.matrix([0, 1], 2, "sum", noisy=[False, True])[0, 1])


def test_general_rule_is_infinite_when_a_difference_shows_raw_data():
    same_noise = [Observation({0: 1}, {"a": 1.0}), Observation({0: 2}, {"a": 1.0})]
    assert exposure.general(same_noise) == {0: math.inf}
    both = exposure.general([Observation({0: 1, 1: 1}, {"a": 1.0}), Observation({1: 1}, {"a": 1.0})])
    assert both[0] == math.inf  # the difference is user 0's raw value
    assert both[1] == pytest.approx(1.0)
    assert exposure.general([Observation({0: 2}, {"a": 0.5, "b": 0.5})])[0] == pytest.approx(8.0)
    assert exposure.general([Observation({0: 1}, {})]) == {0: math.inf}


def ring_observations(n, rounds, v, released):
    """Alg. 1 with the position rule of THEORY.md#ring; closing noise on a release; v's own part removed."""
    seen, counts, noises, last = [], {}, {}, None
    for position in range(1, n * rounds + 1):
        holder = (position - 1) % n
        if holder == v:
            seen.append(Observation(dict(counts), dict(noises)))
        else:
            counts[holder] = counts.get(holder, 0) + 1
        final = position == n * rounds
        if (not final and (last is None or position + 1 >= last + n)) or (final and released):
            last = position
            if holder != v:
                noises[position] = 1.0
    return [*seen, Observation(dict(counts), dict(noises))] if released and (n * rounds - 1) % n != v else seen


@pytest.mark.parametrize("n", [3, 4, 5, 10])
@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("released", [False, True])
def test_ring_exposure_is_never_below_the_general_rule_and_equal_when_nothing_is_released(n, rounds, released):
    found = exposure.ring(rounds, n_users=n, released=released)
    for v in range(n):
        general = exposure.general(ring_observations(n, rounds, v, released))
        for u in set(range(n)) - {v}:
            exact = general.get(u, 0.0)
            assert exact <= found[u, v] + 1e-9
            if not released:
                assert exact == pytest.approx(found[u, v])


def test_local_exposure_of_each_mechanism():
    assert exposure.local(12) == 12
    assert exposure.local(3, mechanism="ring") == math.inf
    assert exposure.local(3, mechanism="spread_ring", n_users=11) == 30
    assert exposure.local(3, mechanism="spread_ring", n_users=11, enclosed=5) == 6


@pytest.mark.parametrize("task", ["sum", "sgd"])
def test_worst_pair_of_colluders_is_the_worst_of_all_pairs(task):
    walk = np.random.default_rng(5).integers(6, size=60)
    found = exposure.worst_colluders(walk, 6, task, 2)
    assert found.exact
    for u in range(6):
        others = [v for v in range(6) if v != u]
        by_set = {
            pair: exposure.matrix(walk, 6, task, colluders=pair)[u, pair[0]]
            for pair in itertools.combinations(others, 2)
        }
        assert found.exposure[u] == pytest.approx(max(by_set.values()))
        assert by_set[found.members[u]] == pytest.approx(found.exposure[u])


def test_greedy_colluders_reach_what_they_claim_and_never_shrink():
    walk = np.random.default_rng(6).integers(7, size=80)
    two, three = (exposure.worst_colluders(walk, 7, "sum", c) for c in (2, 3))
    assert not three.exact
    assert np.all(three.exposure >= two.exposure - 1e-12)
    for u, members in enumerate(three.members):
        assert u not in members
        assert exposure.matrix(walk, 7, "sum", colluders=members)[u, members[0]] == pytest.approx(three.exposure[u])


def test_nonsense_is_refused():
    with pytest.raises(AccountingError, match="walk"):
        exposure.matrix([0, 3], 3, "sum")
    with pytest.raises(AccountingError, match="task"):
        exposure.matrix([0, 1], 3, "median")
    with pytest.raises(AccountingError, match="contributing"):
        exposure.matrix([0, 1], 3, "sum", contributing=[True])
    for walk in ([0.5], [math.nan], [True, False]):
        with pytest.raises(AccountingError, match="whole"):
            exposure.matrix(walk, 3, "sum")
    with pytest.raises(AccountingError, match="n_users"):
        exposure.matrix([0, 1], 2.5, "sum")
    with pytest.raises(AccountingError, match="n_users"):
        exposure.ring(3, 2)
    with pytest.raises(AccountingError, match="n_users"):
        exposure.local(3, "spread_ring")


@pytest.mark.slow
@pytest.mark.parametrize("task", ["sum", "sgd"])
def test_all_pairs_are_a_hundred_times_faster_than_a_python_loop(task):
    n, n_steps, sampled = 400, 40_000, 3
    walk = np.random.default_rng(1).integers(n, size=n_steps)
    begin = time.perf_counter()
    found = exposure.matrix(walk, n, task)
    fast_s = time.perf_counter() - begin
    ones, plain = np.ones(n_steps), walk.tolist()
    begin = time.perf_counter()
    for u in range(sampled):
        slow = slow_exposure(plain, u, {n - 1}, "sum", False, ones, ones, ones)
        if task == "sum":
            assert slow == pytest.approx(found[u, n - 1], rel=1e-9)
    slow_s = (time.perf_counter() - begin) / sampled * n * (n - 1)
    assert slow_s > 100 * fast_s
