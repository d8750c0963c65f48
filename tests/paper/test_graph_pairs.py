"""All pairs of a graph before a walk (THEORY.md#graph-pairs): classes, the worst pair, the noise that is needed."""

import itertools

import networkx as nx
import numpy as np
import pytest

from network_dp import graph_walk
from network_dp.errors import AccountingError, UnreachableError
from network_dp.graphs import pairs as graph_pairs
from network_dp.graphs.circle import Circle
from network_dp.graphs.generators import Options, adjacency, generate
from network_dp.graphs.pairs import Promise, distances, pair_classes
from network_dp.graphs.weights import metropolis, simple, stationary


def law(kind, n, weights="metropolis", **options):
    peers = adjacency(generate(kind, n, Options(**options)))
    return (metropolis if weights == "metropolis" else simple)(peers), stationary(peers, weights)


@pytest.mark.parametrize(
    ("kind", "n", "count"), [("hypercube", 16, 4), ("torus", 25, 5), ("ring-lattice", 12, 6), ("complete", 9, 1)]
)
def test_symmetric_graphs_have_as_many_classes_as_their_distances_or_so(kind, n, count):
    p, pi = law(kind, n, degree=2)
    assert len(Promise("sum", p, pi, 5).representatives()) == count


@pytest.mark.parametrize("weights", ["metropolis", "simple"])
@pytest.mark.parametrize("kind", ["path", "star", "grid", "small-world", "hypercube"])
def test_pairs_of_one_class_have_the_same_moment_and_others_are_told_apart(kind, weights):
    p, pi = law(kind, 8, weights, seed=1)
    classes = pair_classes(p, pi)
    found = {}
    for u in range(8):
        for v in range(8):
            if u != v:
                moment = tuple(graph_walk.prepare(task, p, pi, u, [v], 30).log_moment(0.3) for task in ("sum", "sgd"))
                found.setdefault(classes[u, v], []).append(moment)
    for same in found.values():
        assert np.allclose(same, same[0], rtol=1e-11, atol=0)
    if kind != "small-world":  # a graph with no symmetry may still have two pairs alike by chance
        firsts = np.array([same[0] for same in found.values()])
        assert len(np.unique(firsts.round(9), axis=0)) == len(firsts)


def test_a_matrix_holds_the_epsilon_of_every_pair_and_its_worst_pair():
    p, pi = law("star", 6)
    promise = Promise("sgd", p, pi, 40)
    matrix = promise.matrix(3.0, 2.0, 1e-5)
    for u, v in ((0, 1), (1, 0), (2, 5)):
        assert matrix[u, v] == pytest.approx(
            graph_walk.prepare("sgd", p, pi, u, [v], 40).epsilon(3.0, 2.0, 1e-5), rel=1e-9
        )
    worst = promise.worst(3.0, 2.0, 1e-5)
    assert worst.epsilon == matrix.max() and np.all(matrix.diagonal() == 0)
    assert promise.worst(3.0, 2.0, 1e-5, distance=2).epsilon == matrix[1:, 1:].max() < worst.epsilon


@pytest.mark.parametrize("task", ["sum", "sgd"])
def test_calibrated_noise_is_the_least_that_keeps_the_promise(task):
    p, pi = law("grid", 9)
    promise = Promise(task, p, pi, 50, released=True)
    near, far = promise.sigma(1.5, 1.0, 1e-5), promise.sigma(1.5, 1.0, 1e-5, distance=3)
    assert far < near
    for sigma, distance in ((near, 1), (far, 3)):
        assert promise.worst(sigma, 1.0, 1e-5, distance).epsilon <= 1.5
        assert promise.worst(sigma * 0.999, 1.0, 1e-5, distance).epsilon > 1.5


def test_distances_are_hops():
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4))
    exact = nx.floyd_warshall_numpy(graph, nodelist=range(12))
    assert np.array_equal(distances(metropolis(nx.to_numpy_array(graph))), exact)


def test_what_cannot_be_promised_is_said():
    p, pi = law("star", 5)
    promise = Promise("sum", p, pi, 10)
    with pytest.raises(UnreachableError, match="no two users are 3 hops apart: the longest way is 2"):
        promise.sigma(1.0, 1.0, 1e-5, distance=3)
    for wrong in ({"epsilon": 0.0}, {"delta": 1.0}, {"sensitivity": 0.0}, {"distance": 0}):
        with pytest.raises(AccountingError):
            promise.sigma(**{"epsilon": 1.0, "sensitivity": 1.0, "delta": 1e-5, **wrong})
    with pytest.raises(AccountingError, match="n_steps"):
        Promise("sum", p, pi, 0)


@pytest.mark.parametrize("task", ["sum", "sgd"])
@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("weights", ["metropolis", "simple"])
def test_all_pairs_at_once_are_bounded_a_little_higher_than_each_by_itself(task, released, weights, monkeypatch):
    p, pi = law("erdos-renyi", 10, weights, seed=3)
    monkeypatch.setattr(graph_pairs, "CLASSES_MAX", 10)
    promise = Promise(task, p, pi, 60, released)
    assert not promise.by_classes
    matrix = promise.matrix(4.0, 1.0, 1e-5)
    for u, v in ((0, 5), (5, 0), (3, 9)):
        alone = graph_walk.prepare(task, p, pi, u, [v], 60, released).epsilon(4.0, 1.0, 1e-5)
        assert alone <= matrix[u, v] < alone * (1.02 if task == "sgd" else 1.35)
    worst = promise.worst(4.0, 1.0, 1e-5)
    alone = graph_walk.prepare(task, p, pi, worst.target, [worst.observer], 60, released).epsilon(4.0, 1.0, 1e-5)
    assert alone <= worst.epsilon * (1 + 1e-9) and worst.epsilon <= matrix.max()


def test_moments_on_the_circle_are_never_below_the_exact_ones():
    """At any radius, tight where the circle suits the moment, and infinite rather than wrong where it does not."""
    p, pi = law("small-world", 12, seed=2)
    for task, released in itertools.product(("sum", "sgd"), (False, True)):
        exact = [graph_walk.prepare(task, p, pi, u, [0], 60, released) for u in range(1, 12)]
        for most in (3.0, 12.0):
            circle = Circle(task, p, pi, 60, released, most)
            for b in (0.1, 0.5, 2.0, 30.0):
                for targets in circle.batches(0):
                    found = circle.log_moments(circle.pieces(0, targets), b)
                    assert all(
                        value >= exact[u - 1].log_moment(b) - 1e-9 for u, value in zip(targets, found, strict=True)
                    )


def test_the_noise_for_many_classes_keeps_the_promise(monkeypatch):
    p, pi = law("erdos-renyi", 10, seed=3)
    exact = Promise("sgd", p, pi, 40).sigma(2.0, 1.0, 1e-5)
    monkeypatch.setattr(graph_pairs, "CLASSES_MAX", 10)
    assert exact * 0.9999 <= Promise("sgd", p, pi, 40).sigma(2.0, 1.0, 1e-5) <= exact * 1.02


def test_walks_that_are_not_reversible_are_computed_pair_by_pair(monkeypatch):
    turning = np.roll(np.eye(5), 1, axis=1) * 0.7 + np.eye(5) * 0.3
    monkeypatch.setattr(graph_pairs, "CLASSES_MAX", 2)
    promise = Promise("sum", turning, np.full(5, 0.2), 12)
    assert promise.by_classes and promise.matrix(2.0, 1.0, 1e-5).max() > 0
