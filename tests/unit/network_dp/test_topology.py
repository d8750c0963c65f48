"""The graph of peers as a value: its law, who may hand over to whom, what a visit counts."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from network_dp.graphs.visits import log_moment, most_visits
from network_dp.topology import Graph, Weights
from simulator.walks import drawn

STAR = ((1, 2, 3), (0,), (0,), (0,))
PAW = ((1,), (0, 2, 3), (1, 3), (1, 2))
CYCLE = ((1, 4), (0, 2), (1, 3), (2, 4), (0, 3))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any connected graph of 2 to 7 users."""
    n = draw(st.integers(2, 7))
    edges = {(draw(st.integers(0, i - 1)), i) for i in range(1, n)}  # a tree, and more
    edges |= draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] < e[1])))
    lists: list[set[int]] = [set() for _ in range(n)]
    for a, b in edges:
        lists[a].add(b)
        lists[b].add(a)
    return Graph(
        n, 0, 9, tuple(tuple(sorted(peers)) for peers in lists), draw(st.sampled_from(["metropolis", "simple"]))
    )


@given(graphs())
def test_the_first_holders_law_is_every_later_ones(graph: Graph) -> None:
    assert np.allclose(graph.stationary() @ graph.transition(), graph.stationary(), atol=1e-14)


@given(graphs())
def test_every_visit_counts_so_that_every_user_counts_alike(graph: Graph) -> None:
    """pi_u share_u correction = 1/n: the mean over visits is the mean over users."""
    shares = np.array([part / whole for part, whole in map(graph.share, range(graph.n_users))])
    assert np.allclose(graph.stationary() * shares * graph.correction, 1 / graph.n_users, rtol=1e-12)
    assert shares.max() <= 1.0


def test_metropolis_weights_are_whole_numbers_of_the_exact_law() -> None:
    graph = Graph(4, 0, 9, PAW)
    users, step, weights = graph.next(2, 3, range(4))
    assert weights is not None and (step, tuple(users)) == (4, (1, 2, 3))
    chances = [Fraction(weight, sum(weights)) for weight in weights]
    assert chances == [Fraction(1, 4), Fraction(5, 12), Fraction(1, 3)]  # degrees 2, 3 and 2, 2


def test_peers_that_are_down_are_left_out_and_the_others_keep_their_proportions() -> None:
    users, _, weights = Graph(4, 0, 9, PAW).next(2, 3, [0, 2, 3])
    assert weights is not None and Fraction(weights[0], weights[1]) == Fraction(5, 4) and tuple(users) == (2, 3)


def test_a_holder_waits_for_its_peers_when_all_are_down_and_for_nobody_at_the_ends() -> None:
    graph = Graph(4, 0, 9, STAR)
    assert graph.awaited(1, 4, [1, 2, 3]) == (0,)
    assert not graph.awaited(0, 4, [0, 3])
    assert not graph.awaited(1, 0, [1, 2])  # the starter draws among all
    assert not graph.awaited(1, 9, [1]) and not graph.next(1, 9, [1]).users  # the walk is over


def test_only_the_first_hop_may_leave_the_graph() -> None:
    graph = Graph(4, 0, 9, STAR)
    assert graph.may_pass(1, 2, 1) and graph.may_pass(1, 0, 5) and graph.may_pass(1, 1, 5)
    assert not graph.may_pass(1, 2, 5)


def test_losing_the_centre_of_a_star_cuts_its_leaves_off() -> None:
    graph = Graph(4, 0, 9, STAR)
    assert graph.holds_together({0, 2, 3}) and not graph.holds_together({1, 2})


@pytest.mark.parametrize("weights", ["metropolis", "simple"])
@pytest.mark.parametrize("peers", [STAR, PAW, CYCLE], ids=["star", "paw", "cycle"])
def test_no_values_have_a_larger_sampling_error_than_the_factor_says(
    peers: tuple[tuple[int, ...], ...], weights: Weights
) -> None:
    """The variance of a sum of f over the walk, for every eigenvector f of the covariances: the factor is the most."""
    steps = 12
    graph = Graph(len(peers), 0, steps, peers, weights)
    law, matrix = graph.stationary(), graph.transition()
    root = np.sqrt(law)
    between = sum(
        np.linalg.matrix_power(matrix * root[:, None] / root, abs(s - t)) for s in range(steps) for t in range(steps)
    )
    project = np.eye(len(peers)) - np.outer(root, root)
    most = np.linalg.eigvalsh(project @ between @ project / steps)[-1]
    assert graph.sampling_factor == pytest.approx(max(1.0, np.sqrt(most)), rel=1e-9)


@pytest.mark.parametrize("absent", [frozenset[int](), frozenset({3})], ids=["none", "one"])
def test_the_moment_of_the_visits_covers_every_pattern_of_absences(absent: frozenset[int]) -> None:
    """By forward recursion over all walks of 5 steps from anywhere, for every pattern; with nobody absent: equal."""
    graph, steps, tilt = Graph(4, 0, 5, PAW), 5, 0.7
    patterns = set(itertools.product([frozenset[int](), absent], repeat=steps))
    worst = max(math.log(_moment(graph, pattern, tilt)) for pattern in patterns)
    bound = log_moment(graph, steps, absent, tilt)
    assert worst <= bound and (absent or bound == pytest.approx(worst, rel=1e-6))
    assert log_moment(graph, steps, frozenset(), tilt) <= bound


def _moment(graph: Graph, pattern: tuple[frozenset[int], ...], tilt: float) -> float:
    """The largest E exp(t N_u) over users u and starts."""
    most = 0.0
    for user, start in itertools.product(range(4), repeat=2):
        states = {start: 1.0}
        for down in pattern:
            following = dict.fromkeys(range(4), 0.0)
            for holder, value in states.items():
                alive = [other for other in range(4) if other == holder or other not in down]
                users, _, weights = graph.next(holder, 1, alive)
                assert weights is not None
                for other, weight in zip(users, weights, strict=True):
                    following[other] += value * weight / sum(weights) * math.exp(tilt * (other == user))
            states = following
        most = max(most, sum(states.values()))
    return most


def test_the_bound_on_visits_holds_in_walks_and_never_exceeds_their_length() -> None:
    graph, generator = Graph(5, 0, 200, CYCLE), np.random.default_rng(1)
    bound = most_visits(graph, [200], (), 1e-2)
    most = [np.bincount(drawn(graph, generator), minlength=5).max() for _ in range(50)]
    assert max(most) <= bound < 200 == most_visits(graph, [200], (0, 1, 2, 3, 4), 1e-2)
