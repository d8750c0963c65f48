"""Thm 4, SGD: what was printed, and where it is wrong (THEORY.md#sgd, #printed)."""

import math

import numpy as np
import pytest

from network_dp import exposure, printed


def test_lemma_of_theorem_4_is_false_for_two_users():
    """n = 2, T large: u's exposure per contribution is about one; the lemma claims ln(2)/2 of it at most times 2."""
    n_steps, order = 400, 1.02
    sigma = math.sqrt(2 * order * (order - 1)) * 1.001
    walks = [np.random.default_rng(s).integers(2, size=n_steps) for s in range(200)]
    b = order * (order - 1) * 4 / (2 * sigma**2)
    true = math.log(np.mean([math.exp(b * exposure.matrix(w, 2, "sgd")[0, 1]) for w in walks])) / (order - 1)
    most = max(int((w == 0).sum()) for w in walks)
    assert printed.theorem_4_lemma(order, sigma, 1.0, most, 2) < true


def test_theorem_4_numeric_needs_the_sigmas_of_the_theory_page():
    for sigma, epsilon in ((20.4, 1.0), (2.58, 10.0)):
        assert printed.theorem_4_numeric(sigma, 1.0, 12, 2000, 1e-6) == pytest.approx(epsilon, rel=5e-3)
