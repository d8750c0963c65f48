"""Lower bounds from canaries: never above the truth but with the stated probability, and not toothless."""

import math

import numpy as np
import pytest

from network_dp import canaries
from network_dp.accounting import gaussian
from network_dp.errors import AccountingError


def scores(mu, count, seed):
    """Log-likelihood ratios towards the truth under a Gaussian mechanism."""
    return np.random.default_rng(seed).normal(mu * mu / 2, mu, count)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_no_bound_is_above_a_gaussian_mechanism(mu):
    for seed in range(50):
        drawn = scores(mu, 400, seed)
        assert canaries.clopper_pearson(drawn, 0.1, 0.999) <= gaussian.epsilon(mu, 0.1)
        assert canaries.in_one_run(drawn, 1e-5, 0.999) <= gaussian.epsilon(mu, 1e-5)


@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_randomised_response_of_which_everything_is_known_is_met_closely(delta):
    """Right with probability e^eps / (1 + e^eps), certain with probability delta: the tight case of both bounds."""
    epsilon, rng = 1.0, np.random.default_rng(0)
    right = rng.random(20_000) < math.exp(epsilon) / (1 + math.exp(epsilon))
    drawn = np.where(rng.random(20_000) < delta, 50.0, np.where(right, epsilon, -epsilon))
    assert 0.9 < canaries.clopper_pearson(drawn, delta, 0.999) <= epsilon
    if delta == 0:
        assert 0.9 < canaries.in_one_run(drawn, delta, 0.999) <= epsilon


def test_half_the_noise_is_seen_with_400_canaries_and_no_noise_with_40():
    for seed in range(20):
        assert canaries.clopper_pearson(scores(2.0, 400, seed), 0.2, 0.999) > gaussian.epsilon(1.0, 0.2)
    assert canaries.clopper_pearson(np.full(40, 9.0), 0.2, 0.999) > gaussian.epsilon(1.0, 0.2)
    assert canaries.in_one_run(np.full(60, 9.0), 1e-5, 0.999) > gaussian.epsilon(0.4, 1e-5)


def test_the_bound_in_one_run_pays_for_delta_with_every_canary():
    """Steinke, Nasr & Jagielski 2023: 100 of 100 right at 95 % is rate^100 = 0.05 for delta = 0; more delta, less."""
    certain = np.full(100, 9.0)
    pure = canaries.in_one_run(certain, 0.0, 0.95)
    rate = (0.05 / 5) ** (1 / 100)  # five thresholds share the risk
    assert pure == pytest.approx(math.log(rate / (1 - rate)), abs=1e-9)
    found = [canaries.in_one_run(certain, delta, 0.95) for delta in (1e-6, 1e-5, 1e-4, 1e-2)]
    assert pure > found[0] > found[1] > found[2] > found[3] == 0.0


def test_canaries_that_are_not_there_and_odds_that_are_none_are_refused():
    for drawn, delta, confidence in ((np.zeros(0), 0.1, 0.9), (np.ones(3), 1.0, 0.9), (np.ones(3), 0.1, 1.0)):
        with pytest.raises(AccountingError):
            canaries.clopper_pearson(drawn, delta, confidence)
