"""Moments of walks on any graph (THEORY.md#graph-promise, #graph-rounding) against every path of small graphs.

Oracles: every path with its probability and its exact exposure; the disjoint windows typed naively; the accountant of
the complete graph; fifty digits.
"""

import itertools
import math
from functools import lru_cache

import networkx as nx
import numpy as np
import pytest

from network_dp import exposure, graph_walk
from network_dp.accounting import bounds, moments
from network_dp.accounting.moments import Law
from network_dp.errors import AccountingError
from network_dp.graphs.weights import metropolis, simple, stationary

GRAPHS = {
    "path": nx.path_graph(4),
    "cycle": nx.cycle_graph(5),
    "star": nx.star_graph(3),
    "complete": nx.complete_graph(4),
    "kite": nx.Graph([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]),
}


def adjacency(name):
    return nx.to_numpy_array(GRAPHS[name], nodelist=range(len(GRAPHS[name])), dtype=bool)


@lru_cache(maxsize=64)
def law(name, weights):
    p = (metropolis if weights == "metropolis" else simple)(adjacency(name))
    return p, stationary(adjacency(name), weights)


@lru_cache(maxsize=256)
def all_paths(name, weights, n_steps):
    p, pi = law(name, weights)
    paths, chances = [], []
    for path in itertools.product(range(len(pi)), repeat=n_steps):
        chance = pi[path[0]] * math.prod(p[x, y] for x, y in itertools.pairwise(path))
        if chance > 0:
            paths.append(path)
            chances.append(chance)
    assert math.fsum(chances) == pytest.approx(1, rel=1e-12)
    return paths, np.array(chances)


def cycles(path, target, observers, released):
    """Sum of c^2/m over the cycles that an observer sees the end of: the exposure of a sum."""
    seen, steps, count = 0.0, 0, 0
    for x in path:
        if x in observers:
            seen, steps, count = seen + (count**2 / steps if steps else 0), 0, 0
        else:
            steps, count = steps + 1, count + (x == target)
    return seen + (count**2 / steps if released and steps else 0)


def windows(path, target, observers, released):
    """Sum of 1/d over the windows of the target that an observer sees the end of."""
    met = [t for t, x in enumerate(path) if x in observers]
    end = len(path) if released else (met[-1] if met else -1)
    stops = [t for t, x in enumerate(path) if x in observers or x == target] + [len(path)]
    return sum(1 / (next(s for s in stops if s > t) - t) for t, x in enumerate(path) if x == target and t < end)


def brute(chances, seen, b):
    top = (b * seen).max()
    return top + math.log(math.fsum(chances * np.exp(b * seen - top)))


CASES = [
    (name, weights, n_steps, target, observers)
    for name, n_steps, pairs in (
        ("path", 6, [(0, (1,)), (0, (3,)), (1, (2,)), (1, (0, 3))]),
        ("cycle", 5, [(0, (1,)), (0, (2,)), (0, (1, 4))]),
        ("star", 6, [(0, (1,)), (1, (0,)), (1, (2,)), (3, (1, 2))]),
        ("complete", 5, [(0, (1,)), (0, (1, 2))]),
        ("kite", 5, [(4, (0,)), (2, (4,)), (0, (3, 4))]),
    )
    for weights in ("metropolis", "simple")
    for target, observers in pairs
]


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize(("name", "weights", "n_steps", "target", "observers"), CASES)
def test_sums_equal_every_path(name, weights, n_steps, target, observers, released):
    p, pi = law(name, weights)
    paths, chances = all_paths(name, weights, n_steps)
    seen = np.array([cycles(path, target, observers, released) for path in paths])
    for b in (1e-6, 0.7, 3000.0):
        value, exact = (
            graph_walk.prepare("sum", p, pi, target, observers, n_steps, released).log_moment(b),
            brute(chances, seen, b),
        )
        assert exact <= value * (1 + 1e-13) and value == pytest.approx(exact, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize(("name", "weights", "n_steps", "target", "observers"), CASES)
def test_sgd_equals_disjoint_windows(name, weights, n_steps, target, observers, released):
    p, pi = law(name, weights)
    paths, chances = all_paths(name, weights, n_steps)
    seen = np.array([windows(path, target, observers, released) for path in paths])
    for b in (1e-6, 0.7, 3000.0):
        value = graph_walk.prepare("sgd", p, pi, target, observers, n_steps, released).log_moment(b)
        assert value == pytest.approx(brute(chances, seen, b), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize(("name", "target", "observers"), [("path", 1, (2,)), ("star", 0, (1, 2)), ("kite", 2, (4,))])
def test_windows_and_cycles_bound_the_exposure_of_every_path(name, target, observers, released):
    """What the oracles above add up is the exposure of the path for sums, and never below it for SGD."""
    paths, _ = all_paths(name, "metropolis", 5)
    n = len(law(name, "metropolis")[1])
    for path in paths[:: len(paths) // 300 + 1]:
        sums, sgd = (exposure.matrix(path, n, task, released, colluders=observers) for task in ("sum", "sgd"))
        assert cycles(path, target, observers, released) == pytest.approx(sums[target, observers[0]], abs=1e-12)
        assert windows(path, target, observers, released) >= sgd[target, observers[0]] - 1e-12


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("start", ["stationary", "one user", "uneven"])
@pytest.mark.parametrize(
    ("name", "target", "observers"),
    [("path", 1, (2,)), ("cycle", 0, (1, 3)), ("star", 1, (0,)), ("star", 0, (2, 3)), ("complete", 0, (1,))],
)
def test_sums_are_exact_and_sgd_is_never_below_for_any_start_and_directed_laws(
    name, target, observers, start, released
):
    """Brute force over all paths, with each path's own exposure; half of the weight of every edge leads one way."""
    p, pi = law(name, "simple")
    n = len(pi)
    p = p * np.random.default_rng(3).uniform(0.1, 1.0, (n, n)) + 0.05 * np.eye(n)
    p /= p.sum(axis=1)[:, None]
    first = {
        "stationary": pi,
        "one user": np.eye(n)[observers[0]],
        "uneven": np.arange(1.0, n + 1) / sum(range(n + 1)),
    }[start]
    chances, seen = [], {"sum": [], "sgd": []}
    for path in itertools.product(range(n), repeat=5):
        chance = first[path[0]] * math.prod(p[x, y] for x, y in itertools.pairwise(path))
        if chance > 0:
            chances.append(chance)
            for task, values in seen.items():
                values.append(exposure.matrix(path, n, task, released, colluders=observers)[target, observers[0]])
    for b in (0.01, 1.0, 40.0):
        by_task = {
            task: graph_walk.prepare(task, p, first, target, observers, 5, released).log_moment(b) for task in seen
        }
        exact = {task: brute(np.array(chances), np.array(values), b) for task, values in seen.items()}
        assert by_task["sum"] == pytest.approx(exact["sum"], rel=1e-9, abs=1e-12)
        assert exact["sgd"] <= by_task["sgd"] * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize("task", ["sum", "sgd"])
@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize(("n", "n_steps", "colluders"), [(5, 60, 1), (20, 300, 3)])
def test_a_complete_graph_is_the_complete_graph(task, released, n, n_steps, colluders):
    uniform = np.full((n, n), 1 / n)
    for b in (0.02, 2.0):
        value = graph_walk.prepare(task, uniform, uniform[0], n - 1, range(colluders), n_steps, released).log_moment(b)
        known = moments.log_moment(Law(task, n, n_steps, colluders, released), b)
        if task == "sgd":  # faces of the minorant there, disjoint windows here: never below
            assert value >= known
            known = uniform_windows(n, n_steps, colluders, released, b)
        assert value == pytest.approx(known, rel=1e-7)


def uniform_windows(n, n_steps, colluders, released, b):
    """f(h) of the disjoint windows, backwards in time: u or an observer holds the token next in h steps."""
    last = n_steps + 2
    f, never = np.ones(last + 1), 1.0
    for _ in range(n_steps):
        new = np.ones(last + 1)
        new[1:last] = (colluders + np.exp(b / np.arange(1, last))) / n * f[1] + (1 - (colluders + 1) / n) * f[2:]
        new[last] = new[last - 1]  # never reached from h = 1
        never, f = (colluders / n) * f[1] + (1 - colluders / n) * never, new
    return math.log(f[1] if released else never)


PATH, UNIFORM = metropolis(adjacency("path")), np.full(4, 0.25)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transition": PATH[:3]}, "square"),
        ({"transition": PATH * 0.9}, "row 0 of transition must sum to 1, got 0.9"),
        ({"transition": np.where(PATH == 0, math.nan, PATH)}, "probabilities"),
        ({"start": [1.0, 0.0]}, "vector over 4 users"),
        ({"start": [0.5, 0.5, 0.5, -0.5]}, "negative"),
        ({"start": [0.5, 0.5, 0.5, 0.5]}, "sum to 1, got 2"),
        ({"target": 4}, "from 0 to 3"),
        ({"target": 1.0}, "whole"),
        ({"observers": []}, "at least one"),
        ({"observers": [4]}, "from 0 to 3"),
        ({"observers": [1, 1]}, "different"),
        ({"observers": [0, 1]}, "target 0 is one of the observers"),
        ({"b": 0.0}, "b must be positive"),
        ({"b": math.nan}, "b must be positive"),
        ({"n_steps": 0}, "at least 1"),
        ({"task": "mean"}, "task"),
    ],
)
def test_wrong_input_is_named(change, message):
    asked = {"task": "sum", "transition": PATH, "start": UNIFORM, "target": 0, "observers": [1], "b": 1.0, "n_steps": 5}
    asked |= change
    b = asked.pop("b")
    with pytest.raises(AccountingError, match=message):
        graph_walk.prepare(**asked).log_moment(b)


def test_rows_that_sum_to_a_little_less_hide_nothing():
    """The law meant is the row divided by its sum: a matrix short of 1e-10 gives no smaller moment."""
    for task in ("sum", "sgd"):
        full, short = (
            graph_walk.prepare(task, p, UNIFORM, 0, [3], 40).log_moment(0.5) for p in (PATH, PATH * (1 - 1e-10))
        )
        assert full <= short <= full + 1e-8


@pytest.mark.parametrize("task", ["sum", "sgd"])
def test_a_sum_with_many_contributions_per_cycle_is_charged_a_little_more_never_less(task, monkeypatch):
    p, pi = law("star", "metropolis")
    exact = graph_walk.prepare(task, p, pi, 1, [2], 60).log_moment(0.2)
    monkeypatch.setattr(graph_walk, "_PIECE", 4)
    looked = graph_walk.prepare(task, p, pi, 1, [2], 60).log_moment(0.2)
    assert looked == exact if task == "sgd" else exact < looked < 1.2 * exact


def test_no_moment_is_below_fifty_digits():
    from mpmath import mp, mpf

    def exact(p, pi, target, observer, b, n_steps):
        """Forward over (position, steps since the observer held, contributions since)."""
        with mp.workdps(50):
            n, states = len(pi), {}
            states = {(x, 0, 0): mpf(float(pi[x])) / mp.fsum(pi.tolist()) for x in range(n)}
            rows = [[mpf(float(q)) / mp.fsum(row.tolist()) for q in row] for row in p]
            for step in range(n_steps):
                after = {}
                for (x, m, c), weight in states.items():
                    if x == observer:
                        gain, key = (mp.exp(mpf(b) * c * c / m) if m else mpf(1)), (0, 0)
                    else:
                        gain, key = mpf(1), (m + 1, c + (x == target))
                    for y in range(n) if step < n_steps - 1 else [x]:
                        move = rows[x][y] if step < n_steps - 1 else mpf(1)
                        if move:
                            after[y, *key] = after.get((y, *key), mpf(0)) + weight * gain * move
                states = after
            return mp.log(mp.fsum(states.values()))

    p, pi = law("kite", "metropolis")
    for b in (1e-9, 0.01, 1.0, 20.0):
        for target, observer in ((0, 3), (4, 1)):
            value = graph_walk.prepare("sum", p, pi, target, [observer], 12).log_moment(b)
            true = exact(p, pi, target, observer, b, 12)
            assert true <= value <= true * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("task", ["sum", "sgd"])
def test_epsilon_of_a_complete_graph_is_that_of_the_accountant(task):
    n, n_steps = 12, 150
    uniform = np.full((n, n), 1 / n)
    for sigma, released in ((3.0, False), (8.0, True)):
        value = graph_walk.prepare(task, uniform, uniform[0], 0, [1], n_steps, released).epsilon(sigma, 2.0, 1e-6)
        by_orders = bounds.network_epsilon(task, n, n_steps, sigma, 2.0, 1e-6, released, accountant="renyi")
        if task == "sum":
            assert value == pytest.approx(by_orders, rel=1e-6)
        else:  # disjoint windows, not the faces of the minorant
            assert by_orders < value < 1.2 * by_orders


def test_epsilon_at_its_limits():
    exposed = graph_walk.prepare("sum", PATH, UNIFORM, 0, [1], 5)
    assert exposed.epsilon(sigma=0.0, sensitivity=1.0, delta=1e-6) == math.inf
    assert exposed.epsilon(sigma=1.0, sensitivity=0.0, delta=1e-6) == 0.0
    assert 0 < exposed.epsilon(sigma=1e-3, sensitivity=1.0, delta=1e-6) < math.inf
    assert exposed.epsilon(sigma=1e200, sensitivity=1.0, delta=1e-6) < 1e-9
    with pytest.raises(AccountingError, match="delta"):
        exposed.epsilon(sigma=1.0, sensitivity=1.0, delta=1.0)
    with pytest.raises(AccountingError, match="sigma"):
        exposed.epsilon(sigma=-1.0, sensitivity=1.0, delta=0.1)


def test_further_away_less_is_seen():
    adjacent = nx.to_numpy_array(nx.path_graph(8))
    p, pi = metropolis(adjacent), stationary(adjacent)
    for task in ("sum", "sgd"):
        row = [graph_walk.prepare(task, p, pi, 0, [v], 60).epsilon(4.0, 1.0, 1e-6) for v in range(1, 8)]
        assert row == sorted(row, reverse=True) and row[-1] < 0.8 * row[0]


def test_weights_are_stationary_and_wrong_peers_are_named():
    for name in GRAPHS:
        for weights in ("metropolis", "simple"):
            p, pi = law(name, weights)
            assert np.allclose(p.sum(axis=1), 1, atol=1e-15) and np.allclose(pi @ p, pi, atol=1e-15)
    assert np.array_equal(law("kite", "metropolis")[0], law("kite", "metropolis")[0].T)
    for wrong, message in (
        ([[0, 1], [0, 0]], "0 -> 1 without"),
        ([[1, 1], [1, 0]], "own peer, got user 0"),
        ([[0, 1, 0], [1, 0, 0], [0, 0, 0]], "none for user 2"),
        ([[0, 1]], "square"),
    ):
        with pytest.raises(AccountingError, match=message):
            metropolis(wrong)
    with pytest.raises(AccountingError, match="weights"):
        stationary(adjacency("path"), "other")
