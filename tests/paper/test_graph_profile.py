"""The averaged profile of SGD on a graph (THEORY.md#graph-promise), against the exact law of all paths."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import brentq

from network_dp import graph_walk
from network_dp.accounting import gaussian
from network_dp.errors import AccountingError
from network_dp.graphs import profile as graph_profile
from network_dp.graphs.weights import metropolis, stationary


def windows(path, target, observer, released):
    met = [t for t, x in enumerate(path) if x == observer]
    end = len(path) if released else (met[-1] if met else -1)
    stops = [t for t, x in enumerate(path) if x in (observer, target)] + [len(path)]
    return sum(1 / (next(s for s in stops if s > t) - t) for t, x in enumerate(path) if x == target and t < end)


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize(("target", "observer"), [(0, 1), (0, 3), (2, 1)])
def test_the_profile_is_that_of_every_path_rounded_up_and_below_the_moment(target, observer, released):
    adjacency = nx.to_numpy_array(nx.path_graph(4))
    p, pi = metropolis(adjacency), stationary(adjacency)
    chances, seen = [], []
    for path in itertools.product(range(4), repeat=6):
        chances.append(pi[path[0]] * math.prod(p[x, y] for x, y in itertools.pairwise(path)))
        seen.append(windows(path, target, observer, released))
    mus = np.sqrt(seen) / 2.0

    def excess(epsilon):
        return float(np.array(chances) @ gaussian.deltas(mus, epsilon)) - 1e-4

    exact = brentq(excess, 1e-9, 50)
    value = graph_profile.epsilon(p, pi, target, [observer], 6, 2.0, 1.0, 1e-4, released)
    assert exact <= value < 1.05 * exact
    assert value < graph_walk.prepare("sgd", p, pi, target, [observer], 6, released).epsilon(2.0, 1.0, 1e-4)


def test_the_law_of_the_exposure_is_a_law():
    adjacency = nx.to_numpy_array(nx.star_graph(4))
    p, pi = metropolis(adjacency), stationary(adjacency)
    for released in (False, True):
        law = graph_profile.exposure_law(graph_walk.prepare("sgd", p, pi, 1, [2, 3], 25, released))
        assert np.all(law >= 0) and law.sum() == pytest.approx(1, rel=1e-12)


def test_what_the_profile_does_not_reach_is_said():
    p, pi = np.full((3, 3), 1 / 3), np.full(3, 1 / 3)
    with pytest.raises(AccountingError, match="at most 2000 steps"):
        graph_profile.epsilon(p, pi, 0, [1], 3000, 1.0, 1.0, 1e-5)
    lazy = np.eye(3) * 0.97 + 0.01
    assert graph_profile.epsilon(lazy, pi, 0, [1], 150, 1.0, 1.0, 1e-5) == math.inf  # exposures beyond the grid
    with pytest.raises(AccountingError, match="sigma"):
        graph_profile.epsilon(p, pi, 0, [1], 5, 0.0, 1.0, 1e-5)


def test_local_dp_is_that_of_the_number_of_visits():
    adjacency = nx.to_numpy_array(nx.path_graph(3))
    p, pi = metropolis(adjacency), stationary(adjacency)
    paths = list(itertools.product(range(3), repeat=6))
    chances = np.array([pi[x[0]] * math.prod(p[a, b] for a, b in itertools.pairwise(x)) for x in paths])
    mus = np.sqrt([path.count(0) for path in paths]) / 2.0
    exact = brentq(lambda e: float(chances @ gaussian.deltas(mus, e)) - 1e-4, 1e-9, 50)
    value = graph_profile.local_epsilon(p, pi, 0, 6, 2.0, 1.0, 1e-4)
    assert exact <= value < exact * (1 + 1e-6)


def test_local_dp_on_the_hypercube_of_32_users():
    cube = nx.to_numpy_array(nx.convert_node_labels_to_integers(nx.hypercube_graph(5)))
    assert graph_profile.local_epsilon(metropolis(cube), stationary(cube), 0, 275, 4.0, 1.0, 1e-5) == pytest.approx(
        4.03, abs=0.01
    )
