"""Thm 3, the sum on the complete graph: what was printed, and where it is wrong (THEORY.md#complete-sum, #printed)."""

import math

import numpy as np
from scipy.stats import binom

from network_dp import exposure, printed
from network_dp.accounting import bounds


def test_chernoff_visits_are_wrong_outside_their_range():
    claimed = printed.visits(1000, 1000, 1e-6)
    assert binom.sf(math.floor(claimed), 1000, 1e-3) > 1e-6


def test_last_display_of_theorem_3_is_below_the_composition_it_stands_for():
    meant = printed.theorem_3(20, 2000, 0.5, 1e-7, 1e-6, 1e-6).epsilon
    assert printed.theorem_3_last_display(20, 2000, 0.5, 1e-6, 1e-6) < meant


def test_biased_forwarding_by_colluders_raises_the_exposure_of_their_victim():
    rng = np.random.default_rng(3)
    n, n_steps = 20, 20_000
    fair = rng.integers(n, size=n_steps)
    biased = fair.copy()
    for t in range(1, n_steps):
        if biased[t - 1] == 1:
            biased[t] = 0
    assert exposure.matrix(biased, n, "sum")[0, 1] > 3 * exposure.matrix(fair, n, "sum")[0, 1]


def test_printed_bounds_are_not_what_the_valid_ones_return():
    # the walk of the paper's Fig. 2 at n = 20
    sigma = printed.gaussian_sigma(0.1, 1e-7, 1.0)
    stated = printed.theorem_3(20, 2000, 0.1, 1e-7, 1e-6, 1e-6)
    assert bounds.network_epsilon("sum", 20, 2000, sigma, 1.0, stated.delta) < stated.epsilon / 3
