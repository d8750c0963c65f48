"""Expected errors against simulation of the algorithms."""

import math

import numpy as np
import pytest

from network_dp import utility
from network_dp.errors import AccountingError


@pytest.mark.parametrize(
    "n,rounds,released,expected", [(10, 1, False, 1), (10, 1, True, 2), (10, 4, False, 5), (3, 1, True, 2)]
)
def test_ring_noises_follow_the_position_rule(n, rounds, released, expected):
    last, count = None, 0
    for position in range(1, n * rounds):
        if last is None or position + 1 >= last + n:
            last, count = position, count + 1
    assert utility.ring_noises(n, rounds, released) == count + released == expected


def test_mean_on_the_complete_graph_has_noise_and_sampling_error():
    rng = np.random.default_rng(0)
    n, steps, sigma, trials = 30, 200, 2.0, 4000
    values = rng.normal(size=n)
    walks = rng.integers(n, size=(trials, steps))
    estimates = (values[walks].sum(axis=1) + rng.normal(0, sigma, (trials, steps)).sum(axis=1)) / steps
    predicted = utility.mean_std(sigma, topology="complete", n_users=n, n_steps=steps, value_std=float(values.std()))
    assert estimates.std() == pytest.approx(predicted, rel=6 / math.sqrt(2 * trials))


def test_mean_on_the_ring_divides_by_all_contributions():
    predicted = utility.mean_std(3.0, topology="ring", n_users=10, n_rounds=4, released=True)
    assert predicted == pytest.approx(3.0 * math.sqrt(6) / 40)


def test_capped_contributions_are_the_expected_minimum():
    rng = np.random.default_rng(1)
    n, steps, cap, trials = 10, 60, 5, 3000
    counts = rng.multinomial(steps, [1 / n] * n, size=trials)
    real = np.minimum(counts, cap).sum(axis=1)
    expected = n * utility.mean_capped(steps, 1 / n, cap)
    assert expected == pytest.approx(real.mean(), abs=6 * real.std() / math.sqrt(trials))
    assert utility.mean_std(1.0, topology="complete", n_users=n, n_steps=steps, cap=0) == math.inf


def test_histogram_error_matches_simulation():
    rng = np.random.default_rng(2)
    n, buckets, gamma, extra, trials = 400, 4, 0.3, 50, 4000
    hold = n // 4
    stay, stray = 1 - gamma + gamma / buckets, gamma / buckets
    counts = rng.binomial(hold, stay, trials) + rng.binomial(n - hold, stray, trials)
    counts += rng.binomial(extra, 1 / buckets, trials)
    estimates = (counts - (gamma * n + extra) / buckets) / (1 - gamma)
    assert estimates.mean() == pytest.approx(hold, abs=6 * estimates.std() / math.sqrt(trials))
    predicted = utility.histogram_std(n, buckets, gamma, n_random=extra, share=0.25)
    assert estimates.std() == pytest.approx(predicted, rel=6 / math.sqrt(2 * trials))
    assert utility.histogram_std(n, buckets, gamma) >= utility.histogram_std(n, buckets, gamma, share=0.25)


def test_sgd_suboptimality_bounds_a_real_run():
    """Noisy projected SGD on |w - 0.3| over [-1, 1], eta_t = D/(G sqrt t)."""
    rng = np.random.default_rng(3)
    steps, sigma, diameter = 2000, 1.0, 2.0
    g = math.sqrt(1 + sigma**2)
    w = np.full(200, -1.0)
    for t in range(1, steps + 1):
        gradient = np.sign(w - 0.3) + rng.normal(0, sigma, len(w))
        w = np.clip(w - diameter / (g * math.sqrt(t)) * gradient, -1, 1)
    assert np.abs(w - 0.3).mean() <= utility.sgd_suboptimality(diameter, 1.0, 1, sigma, steps)


def test_missing_arguments_are_named():
    with pytest.raises(AccountingError, match="n_steps"):
        utility.sum_std(1.0, topology="complete")
    with pytest.raises(AccountingError, match="3 users"):
        utility.ring_noises(2, 1, False)
    with pytest.raises(AccountingError, match="topology"):
        utility.sum_std(1.0, topology="star", n_steps=5)
    with pytest.raises(AccountingError, match="n_steps"):
        utility.sum_std(1.0, topology="complete", n_steps=-5)
    with pytest.raises(AccountingError, match="diameter"):
        utility.sgd_suboptimality(-1.0, 1.0, 1, 1.0, 5)
