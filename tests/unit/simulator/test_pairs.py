"""Losses of all pairs: the fast way agrees with the slow one."""

from __future__ import annotations

import numpy as np
import pytest

from network_dp import exposure
from network_dp.accounting import gaussian, shuffle
from network_dp.accounting.randomised_response import Response
from simulator import pairs, walks
from simulator.responses import hidden_epsilon, response_losses, windows

N, DELTA, SIGMA = 12, 1e-5, 3.0
WALK = walks.uniform(N, 40 * N, np.random.default_rng(3))


def off_diagonal(matrix: np.ndarray) -> np.ndarray:
    return matrix[~np.eye(len(matrix), dtype=bool)]


def test_losses_of_a_sum_are_those_of_the_exposure_of_every_pair() -> None:
    exact = gaussian.epsilons(np.sqrt(off_diagonal(exposure.matrix(WALK, N, "sum"))) / SIGMA, DELTA)
    seen = pairs.sum_losses(WALK, N, SIGMA, 1.0, DELTA, np.random.default_rng(1))
    assert seen.count == N * (N - 1) and not seen.sampled
    assert seen.low == pytest.approx(exact.min(), rel=1e-9)
    assert seen.high == pytest.approx(exact.max(), rel=1e-9)
    assert seen.mean == pytest.approx(exact.mean(), rel=1e-5)


@pytest.mark.parametrize("task", ["sum", "sgd"])
def test_a_choice_of_users_has_the_exposure_it_has_among_all(task: exposure.Task) -> None:
    chosen = np.array([7, 2, 5])
    everybody = exposure.matrix(WALK, N, task)
    assert pairs.exposures(WALK, N, task, chosen) == pytest.approx(everybody[np.ix_(chosen, chosen)])


def test_more_users_than_fit_are_sampled_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "PAIRS_USERS_MAX", 10)
    monkeypatch.setattr(pairs, "SAMPLED_USERS", 5)
    seen = pairs.sum_losses(WALK, N, SIGMA, 1.0, DELTA, np.random.default_rng(1))
    assert seen.sampled and seen.count == 20


def test_spreads_of_runs_merge_into_that_of_all_numbers() -> None:
    a, b = np.array([1.0, 2.0]), np.array([5.0, 3.0, 4.0])
    assert pairs.merge([pairs.spread(a), pairs.spread(b)]) == pairs.spread(np.concatenate([a, b]))


def test_losses_of_a_histogram_bound_the_exact_ones_of_a_pair() -> None:
    """Renyi composition of all pairs is never below, and not far above, the exact composition of single pairs."""
    n = 4
    walk = walks.uniform(n, 10 * n, np.random.default_rng(5))
    response = Response(4, shuffle.local_gamma(0.5, 4))
    seen = response_losses(walk, n, windows(response, len(walk)), DELTA)
    couples = [(u, v) for u in range(n) for v in range(n) if u != v]
    exact = [shuffle.cycles_epsilon(cycles(walk, u, v), 4, response.gamma, DELTA) for u, v in couples]
    assert max(exact) <= seen.high * (1 + 1e-6) and min(exact) <= seen.low * (1 + 1e-6)
    assert seen.high < 1.25 * max(exact)


def cycles(walk: np.ndarray, u: int, v: int) -> list[tuple[int, int]]:
    found, start = [], 0
    for visit in np.flatnonzero(walk == v).tolist():
        found.append((visit - start, int((walk[start:visit] == u).sum())))
        start = visit + 1
    return found


def test_a_hidden_path_of_one_step_is_subsampled_randomised_response() -> None:
    """One answer, u's with probability 1/(n-1): epsilon at delta 0+ is ln(1 + (e^eps0 - 1)/(n-1)), up to the grid."""
    response = Response(2, shuffle.local_gamma(1.0, 2))
    exact = np.log1p((np.e - 1) / 9)
    assert hidden_epsilon(10, 1, response, 1e-12) == pytest.approx(exact, rel=0.03)
    assert hidden_epsilon(10, 1, response, 1e-12) >= exact * (1 - 1e-9)


@pytest.mark.slow
def test_two_hundred_users_take_a_hundredth_of_the_authors_time() -> None:
    """83 CPU seconds is what the authors' code took for T = 100 n and 10 walks; one walk may take a tenth of 0.83 s."""
    import time

    walk = walks.uniform(200, 20_000, np.random.default_rng(1))
    times = []
    for _ in range(3):
        start = time.process_time()
        pairs.sum_losses(walk, 200, SIGMA, 1.0, DELTA, np.random.default_rng(1))
        times.append(time.process_time() - start)
    assert min(times) < 0.5  # six times slack for a busy machine: a guard against n^2 loops, not a benchmark
