"""What was printed on graphs: reproduced, and shown to be wrong where it is (THEORY.md#printed, #gossip)."""

import math

import networkx as nx
import numpy as np
import pytest
from scipy.linalg import logm

from network_dp import exposure, gossip, graph_walk, printed
from network_dp.errors import AccountingError
from network_dp.exposure import Observation
from network_dp.graphs.generators import adjacency, generate
from network_dp.graphs.weights import metropolis, stationary


def test_theorem_3_of_random_walks_is_reproduced_on_the_hypercube():
    p = metropolis(adjacency(generate("hypercube", 32)))
    stated = printed.random_walk_at(p, 275, 4.0, 1.0, 1e-5)
    assert stated[0, 1] == pytest.approx(2.78, abs=0.005) and stated[0, 31] == pytest.approx(1.50, abs=0.005)
    one = printed.random_walk(3.0, p, 275, 4.0, 1.0)
    communicability = -logm(np.eye(32) - p + 1 / 32).real
    harmonic = sum(1 / t for t in range(1, 276))
    assert np.allclose(one, 3 * 275 / (16 * 32) * (harmonic / 32 + communicability), rtol=1e-9)


def test_theorem_3_of_random_walks_is_too_small_when_the_path_is_known():
    """With a known path ln E exp(b S) IS (alpha - 1) eps_alpha for sums; the printed bound is below it."""
    peers = nx.to_numpy_array(nx.path_graph(3))
    p, pi, order, sigma, n_steps = metropolis(peers), stationary(peers), 6.0, 1.0, 12
    b = order * (order - 1) / (2 * sigma**2)
    exact = graph_walk.prepare("sum", p, pi, 0, [2], n_steps).log_moment(b) / (order - 1)
    assert printed.random_walk(order, p, n_steps, sigma, 1.0)[0, 2] < exact / 2


def test_gossip_on_a_path_shows_everything_where_the_printed_exposure_is_a_millionth():
    peers = generate("path", 16)
    stated = printed.gossip_exposure(metropolis(adjacency(peers)), 25, 15)
    joint = gossip.joint_exposure(peers, 25, 15)
    assert stated[0] == pytest.approx(8.6e-7, rel=0.01) and joint[0] == 1.0
    assert joint[15] == stated[15] == 0.0


@pytest.mark.parametrize(
    ("kind", "n", "n_rounds"), [("star", 6, 4), ("path", 5, 2), ("path", 5, 6), ("hypercube", 8, 3)]
)
def test_the_joint_exposure_of_gossip_is_that_of_all_observations(kind, n, n_rounds):
    """Against c' Sigma^+ c of everything that the observer received, its own noise removed."""
    peers = generate(kind, n)
    weights, power, seen = metropolis(adjacency(peers)), np.eye(n), []
    for _ in range(n_rounds):
        seen += [Observation(dict(enumerate(power[w])), {x: power[w, x] for x in range(n - 1)}) for w in peers[n - 1]]
        power = power @ weights
    oracle = exposure.general(seen)
    joint = gossip.joint_exposure(peers, n_rounds, n - 1)
    assert [joint[u] for u in range(n - 1)] == pytest.approx([oracle[u] for u in range(n - 1)], abs=1e-6)


def test_gossip_before_any_round_shows_nothing_and_wrong_input_is_named():
    peers = generate("path", 4)
    assert np.all(gossip.joint_exposure(peers, 0, 1) == 0)
    assert list(gossip.joint_exposure(peers, 1, 1)) == [1, 0, 1, 0]
    with pytest.raises(AccountingError, match="from 0 to 3"):
        gossip.joint_exposure(peers, 3, 4)
    assert math.isfinite(printed.random_walk_at(metropolis(adjacency(peers)), 5, 1e-3, 1.0, 1e-5).max())
