"""The Gaussian calculus against numerical integration, high-precision arithmetic and its own inverses."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from network_dp.accounting import gaussian
from network_dp.errors import AccountingError


@pytest.mark.parametrize("mu", [0.05, 0.3, 0.5, 0.51, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.5, 2.0, 9.0])
def test_delta_equals_the_integral_of_the_hockey_stick(mu, epsilon):
    start = epsilon / mu + mu / 2  # where the likelihood ratio exceeds e^epsilon
    expected, _ = quad(
        lambda z: norm.pdf(z - mu) * -math.expm1(epsilon - mu * z + mu * mu / 2),
        start,
        start + 40 + mu,
        epsabs=0,
        epsrel=1e-11,
        limit=400,
    )
    if expected > 1e-250:
        assert gaussian.delta(mu=mu, epsilon=epsilon) == pytest.approx(expected, rel=1e-8)


@settings(max_examples=150, deadline=None)
@given(
    log_epsilon=st.floats(math.log(1e-6), math.log(500)),
    log_delta=st.floats(math.log(1e-30), math.log(0.3)),
)
def test_epsilon_inverts_mu_and_delta_inverts_both_to_1e_9(log_epsilon, log_delta):
    epsilon, delta = math.exp(log_epsilon), math.exp(log_delta)
    mu = gaussian.mu(epsilon=epsilon, delta=delta)
    assert gaussian.epsilon(mu=mu, delta=delta) == pytest.approx(epsilon, rel=1e-9)
    assert gaussian.delta(mu=mu, epsilon=epsilon) == pytest.approx(delta, rel=1e-9)
    assert gaussian.epsilons([mu], delta=delta)[0] == pytest.approx(epsilon, rel=1e-9)
    assert 1 / gaussian.sigma(epsilon=epsilon, delta=delta, sensitivity=1.0) == pytest.approx(mu, rel=1e-9)


def test_extreme_values_stay_finite_and_ordered():
    for mu in (1e-9, 1e-4, 0.5, 0.500001, 30.0, 1e3):
        values = [gaussian.delta(mu=mu, epsilon=e) for e in (0.0, 1e-6, 1e-3, 1.0, 50.0, 500.0, 1e5)]
        assert all(0 <= value <= 1 for value in values)
        assert values == sorted(values, reverse=True)
    assert gaussian.epsilon(mu=math.inf, delta=1e-6) == math.inf
    assert gaussian.epsilon(mu=0.0, delta=1e-6) == 0.0
    assert gaussian.epsilon(mu=1e-8, delta=0.1) == 0.0
    for mu in (1e-310, 1e-200, 1e200):
        assert gaussian.delta(mu=mu, epsilon=1.0) == (1.0 if mu > 1 else 0.0)
    assert gaussian.deltas([0.01, 75.0, 1e6], 1.0) == pytest.approx([0.0, 1.0, 1.0])


def test_the_two_formulas_of_delta_meet_where_the_code_switches():
    for epsilon in (0.0, 1e-3, 0.3, 2.0):
        below = gaussian.delta(mu=0.5, epsilon=epsilon)
        above = gaussian.delta(mu=math.nextafter(0.5, 1), epsilon=epsilon)
        assert above == pytest.approx(below, rel=1e-10)


def test_many_at_once_agree_with_one_at_a_time():
    mus = np.array([[0.0, 0.01, 0.4], [1.0, 7.0, math.inf]])
    expected = [gaussian.epsilon(mu=float(m), delta=1e-6) for m in mus.ravel()]
    assert gaussian.epsilons(mus, delta=1e-6).ravel() == pytest.approx(expected, rel=1e-9)
    expected = [gaussian.delta(mu=float(m), epsilon=0.7) for m in mus.ravel()]
    assert gaussian.deltas(mus, epsilons=0.7).ravel() == pytest.approx(expected, rel=1e-12)


def test_analytic_sigma_of_twelve_local_contributions_of_sgd():
    twelve = math.sqrt(12) * 2  # sensitivity 2 L, L = 1
    assert gaussian.sigma(epsilon=1, delta=1e-6, sensitivity=twelve) == pytest.approx(29.27, abs=0.01)
    assert gaussian.sigma(epsilon=10, delta=1e-6, sensitivity=twelve) == pytest.approx(3.749, abs=0.001)


def test_renyi_conversion_of_a_gaussian_is_above_the_exact_epsilon():
    for mu in (0.1, 1.0, 4.0):
        best = min(
            gaussian.rdp_to_epsilon(order=a, rdp=a * mu * mu / 2, delta=1e-6) for a in 1 + np.geomspace(1e-3, 1e3, 400)
        )
        exact = gaussian.epsilon(mu=mu, delta=1e-6)
        assert exact <= best <= 1.25 * exact


def test_renyi_conversion_at_its_ends():
    assert gaussian.rdp_to_epsilon(order=math.inf, rdp=0.7, delta=1e-6) == 0.7  # pure DP
    near = gaussian.moment_to_epsilon(1e-18, 1e-15, 1e-6)
    assert near == pytest.approx(1e3 + math.log(1e-18) + (-math.log(1e-6) - 1e-18) / 1e-18)
    for bad in ({"order": 1.0}, {"rdp": -1.0}, {"rdp": math.nan}, {"delta": 0.0}):
        with pytest.raises(AccountingError):
            gaussian.rdp_to_epsilon(**{"order": 2.0, "rdp": 0.1, "delta": 1e-6, **bad})


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-9, math.nan])
def test_nonsense_delta_is_refused(delta):
    with pytest.raises(AccountingError, match="delta"):
        gaussian.epsilon(mu=1.0, delta=delta)
