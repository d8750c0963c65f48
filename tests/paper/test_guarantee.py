"""What several runs come to together, against closed forms and exact compositions (THEORY.md#budget)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from network_dp.accounting import gaussian, guarantee, shuffle
from network_dp.accounting.guarantee import Guarantee, composed_epsilon


def curve_of_gaussian(mu: float) -> Guarantee:
    """The same mechanism as a curve alone: what composes when its mu is not known."""
    whole = guarantee.of_gaussian(mu, 1e-10)
    return Guarantee(whole.epsilons, whole.deltas)


@pytest.mark.parametrize(("mu", "times"), [(0.5, 4), (0.2, 25), (1.0, 10)])
def test_curves_compose_to_little_more_than_the_exact_sum(mu: float, times: int) -> None:
    exact = gaussian.epsilon(mu * math.sqrt(times), 1e-6)
    assert exact <= composed_epsilon([curve_of_gaussian(mu)] * times, 1e-6) <= exact * 1.002


def test_gaussian_runs_add_their_mu_squared() -> None:
    parts = [guarantee.of_gaussian(mu, 1e-10) for mu in (0.3, 0.4, 1.2)]
    found = composed_epsilon(parts, 1e-6)
    assert found == pytest.approx(gaussian.epsilon(1.3, 1e-6), rel=1e-5)
    assert found >= gaussian.epsilon(1.3, 1e-6)


def test_mixed_runs_cost_no_less_than_the_exact_sum() -> None:
    mixed = composed_epsilon([curve_of_gaussian(0.3), guarantee.of_gaussian(0.4, 1e-10)], 1e-6)
    exact = gaussian.epsilon(0.5, 1e-6)
    assert exact <= mixed <= exact * 1.005


def test_pure_runs_compose_as_randomised_response() -> None:
    """Randomised response dominates all that is epsilon-DP: k of them, exactly."""
    epsilon, times, delta = 0.4, 12, 1e-5
    pure = Guarantee(np.array([0.0, epsilon]), np.array([math.tanh(epsilon / 2), 0.0]))
    exact = shuffle.local_epsilon(times, 2, shuffle.local_gamma(epsilon, 2), delta)
    assert exact * (1 - 1e-9) <= composed_epsilon([pure] * times, delta) <= exact * 1.02


def test_one_run_costs_its_own_promise_and_no_guarantee_costs_everything() -> None:
    one = Guarantee(np.array([0.5, 1.0]), np.array([1e-3, 1e-6]))
    assert composed_epsilon([one], 1e-6) == 1.0
    assert composed_epsilon([one], 1e-9) == math.inf
    nothing = Guarantee(np.zeros(0), np.zeros(0))
    assert composed_epsilon([one, nothing], 1e-6) == math.inf


def test_between_its_points_a_curve_is_above_the_true_one() -> None:
    mu = 0.7
    few = np.linspace(0, 3, 7)
    coarse = Guarantee(few, gaussian.deltas(mu, few))
    between = np.linspace(0, 3, 500)
    assert (coarse.deltas_at(between) >= gaussian.deltas(mu, between) * (1 - 1e-12)).all()
    assert coarse.delta(0.5) == pytest.approx(gaussian.delta(mu, 0.5), rel=1e-12)
