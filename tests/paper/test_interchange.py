"""The same guarantee in other tools' words gives the same numbers there, and never smaller ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from opendp.mod import enable_features

from network_dp.accounting import gaussian, guarantee, interchange
from network_dp.accounting.guarantee import Guarantee

MU = 0.8
EXACT = guarantee.of_gaussian(MU, 1e-10)


@pytest.mark.parametrize("times", [1, 8])
def test_dp_accounting_computes_on_with_it(times: int) -> None:
    pld = interchange.to_dp_accounting(EXACT, 1e-3).self_compose(times)
    exact = gaussian.epsilon(MU * math.sqrt(times), 1e-6)
    assert exact * (1 - 1e-6) <= pld.get_epsilon_for_delta(1e-6) <= exact * 1.01


def test_opendp_reads_the_same_profile() -> None:
    enable_features("contrib", "honest-but-curious")
    profile = interchange.to_opendp(EXACT)
    for epsilon in (0.1, 1.0, 3.0):
        exact = gaussian.delta(MU, epsilon)
        assert exact <= profile.delta(epsilon=epsilon) <= exact * 1.01
    assert profile.epsilon(delta=1e-6) == pytest.approx(gaussian.epsilon(MU, 1e-6), rel=1e-3)


def test_the_trade_off_curve_is_that_of_two_gaussians() -> None:
    from scipy.stats import norm

    alphas, betas = interchange.trade_off(EXACT)
    exact = norm.cdf(norm.ppf(1 - alphas) - MU)
    assert (betas <= exact + 1e-9).all()  # never claims more errors than an attacker must make
    assert np.abs(betas - exact).max() < 2e-3
    assert betas[0] == pytest.approx(1.0, abs=1e-6) and betas[-1] == 0.0 and (np.diff(betas) <= 1e-12).all()
    header, first, *_ = interchange.trade_off_csv(EXACT).splitlines()
    assert header == "alpha,beta" and first.startswith("0.0,")


def test_without_a_guarantee_an_attacker_need_not_err() -> None:
    nothing = Guarantee(np.zeros(0), np.zeros(0))
    assert interchange.trade_off(nothing)[1].max() == 0.0
    assert "pld" not in interchange.as_plain(nothing)


def test_the_plain_form_is_a_distribution_with_the_same_epsilon() -> None:
    plain = interchange.as_plain(EXACT)["pld"]
    losses = (plain["lowest"] + np.arange(len(plain["probabilities"]))) * plain["interval"]
    masses = np.array(plain["probabilities"])
    assert masses.sum() + plain["infinity_mass"] == pytest.approx(1.0, abs=1e-9)
    delta = float(masses @ np.maximum(1 - np.exp(2.0 - losses), 0)) + plain["infinity_mass"]
    exact = gaussian.delta(MU, 2.0)
    assert exact <= delta <= exact * 1.02
