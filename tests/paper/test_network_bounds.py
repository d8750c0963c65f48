"""Ex-ante bounds on the complete graph (THEORY.md#before-a-run; the paper's Thm 3 and Thm 4 made valid).

Oracles: every path of tiny walks with its exact exposure, the recursions of docs/THEORY.md typed naively, Monte Carlo.
"""

import itertools
import math
import time
from functools import lru_cache

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from network_dp import calibrate, exposure, hidden, promise
from network_dp.accounting import bounds, gaussian, minorant, moments, renewal
from network_dp.accounting.moments import Law
from network_dp.errors import AccountingError, UnreachableError


@lru_cache(maxsize=64)
def all_exposures(law):
    """S of user u = n-1 to the observers 0..c-1 on each of the n^T equally likely paths."""
    observers = list(range(law.colluders))
    return np.array(
        [
            exposure.matrix(path, law.n_users, law.task, law.released, colluders=observers)[law.n_users - 1, 0]
            for path in itertools.product(range(law.n_users), repeat=law.n_steps)
        ]
    )


def naive(law, b):
    p, r = law.colluders / law.n_users, 1 / (law.n_users - law.colluders)
    g = [1.0] + [
        float(binom.pmf(np.arange(m + 1), m, r) @ np.exp(b * np.arange(m + 1) ** 2 / m))
        for m in range(1, law.n_steps + 1)
    ]
    if law.task == "sgd":  # cycles of a permutation: the one that holds the last step has any length, equally likely
        faces, g = g, [1.0]
        for m in range(1, law.n_steps + 1):
            g.append(sum(faces[width] * g[m - width] for width in range(1, m + 1)) / m)
    f = []
    for t in range(law.n_steps + 1):
        closing = g[t] if law.released else 1
        f.append(sum((1 - p) ** m * p * g[m] * f[t - 1 - m] for m in range(t)) + (1 - p) ** t * closing)
    return math.log(f[-1])


LAWS = [
    Law(task, n, steps, colluders, released)
    for task in ("sum", "sgd")
    for n, steps, colluders in ((2, 7, 1), (3, 6, 1), (3, 6, 2), (4, 4, 1), (4, 4, 2))
    for released in (False, True)
]
LONGER = [
    Law(task, n, steps, c, released)
    for task in ("sum", "sgd")
    for n, steps, c in ((2, 10, 1), (5, 60, 1), (20, 60, 3), (4, 30, 3))
    for released in (False, True)
]


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("b", [0.01, 0.7, 4.0])
def test_moment_against_every_path(law, b):
    exact = math.log(float(np.mean(np.exp(b * all_exposures(law)))))
    found = moments.log_moment(law, b)
    assert exact - 1e-12 <= found <= exact + 1e-9


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_epsilon_is_never_below_the_exact_one_of_path_and_view_together(law, sigma):
    delta = 1e-3
    mus = np.sqrt(all_exposures(law)) / sigma
    bound = bounds.network_epsilon(
        law.task, law.n_users, law.n_steps, sigma, 1.0, delta, released=law.released, colluders=law.colluders
    )
    assert float(gaussian.deltas(mus, bound).mean()) <= delta
    exact = brentq(lambda e: float(gaussian.deltas(mus, e).mean()) - delta, 0, 200)
    assert exact <= bound <= 2 * exact + 0.5  # an upper bound, and not an absurd one


@pytest.mark.parametrize("law", LONGER, ids=str)
@pytest.mark.parametrize("b", [0.05, 1.0])
def test_moment_equals_the_recursion_of_the_theory_page(law, b):
    assert moments.log_moment(law, b) == pytest.approx(naive(law, b), abs=1e-9)


@pytest.mark.parametrize("law", LONGER, ids=str)
@pytest.mark.parametrize("b", [0.05, 1.0, 2.5])
def test_closed_form_is_above_the_recursion(law, b):
    kernel, way = moments._kernel(law, b), minorant if law.task == "sgd" else renewal
    assert way.closed_form(kernel, law.n_steps) >= way.recursion(kernel, law.n_steps) - 1e-9


@pytest.mark.parametrize("task", ["sum", "sgd"])
@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("n,steps", [(60, 6_000), (300, 6_000), (300, 3_000)])
def test_closed_form_of_long_walks_is_close_above_the_recursion(task, released, n, steps):
    law = Law(task, n, steps, 1, released)
    for b in (0.1, 1.0):
        kernel, way = moments._kernel(law, b), minorant if task == "sgd" else renewal
        exact, closed = way.recursion(kernel, steps), way.closed_form(kernel, steps)
        assert exact - 1e-9 <= closed <= 1.25 * exact + 0.05


def test_cut_rows_and_blocks_stay_above_the_complete_sum():
    n, b = 200, 3.0
    rows = moments.binomial_rows(1 / (n - 1), 4_000)
    kernel = moments._kernel(Law("sum", n, 3_999), b)
    for m in (299, 400, 1_499, 1_700, 3_333, 3_990):
        c = np.arange(m + 1)
        terms = binom.logpmf(c, m, 1 / (n - 1)) + b * c**2 / m
        exact = float(np.logaddexp.reduce(terms))
        row = int(np.searchsorted(rows.stop, m, side="right"))
        found = kernel.log_weight[row] + math.log(n)
        assert exact - 1e-9 <= found <= exact * 1.01 + 1e-3


@pytest.mark.parametrize("task", ["sum", "sgd"])
@pytest.mark.parametrize("released", [False, True])
def test_moment_against_monte_carlo(task, released):
    n, steps, b, walks = 8, 80, 0.3, 500
    rng = np.random.default_rng(11)
    pairs = ~np.eye(n, dtype=bool)
    weights = np.array(
        [
            np.exp(b * exposure.matrix(rng.integers(n, size=steps), n, task, released)[pairs]).mean()
            for _ in range(walks)
        ]
    )
    slack = 6 * weights.std() / math.sqrt(walks)
    found = math.exp(moments.log_moment(Law(task, n, steps, 1, released), b))
    assert abs(weights.mean() - found) <= slack


@pytest.mark.slow
def test_known_numbers_of_the_sgd_example():
    example = {"task": "sgd", "n_users": 2000, "n_steps": 20_000}
    for epsilon, by_renyi, by_profile in ((1, 7.51, 6.22), (10, 1.101, 0.935)):
        renyi = calibrate.least(
            lambda sigma: bounds.network_epsilon("sgd", 2000, 20_000, sigma, 2.0, 1e-6, accountant="renyi"), epsilon, 8
        )
        assert renyi == pytest.approx(by_renyi, rel=2e-3)
        assert calibrate.sigma(epsilon, 1e-6, 2.0, **example) == pytest.approx(by_profile, rel=2e-3)
    assert calibrate.sigma(1, 1e-6, 2.0, privacy="local", cap=12) == pytest.approx(29.27, abs=0.01)
    assert calibrate.sigma(10, 1e-6, 2.0, privacy="local", cap=12) == pytest.approx(3.749, abs=0.001)


@pytest.mark.slow
@pytest.mark.parametrize("sigma,epsilon", [(1.47, 1.0), (0.852, 10.0)])
def test_known_numbers_if_the_path_were_hidden(sigma, epsilon):
    assert bounds.network_epsilon("sgd", 2000, 20_000, sigma * 1.02, 2.0, 1e-6, path="hidden") <= epsilon
    assert bounds.network_epsilon("sgd", 2000, 20_000, sigma * 0.98, 2.0, 1e-6, path="hidden") >= epsilon


def test_hidden_profile_of_one_step_bounds_both_directions_of_the_mixture():
    """x -> x' of u at mean -+mu/2 or 0 and mu, another user anywhere between: direct numerical integration."""
    rate, mu = 0.3, 1.3
    z = np.linspace(-12, 14, 200_001)
    density = lambda mean: np.exp(-((z - mean) ** 2) / 2) / math.sqrt(2 * math.pi)  # noqa: E731
    for other in (0.0, 0.4, mu):
        p = (1 - rate) * density(other) + rate * density(0)
        q = (1 - rate) * density(other) + rate * density(mu)
        for loss in (0.0, 0.05, 0.3, 0.9):
            bound = hidden.step_deltas(np.array([loss]), rate, mu)[0]
            for first, second in ((p, q), (q, p)):
                assert np.trapezoid(np.maximum(first - math.exp(loss) * second, 0), z) <= bound + 1e-9


@pytest.mark.parametrize("colluders", [1, 2])
def test_hidden_bound_of_a_few_steps_is_above_brute_force(colluders):
    """Two steps with n = 4: an observer that sees both values of the token; grid over both outputs."""
    n, mu, delta = 4, 1.0, 1e-3
    rate = 1 / (n - colluders)
    z = np.linspace(-9, 10, 1_901)
    cell = z[1] - z[0]
    others, mine = (np.exp(-((z - mean) ** 2) / 2) / math.sqrt(2 * math.pi) for mean in (0.0, mu))
    with_u = (1 - rate) * others + rate * mine
    p, q = np.outer(with_u, with_u), np.outer(others, others)
    bound = hidden.epsilon(n, 2, mu, delta, colluders)
    for first, second in ((p, q), (q, p)):
        assert np.maximum(first - math.exp(bound) * second, 0).sum() * cell**2 <= delta * (1 + 1e-6)


@pytest.mark.parametrize("n,steps,sigma", [(2, 10, 1.0), (5, 20, 0.01), (3, 5, 1e-3), (50, 500, 1.0)])
@pytest.mark.parametrize("delta", [1e-6, 1e-30])
def test_hiding_the_path_never_costs_anything(n, steps, sigma, delta):
    """Also where sigma or delta is out of the range of the accountant of hidden paths."""
    found = bounds.network_epsilon("sum", n, steps, sigma, 1.0, delta, path="hidden")
    assert 0 < found <= bounds.network_epsilon("sum", n, steps, sigma, 1.0, delta) < math.inf


def test_a_hidden_path_gets_no_number_from_the_rounding_of_a_transform():
    """Composed by an FFT that is not tilted, tails below 1e-12 are noise: epsilon used to FALL there as delta did."""
    deltas = [10.0**-k for k in range(4, 22)]
    found = [hidden.epsilon(50, 500, 1.0, delta) for delta in deltas]
    assert found == sorted(found)
    assert all(map(math.isfinite, found)) and found[-1] > 2 * found[4]


def test_a_hidden_path_refuses_a_cap():
    with pytest.raises(AccountingError, match="cap"):
        bounds.network_epsilon("sgd", 20, 200, 1.0, 1.0, 1e-6, cap=3, path="hidden")


def test_a_cap_bounds_the_exposure_by_itself():
    capped = bounds.network_epsilon("sum", 3, 3000, 1.0, 1.0, 1e-6, cap=2)
    assert capped == pytest.approx(bounds.local_epsilon(2, 1.0, 1.0, 1e-6))
    assert bounds.network_epsilon("sum", 3, 3000, 1.0, 1.0, 1e-6, cap=0) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("task", ["sum", "sgd"])
def test_bounds_are_monotone_where_they_must_be(task):
    def epsilon(n=50, steps=800, sigma=2.0, **more):
        return bounds.network_epsilon(task, n, steps, sigma, 1.0, 1e-6, **more)

    assert epsilon(steps=400) <= epsilon() <= epsilon(steps=1600)
    assert epsilon(sigma=4.0) <= epsilon() <= epsilon(sigma=1.0)
    assert epsilon() <= epsilon(released=True)
    assert epsilon() <= epsilon(colluders=2) <= epsilon(colluders=10)
    assert epsilon(n=100) <= epsilon()


@pytest.mark.parametrize("task", ["sum", "sgd"])
@pytest.mark.parametrize("sigma", [1e-3, 1e-1, 1.0, 1e3, 1e9])
@pytest.mark.parametrize("n,steps", [(2, 1), (2, 50), (3, 2_000), (1000, 1), (1000, 5_000)])
def test_extreme_inputs_give_a_number_and_never_nan(task, sigma, n, steps):
    bound = bounds.network_bound(task, n, steps, sigma, 1.0, 1e-9)
    assert bound.epsilon >= 0
    assert (bound.reason != "") == math.isinf(bound.epsilon)


@pytest.mark.parametrize("path", ["known", "hidden"])
def test_boundless_noise_hides_everything_and_a_boundless_contribution_nothing(path):
    for sigma, sensitivity, epsilon in (
        (math.inf, 1.0, 0.0),
        (1e300, 1.0, 0.0),
        (1.0, 1e-320, 0.0),
        (1.0, math.inf, math.inf),
        (1e-300, 1.0, math.inf),
    ):
        bound = bounds.network_bound("sum", 20, 100, sigma, sensitivity, 1e-6, path=path)
        assert bound.epsilon == epsilon
        assert (bound.reason != "") == math.isinf(epsilon)


def test_orders_very_close_to_one_keep_their_precision():
    """sigma = 1e-6: the best order is 1 + 2e-15, which a float cannot hold. epsilon is about mu^2 max(S)/2."""
    law, sigma = Law("sum", 3, 6), 1e-6
    largest = float(all_exposures(law).max()) / sigma**2 / 2
    assert largest * 0.99 <= bounds.network_epsilon("sum", 3, 6, sigma, 1.0, 1e-6, accountant="renyi") <= largest * 1.01


def test_no_noise_is_infinite_with_a_reason_and_nonsense_raises():
    assert bounds.network_bound("sum", 5, 5, 0.0, 1.0, 1e-6).reason == "sigma is 0: there is no noise"
    for bad in (
        {"n_users": 1},
        {"colluders": 5},
        {"n_steps": -1},
        {"delta": 0.0},
        {"sigma": -1.0},
        {"task": "mean"},
        {"n_users": 5.5},
        {"n_steps": 2.5},
        {"n_steps": "5"},
        {"colluders": 1.5},
        {"cap": 0.5},
        {"sigma": math.nan},
        {"path": "secret"},
        {"path": "hidden", "cap": 3},
    ):
        good = {"task": "sum", "n_users": 5, "n_steps": 5, "sigma": 1.0, "sensitivity": 1.0, "delta": 1e-6}
        with pytest.raises(AccountingError):
            bounds.network_epsilon(**{**good, **bad})


def test_visits_is_the_exact_binomial_quantile_where_chernoff_fails():
    """T = n = 1000, delta_hat = 1e-6: THEORY.md#printed. The exact quantile is the least that holds."""
    count = bounds.visits(1000, 1000, 1e-6)
    assert binom.sf(count, 1000, 1e-3) <= 1e-6 < binom.sf(count - 1, 1000, 1e-3)
    chernoff = 1 + math.sqrt(3 * 1 * math.log(1e6))
    assert count > chernoff


@pytest.mark.parametrize("n,steps,delta_hat", [(10**6, 10**9, 1e-30), (50, 7, 1e-20), (2, 3, 0.2), (1, 5, 0.5)])
def test_visits_is_exact_for_tails_below_the_precision_of_a_float(n, steps, delta_hat):
    count = bounds.visits(n, steps, delta_hat)
    assert binom.sf(count, steps, 1 / n) <= delta_hat
    assert count == 0 or binom.sf(count - 1, steps, 1 / n) > delta_hat


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": math.inf},
        {"sensitivity": math.inf},
        {"topology": "star"},
        {"privacy": "none"},
        {"topology": "ring", "n_rounds": -1},
        {"privacy": "local", "n_contributions": -1},
        {"n_steps": 2.5},
    ],
)
def test_a_target_that_makes_no_sense_is_refused(bad):
    good = {"epsilon": 1.0, "delta": 1e-6, "sensitivity": 1.0, "n_users": 10, "n_steps": 50}
    with pytest.raises(AccountingError):
        calibrate.sigma(**{**good, **bad})
    with pytest.raises(AccountingError, match="topology"):
        calibrate.gamma(1.0, 1e-6, topology="star", n_users=10, n_buckets=3, n_steps=50)


def test_calibrated_sigma_meets_its_target_and_a_tenth_of_a_percent_less_does_not():
    for task in ("sum", "sgd"):
        sigma = calibrate.sigma(2.0, 1e-6, 1.0, task=task, n_users=30, n_steps=300, released=True, colluders=2)
        arguments = (1.0, 1e-6 / promise.DISCRETE_INFLATION)
        assert bounds.network_epsilon(task, 30, 300, sigma, *arguments, released=True, colluders=2) <= 2.0
        assert bounds.network_epsilon(task, 30, 300, sigma * 0.999, *arguments, released=True, colluders=2) > 2.0


@pytest.mark.parametrize(
    "reached",
    [
        lambda x: 3 / x,
        lambda x: 9 * math.exp(-x),
        lambda x: 5.0 if x < 1.7 else 1.0,
        lambda x: max(0.0, 4 - x**3),
        lambda x: math.inf if x < 2 else 1 / x,
    ],
)
@pytest.mark.parametrize("start", [1e-4, 1.0, 1e5])
def test_the_search_for_the_least_noise_needs_no_smooth_function(reached, start):
    calls = []
    found = calibrate.least(lambda x: calls.append(x) or reached(x), 1.3, start)
    assert reached(found) <= 1.3 < reached(found / 1.0002)
    assert len(calls) < 80


def test_calibrated_steps_fit_the_budget_and_a_few_more_do_not():
    steps = calibrate.steps(1.0, 1e-6, 1.0, 8.0, n_users=20, task="sgd")
    delta = 1e-6 / promise.DISCRETE_INFLATION
    assert bounds.network_epsilon("sgd", 20, steps, 8.0, 1.0, delta) <= 1.0
    assert bounds.network_epsilon("sgd", 20, steps + 2, 8.0, 1.0, delta, accountant="renyi") > 1.0
    with pytest.raises(UnreachableError, match="too small"):
        calibrate.steps(1.0, 1e-6, 1.0, 0.01, n_users=2, task="sum", released=True)


def test_a_ring_between_colluders_cannot_be_calibrated():
    with pytest.raises(UnreachableError, match="collusion"):
        calibrate.sigma(1.0, 1e-6, 1.0, topology="ring", n_rounds=3, colluders=2)


@pytest.mark.slow
def test_bounds_are_fast_enough_for_a_plan_check():
    """Generous limits, for a loaded machine: 10 s and 60 s are the goals on an idle one."""
    for task in ("sum", "sgd"):
        begin = time.perf_counter()
        bounds.network_epsilon(task, 2000, 20_000, 3.0, 1.0, 1e-6)
        assert time.perf_counter() - begin < 40
        begin = time.perf_counter()
        bounds.network_epsilon(task, 10**5, 10**7, 3.0, 1.0, 1e-6)
        assert time.perf_counter() - begin < 60
