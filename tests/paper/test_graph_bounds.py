"""Bounds of the worst pair of large graphs (THEORY.md#graph-growth), against every pair by itself on small ones."""

import itertools

import numpy as np
import pytest

from network_dp import graph_walk
from network_dp.errors import AccountingError, UnreachableError
from network_dp.graphs.bounds import Bounds
from network_dp.graphs.circle import Circle
from network_dp.graphs.generators import GraphError, Options, adjacency, generate
from network_dp.graphs.growth import Growth, _Fits
from network_dp.graphs.pairs import Promise
from network_dp.graphs.weights import metropolis, simple, stationary
from tests.paper.test_graph_walk import all_paths, brute, cycles, windows
from tests.paper.test_graph_walk import law as path_law


def law(kind, n, weights="metropolis", **options):
    peers = adjacency(connected(kind, n, **options))
    return (metropolis if weights == "metropolis" else simple)(peers), stationary(peers, weights)


def connected(kind, n, seed=0, **options):
    """Random graphs: the first from that seed on."""
    try:
        return generate(kind, n, Options(seed=seed, **options))
    except GraphError:
        return connected(kind, n, seed + 1, **options)


GRAPHS = [
    ("erdos-renyi", 40, "simple", 800),
    ("small-world", 24, "metropolis", 300),
    ("geometric", 30, "metropolis", 120),
    ("star", 9, "simple", 200),
    ("path", 8, "metropolis", 400),
    ("grid", 12, "simple", 40),
    ("complete", 7, "metropolis", 90),
]


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("task", ["sum", "sgd"])
@pytest.mark.parametrize(("kind", "n", "weights", "n_steps"), GRAPHS)
def test_no_moment_is_below_that_of_the_pair_by_itself(task, kind, n, weights, n_steps, released):
    p, pi = law(kind, n, weights, seed=5)
    growth = Growth(task, p, pi, n_steps, released)
    random = np.random.default_rng(n)
    for u, v in (random.permutation(n)[:2] for _ in range(4)):
        pieces, alone = growth.pieces(int(v)), graph_walk.prepare(task, p, pi, int(u), [int(v)], n_steps, released)
        for b in (0.02, 0.3, 1.0, 4.0):
            assert growth.log_moments(pieces, b)[u] >= alone.log_moment(b) * (1 - 1e-9)


@pytest.mark.parametrize("weights", ["metropolis", "simple"])
@pytest.mark.parametrize("name", ["path", "cycle", "star", "complete", "kite"])
def test_bounds_of_all_pairs_are_never_below_every_path_listed(name, weights):
    """The exposures of sums; of SGD its windows, which are never below the exposure itself (`test_graph_walk`)."""
    p, pi = path_law(name, weights)
    paths, chances = all_paths(name, weights, 6 if len(pi) == 4 else 5)
    for released, (task, exposure) in itertools.product((False, True), (("sum", cycles), ("sgd", windows))):
        size = task, p, pi, len(paths[0]), released
        growth, circle = Growth(*size), Circle(*size, 6.0)
        for v in range(len(pi)):
            pieces = growth.pieces(v)
            others = [u for u in range(len(pi)) if u != v]
            seen = {u: np.array([exposure(path, u, (v,), released) for path in paths]) for u in others}
            for b in (0.03, 0.7, 5.0):
                exact = np.array([brute(chances, seen[u], b) for u in others])
                assert np.all(growth.log_moments(pieces, b)[others] >= exact)
                for targets in circle.batches(v):
                    at_once = circle.log_moments(circle.pieces(v, targets), b)
                    assert np.all(at_once >= exact[[others.index(u) for u in targets]])


@pytest.mark.slow
@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("task", ["sum", "sgd"])
def test_the_bound_of_the_worst_pair_is_close_and_keeps_its_promise(task, released):
    p, pi = law("hypercube", 32)
    exact, bounds = (kind(task, p, pi, 800, released) for kind in (Promise, Bounds))
    for distance in (1, 2):
        true, found = (one.worst(6.0, 1.0, 1e-5, distance) for one in (exact, bounds))
        assert true.epsilon <= found.epsilon * (1 + 1e-9) and found.epsilon <= 1.15 * true.epsilon
        assert exact.distances[found.target, found.observer] >= distance
    lines = bounds.by_distance(6.0, 1.0, 1e-5)
    matrix = exact.matrix(6.0, 1.0, 1e-5)
    assert all(matrix[exact.distances == d].max() <= most for d, most in enumerate(lines, 1))
    noise = bounds.sigma(2.0, 1.0, 1e-5)
    assert exact.worst(noise, 1.0, 1e-5).epsilon <= 2.0 < exact.worst(noise / 1.25, 1.0, 1e-5).epsilon


@pytest.mark.slow
@pytest.mark.parametrize(("task", "sigma"), [("sum", 2.0), ("sgd", 10.0)])
def test_a_walk_too_short_to_reach_everybody_hides_no_pair(task, sigma):
    """Where a rate bounds nothing for want of digits another must."""
    p, pi = law("ring-lattice", 520, degree=2)
    bounds = Bounds(task, p, pi, 50)
    growth = Growth(task, p, pi, 50, False)
    for b in (0.02, 0.3, 2.0):
        moments = growth.log_moments(growth.pieces(0), b)[1:]
        assert not np.isnan(moments).any()
    assert bounds.worst(sigma, 1.0, 1e-6).epsilon >= bounds.pair(0, 1, sigma, 1.0, 1e-6)


def test_weights_are_fitted_from_above_at_every_length():
    n_steps, b = 2500, 0.8
    logs = -np.geomspace(0.1 / n_steps, 12.0, 25)
    lengths = np.arange(1.0, n_steps + 1)
    fits = _Fits(b, logs, 6, n_steps, 5)
    for c, i in itertools.product((1, 3, 5), (0, 5)):
        here = lengths[lengths >= c]
        fitted = fits.by_count[c - 1][i] @ np.exp(np.outer(logs, here))
        ratio = fitted / (np.expm1(b * c * c / here) * np.exp(logs[i] * here))
        assert ratio.min() >= 1 and np.median(ratio) < 1.1


def test_first_passages_at_real_points_are_those_of_the_walk():
    """Against sums of taboo powers, which are short of what comes after T steps."""
    p, pi = law("small-world", 10, "simple", seed=2)
    growth, n_steps = Growth("sgd", p, pi, 400, False), 4000
    pieces, root = growth.pieces(3), np.sqrt(pi)
    first, stay = graph_walk.first_passages(p, pi, [3, 7], n_steps)
    z = growth._points[:, None] ** np.arange(n_steps + 1)
    for found, scale, series in (
        (pieces.vv[:, 7], 1.0, first[:, 0, 0]),
        (pieces.uu[:, 7], 1.0, first[:, 1, 1]),
        (pieces.uv[:, 7], root[7] / root[3], first[:, 1, 0]),
        (pieces.first_v[:, 7], 1 / root[3], first[:, 2, 0]),
        (pieces.first_u[:, 7], 1 / root[7], first[:, 2, 1]),
        (pieces.open_u[:, 7], root[7], stay[:, 1]),
    ):
        exact = z @ series * scale
        assert np.all(found >= exact * (1 - 1e-12)) and np.allclose(found, exact, rtol=1e-3)


def test_what_is_not_bounded_is_said():
    p, pi = law("star", 5)
    bounds = Bounds("sum", p, pi, 100)
    with pytest.raises(UnreachableError, match="no two users are 3 hops apart"):
        bounds.worst(1.0, 1.0, 1e-5, distance=3)
    for wrong in ({"epsilon": 0.0}, {"delta": 1.0}, {"sensitivity": 0.0}, {"distance": 0}):
        with pytest.raises(AccountingError):
            bounds.sigma(**{"epsilon": 1.0, "sensitivity": 1.0, "delta": 1e-5, **wrong})
    with pytest.raises(AccountingError, match="sigma"):
        bounds.worst(0.0, 1.0, 1e-5)
    turning = np.roll(np.eye(5), 1, axis=1) * 0.7 + np.eye(5) * 0.3
    with pytest.raises(AccountingError, match="reversible"):
        Bounds("sum", turning, np.full(5, 0.2), 12)


def test_a_pair_of_a_large_graph_is_computed_by_itself():
    p, pi = law("hypercube", 16)
    assert Bounds("sgd", p, pi, 50).pair(0, 5, 3.0, 1.0, 1e-5) == Promise("sgd", p, pi, 50).pair(0, 5, 3.0, 1.0, 1e-5)
