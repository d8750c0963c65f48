"""The path-averaged Gaussian profile against every path of tiny walks, the recursion, Monte Carlo and known numbers."""

import itertools
import math

import numpy as np
import pytest

from network_dp import calibrate, exposure
from network_dp.accounting import bounds, gaussian, profile
from network_dp.accounting.moments import Law, log_moment

LAWS = [
    Law(task, n, steps, c, released)
    for task in ("sum", "sgd")
    for n, steps, c in ((3, 6, 1), (4, 5, 2))
    for released in (False, True)
]


def all_exposures(law):
    observers = list(range(law.colluders))
    return np.array(
        [
            exposure.matrix(path, law.n_users, law.task, law.released, colluders=observers)[law.n_users - 1, 0]
            for path in itertools.product(range(law.n_users), repeat=law.n_steps)
        ]
    )


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_law_of_the_rounded_exposure_dominates_that_of_every_path(law):
    found, exact = profile.exposure_law(law), np.sort(all_exposures(law))
    assert found.lost < 1e-7
    for level in np.unique(exact):
        truth = float(np.mean(exact >= level - 1e-12))
        assert float(found.probability[found.exposure >= level - 1e-12].sum()) >= truth - 1e-9


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_epsilon_lies_between_the_exact_one_and_the_renyi_bound(law):
    sigma, delta = 1.3, 1e-4
    found = profile.epsilon(law, sigma, 1.0, delta)
    exact = float(gaussian.deltas(np.sqrt(all_exposures(law)) / sigma, found).mean())
    assert 0.97 * delta <= exact <= delta  # the grid rounds up, and nothing else does
    renyi = bounds.network_epsilon(
        law.task, law.n_users, law.n_steps, sigma, 1.0, delta, law.released, law.colluders, accountant="renyi"
    )
    assert found <= renyi


@pytest.mark.parametrize("task", ["sum", "sgd"])
@pytest.mark.parametrize("released", [False, True])
def test_moments_of_the_law_are_those_of_the_recursion_rounded_up(task, released):
    law = Law(task, 20, 200, 1, released)
    found = profile.exposure_law(law)
    for b in (0.1, 0.4):  # not larger: e^(b S) would blow up rounding, 1e-14 in bins far out, which `lost` covers
        moment = math.log(float(found.probability @ np.exp(b * found.exposure)))
        exact = log_moment(law, b)
        windows = 200 * found.step  # no more terms than steps, each rounded up by less than one grid step
        assert exact - 1e-9 <= moment <= exact + b * windows


def test_profile_is_above_monte_carlo():
    n, steps, sigma, walks = 8, 80, 3.0, 400
    rng = np.random.default_rng(5)
    pairs = ~np.eye(n, dtype=bool)
    for task in ("sum", "sgd"):
        law = Law(task, n, steps)
        found = profile.epsilon(law, sigma, 1.0, 1e-3)
        deltas = [
            gaussian.deltas(np.sqrt(exposure.matrix(rng.integers(n, size=steps), n, task)[pairs]) / sigma, found).mean()
            for _ in range(walks)
        ]
        assert np.mean(deltas) - 6 * np.std(deltas) / math.sqrt(walks) <= 1e-3


def test_a_delta_below_the_resolution_and_a_walk_too_long_have_no_profile():
    assert profile.epsilon(Law("sum", 4, 6), 1.0, 1.0, 1e-15) == math.inf
    assert profile.epsilon(Law("sgd", 200, 10**6), 100.0, 1.0, 1e-6) == math.inf


@pytest.mark.slow
def test_calibrated_sigma_of_a_small_walk_is_below_the_renyi_one():
    law = Law("sgd", 30, 300)
    sigma = calibrate.sigma(1.0, 1e-5, 2.0, task="sgd", n_users=30, n_steps=300)
    assert profile.epsilon(law, sigma, 2.0, 1e-5) <= 1.0 < profile.epsilon(law, sigma * 0.999, 2.0, 1e-5)
    assert bounds.network_epsilon("sgd", 30, 300, sigma, 2.0, 1e-5, accountant="renyi") > 1.0


@pytest.mark.slow
@pytest.mark.parametrize("sigma,epsilon", [(6.23, 1.0), (0.936, 10.0)])
def test_known_numbers_of_the_sgd_example(sigma, epsilon):
    law = Law("sgd", 2000, 20_000)
    assert profile.epsilon(law, sigma, 2.0, 1e-6) <= epsilon < profile.epsilon(law, sigma * 0.99, 2.0, 1e-6)
    assert profile.exposure_law(law).lost < 1e-8


@pytest.mark.parametrize("law", [*LAWS, Law("sum", 20, 400), Law("sgd", 8, 2_000)], ids=str)
def test_the_bound_on_floating_point_error_holds(law):
    """At frequency 0 the law has mass 1, plus the damped mass of longer walks: between none and e^-14."""
    found = profile._Terms(law)
    left_out, waves = found.left_out, found.waves(1 / 512)
    circle = profile._Circle(law, found.most)
    terms = waves(0, np.ones(1, dtype=complex))
    total, bound = circle.coefficient(terms), circle.error(terms)
    assert 1e-16 < bound < 1e-9
    missing = (law.n_steps + 1) * left_out
    assert abs(total.imag) <= bound
    assert 1 - bound - missing <= total.real <= 1 + 1.01 * math.exp(-14) + bound
    for other in (0.3, 2.0):  # any frequency errs less: rotate all levels by a phase and come back
        turned = waves(1, np.exp(1j * other * np.arange(64)))
        assert abs(circle.coefficient(turned)) <= total.real + 2 * bound


def test_long_sums_leave_hardly_any_probability_out():
    """Logarithms of factorials were off by 5e-11 a row, 8e-7 in all, which made every epsilon infinite."""
    law = Law("sum", 200, 20_000, 1, True)
    left_out = profile._Terms(law).left_out
    assert (law.n_steps + 1) * left_out < 1e-11


@pytest.mark.slow
def test_a_long_sum_has_a_profile_below_its_renyi_bound():
    law = Law("sum", 200, 20_000, 1, True)
    found = profile.epsilon(law, 10.0, 1.0, 1e-6)
    assert 0.4 < found < bounds.network_epsilon("sum", 200, 20_000, 10.0, 1.0, 1e-6, True, accountant="renyi")


def test_masses_of_a_sum_are_rounded_up():
    """What a row keeps and what it leaves out is never less than 1: no probability is lost to rounding."""
    law = Law("sum", 50, 3000)
    terms = profile._Terms(law)
    left_out = terms.left_out
    kernel = terms.waves(1 / 512)(0, np.ones(1, dtype=complex))
    kept = int(np.flatnonzero(kernel)[-1]) + 1
    assert math.exp(kept * math.log1p(-1 / 50)) <= left_out < 1e-15  # longer cycles are left out, and counted
    kernel = kernel[:kept]
    decay = profile._powers(math.log1p(-1 / 50), kept - 1)
    assert (kernel.real >= decay * (1 - left_out) * (1 - 1e-14)).all()
    assert (kernel.real <= decay * (1 + 1e-10)).all()
