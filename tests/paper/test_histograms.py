"""Histograms (THEORY.md#histograms; the paper's Thm 2 and its complete-graph analogue) against exhaustive
enumeration."""

import itertools
import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from network_dp import calibrate
from network_dp.accounting import randomised_response as rr
from network_dp.accounting import shuffle
from network_dp.accounting.randomised_response import Response, Window
from network_dp.errors import AccountingError
from network_dp.noise_rule import cover_elements


def answer_law(value, buckets, gamma):
    return [gamma / buckets + (1 - gamma) * (answer == value) for answer in range(buckets)]


def histogram_law(values, buckets, gamma, uniform=0):
    """Exact law of the histogram of the answers to `values` and of some uniform elements."""
    law = {tuple([0] * buckets): 1.0}
    for one in [answer_law(v, buckets, gamma) for v in values] + [[1 / buckets] * buckets] * uniform:
        new = defaultdict(float)
        for histogram, probability in law.items():
            for answer, chance in enumerate(one):
                grown = list(histogram)
                grown[answer] += 1
                new[tuple(grown)] += probability * chance
        law = dict(new)
    return law


def hockey_stick(p, q, epsilon):
    return sum(max(0.0, value - math.exp(epsilon) * q.get(key, 0.0)) for key, value in p.items())


def pair_delta(response, window, epsilon):
    losses = rr.window_losses(response, window, 1e-4)
    grid = (losses.lowest + np.arange(len(losses.probabilities))) * 1e-4
    above = grid > epsilon
    return losses.infinite + float(losses.probabilities[above] @ -np.expm1(epsilon - grid[above]))


@pytest.mark.parametrize("buckets,others", [(2, 5), (3, 4), (4, 3)])
@pytest.mark.parametrize("gamma", [0.2, 0.7])
def test_pair_dominates_every_histogram_of_a_few_answers(buckets, others, gamma):
    for rest in itertools.combinations_with_replacement(range(buckets), others):
        p = histogram_law([0, *rest], buckets, gamma)
        q = histogram_law([1, *rest], buckets, gamma)
        for epsilon in (0.0, 0.1, 0.5, 1.2):
            bound = pair_delta(Response(buckets, gamma), Window(others), epsilon)
            assert hockey_stick(p, q, epsilon) <= bound + 1e-12


@pytest.mark.parametrize("buckets", [2, 3, 5])
@pytest.mark.parametrize("uniform", [0, 1, 4])
def test_pair_is_exact_among_uniform_elements(buckets, uniform):
    """With nothing but uniform elements around, nothing is given away by pointing them out."""
    gamma = 0.4
    p, q = (histogram_law([x], buckets, gamma, uniform) for x in (0, 1))
    for epsilon in (0.0, 0.3, 0.9):
        bound = pair_delta(Response(buckets, gamma), Window(0, uniform), epsilon)
        assert bound == pytest.approx(hockey_stick(p, q, epsilon), abs=2e-4)
        assert bound >= hockey_stick(p, q, epsilon) - 1e-12


def test_losses_equal_those_of_dp_accounting_from_two_mass_functions():
    buckets, gamma, others, interval = 3, 0.5, 6, 1e-3
    p, q = {}, {}
    for blanket in range(others + 1):
        weight = math.comb(others, blanket) * gamma**blanket * (1 - gamma) ** (others - blanket)
        for law, x in ((p, 0), (q, 1)):
            for key, value in histogram_law([x], buckets, gamma, blanket).items():
                law[(blanket, *key)] = math.log(weight * value)
    reference = privacy_loss_distribution.from_two_probability_mass_functions(q, p, True, interval)
    losses = rr.window_losses(Response(buckets, gamma), Window(others), interval)
    grid = (losses.lowest + np.arange(len(losses.probabilities))) * interval
    for epsilon in (0.05, 0.4, 1.0):
        above = grid > epsilon
        mine = float(losses.probabilities[above] @ -np.expm1(epsilon - grid[above]))
        assert mine == pytest.approx(reference.get_delta_for_epsilon(epsilon), rel=2e-2, abs=1e-9)


@pytest.mark.parametrize("buckets,others", [(2, 6), (3, 5), (6, 40)])
def test_moments_are_above_those_of_the_pair(buckets, others):
    response, orders = Response(buckets, 0.4), np.array([1.5, 3.0, 8.0])
    found = rr.log_moments(response, orders, np.array([others]))[:, 0]
    for order, value in zip(orders, found, strict=True):
        exact = 0.0
        for blanket in range(others + 1):
            weight = math.comb(others, blanket) * 0.4**blanket * 0.6 ** (others - blanket)
            table = rr._table(response, blanket)
            cells = table.u * table.by_rows(table.p**order) * table.q ** (1 - order)
            exact += weight * float(cells.sum())
        assert value == pytest.approx(math.log(exact), rel=1e-6)


def test_one_answer_alone_is_plain_randomised_response():
    assert shuffle.local_epsilon(1, 5, 0.3, 1e-9) == pytest.approx(Response(5, 0.3).epsilon)
    assert shuffle.cycles_epsilon([(1, 1)], 5, 0.3, 1e-9) == pytest.approx(Response(5, 0.3).epsilon)
    assert Response(5, shuffle.local_gamma(1.3, 5)).epsilon == pytest.approx(1.3)


@pytest.mark.parametrize("buckets,gamma", [(2, 0.2), (3, 0.5), (8, 0.9)])
@pytest.mark.parametrize("answers", [1, 2, 7, 40])
def test_local_dp_of_several_answers_is_the_exact_hockey_stick(buckets, gamma, answers):
    """Against the sum over how many answers said u's value, how many the other one: delta at the epsilon found."""
    delta = 1e-6
    epsilon = shuffle.local_epsilon(answers, buckets, gamma, delta)
    truth, lie, neither = 1 - gamma + gamma / buckets, gamma / buckets, gamma * (buckets - 2) / buckets
    total = 0.0
    for said, other in itertools.product(range(answers + 1), repeat=2):
        if (rest := answers - said - other) >= 0:
            ways = math.comb(answers, said) * math.comb(answers - said, other) * neither**rest
            total += max(0.0, ways * truth**said * lie**other - math.exp(epsilon) * ways * lie**said * truth**other)
    assert total == pytest.approx(delta, rel=1e-6)
    grid = shuffle.composed_epsilon(Response(buckets, gamma), Counter({Window(0): answers}), delta)
    assert epsilon <= grid * (1 + 1e-12) and grid == pytest.approx(epsilon, rel=1e-3)


def test_local_dp_of_very_many_answers_is_a_number():
    assert 600 < shuffle.local_epsilon(1000, 2, 0.2, 1e-6) < 1000 * Response(2, 0.2).epsilon


def test_table_cut_off_far_from_the_mean_loses_no_more_than_it_says():
    for buckets, blanket in ((2, 3_000), (5, 2_000)):
        response = Response(buckets, 0.3)
        table = rr._table(response, blanket)
        for side in (table.u * table.by_rows(table.p), table.u * table.q):
            assert abs(float(side.sum()) - 1) <= 1e-9
        assert table.left_out > 0


def exact_walk_delta(n, n_steps, buckets, gamma, epsilon, released):
    """delta of (path, view of v = 0) about u = 1, all others at their worst value, by listing everything."""
    worst = 0.0
    for other in range(buckets):
        total = 0.0
        for path in itertools.product(range(n), repeat=n_steps):
            cycles, cycle = [], []
            for holder in path:
                if holder == 0:
                    cycles.append(cycle)
                    cycle = []
                else:
                    cycle.append(holder)
            if released:
                cycles.append(cycle)
            laws = []
            for x in (0, 1):
                joint = {(): 1.0}
                for one in cycles:
                    law = histogram_law([x if h == 1 else other for h in one], buckets, gamma)
                    joint = {(*k, h): a * b for k, a in joint.items() for h, b in law.items()}
                laws.append(joint)
            total += max(hockey_stick(*laws, epsilon), hockey_stick(*laws[::-1], epsilon))
        worst = max(worst, total / n**n_steps)
    return worst


@pytest.mark.parametrize("n,n_steps,buckets,released", [(3, 5, 2, True), (3, 5, 2, False), (4, 4, 3, True)])
@pytest.mark.parametrize("gamma", [0.3, 0.8])
def test_complete_graph_bound_is_above_the_exact_delta_of_every_view(n, n_steps, buckets, released, gamma):
    delta = 0.02
    bound = shuffle.complete_epsilon(n, n_steps, buckets, gamma, delta, released)
    assert exact_walk_delta(n, n_steps, buckets, gamma, bound, released) <= delta


def test_actual_cycles_bound_is_above_the_exact_delta():
    buckets, gamma, delta = 2, 0.5, 0.05
    cycles = [(5, 1), (4, 2), (3, 0)]
    bound = shuffle.cycles_epsilon(cycles, buckets, gamma, delta)
    for other in range(buckets):
        laws = []
        for x in (0, 1):
            joint = {(): 1.0}
            for m, c in cycles:
                law = histogram_law([x] * c + [other] * (m - c), buckets, gamma)
                joint = {(*k, h): a * b for k, a in joint.items() for h, b in law.items()}
            laws.append(joint)
        assert hockey_stick(*laws, bound) <= delta


def ring_view(x, n, rounds, buckets, gamma, u, v, other, released):
    """Exact joint law of v's increments on the ring with R1 uniform elements at each end."""
    extra = cover_elements(gamma, n)
    windows, current, uniform = [], [], extra
    for step in range(n * rounds):
        holder = step % n
        if holder == v:
            windows.append((current, uniform))
            current, uniform = [], 0
        else:
            current.append(x if holder == u else other)
    if released:
        windows.append((current, extra))
    joint = {(): 1.0}
    for values, elements in windows:
        law = histogram_law(values, buckets, gamma, elements)
        joint = {(*k, h): a * b for k, a in joint.items() for h, b in law.items()}
    return joint


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("n,rounds", [(4, 2), (5, 2)])
def test_ring_bound_is_above_the_exact_delta_of_every_pair(n, rounds, released):
    buckets, gamma, delta = 2, 0.6, 0.02
    bound = shuffle.ring_epsilon(n, rounds, buckets, gamma, delta, released)
    for u, v, other in itertools.product(range(n), range(n), range(buckets)):
        if u == v or (released and v == n - 1):  # the last user adds the closing elements itself
            continue
        p, q = (ring_view(x, n, rounds, buckets, gamma, u, v, other, released) for x in (0, 1))
        assert hockey_stick(p, q, bound) <= delta


def clones_epsilon(epsilon_0: float, n_answers: int, delta: float) -> float:
    """Closed form of Feldman, McMillan & Talwar 2021, Thm 3.1, within its condition."""
    grown = math.exp(epsilon_0)
    inner = 8 * math.sqrt(grown * math.log(4 / delta) / n_answers) + 8 * grown / n_answers
    return math.log1p((grown - 1) / (grown + 1) * inner)


def test_closed_forms_are_above_the_exact_pair_and_infinite_outside_their_conditions():
    gamma = shuffle.local_gamma(0.4, 2)
    exact = shuffle.cycles_epsilon([(2000, 1)], 2, gamma, 1e-6)
    assert exact < clones_epsilon(0.4, 2000, 1e-6) < shuffle.erlingsson_epsilon(0.4, 2000, 1e-6)
    assert shuffle.erlingsson_epsilon(0.6, 2000, 1e-6) == math.inf


def test_more_privacy_with_more_randomness_and_more_users():
    low, high = (shuffle.ring_epsilon(100, 3, 4, g, 1e-6) for g in (0.8, 0.3))
    assert low < high
    assert shuffle.ring_epsilon(400, 3, 4, 0.3, 1e-6) < high
    assert shuffle.complete_epsilon(50, 100, 4, 1.0, 1e-6) == 0
    assert shuffle.complete_epsilon(50, 100, 4, 0.0, 1e-6) == math.inf
    one, two = (shuffle.complete_epsilon(20, 100, 2, 0.5, 1e-6, colluders=c) for c in (1, 5))
    assert one < two


def test_epsilon_grows_steadily_as_delta_falls_below_what_a_transform_resolves():
    found = [shuffle.ring_epsilon(200, 50, 4, 0.3, 10.0**-k) for k in range(4, 22)]
    assert found == sorted(found)
    assert found[-1] < 50 * Response(4, 0.3).epsilon  # better than adding up local guarantees


@pytest.mark.slow
def test_calibrated_gamma_meets_its_target_and_less_does_not():
    gamma = calibrate.gamma(1.0, 1e-6, topology="ring", n_users=200, n_buckets=4, n_rounds=3)
    assert shuffle.ring_epsilon(200, 3, 4, gamma, 1e-6) <= 1.0
    assert shuffle.ring_epsilon(200, 3, 4, gamma * 0.995, 1e-6) > 1.0
    gamma = calibrate.gamma(2.0, 1e-6, topology="complete", n_users=20, n_buckets=4, n_steps=40)
    assert shuffle.complete_epsilon(20, 40, 4, gamma, 1e-6) <= 2.0


def test_nonsense_is_refused():
    with pytest.raises(AccountingError, match="gamma"):
        shuffle.ring_epsilon(10, 1, 4, 1.5, 1e-6)
    with pytest.raises(AccountingError, match="cycle"):
        shuffle.cycles_epsilon([(2, 3)], 4, 0.5, 1e-6)
