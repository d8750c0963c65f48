"""Least sigma for epsilon = 1, delta = 1e-6, L = 1: what hiding the path buys (THEORY.md#hidden-path)."""

from __future__ import annotations

import pytest

from network_dp import calibrate, hidden
from network_dp.accounting import gaussian


@pytest.mark.parametrize(("n_users", "n_steps", "sigma"), [(50, 1500, 7.47), (200, 4000, 3.50), (2000, 20000, 1.47)])
def test_the_hidden_column(n_users: int, n_steps: int, sigma: float) -> None:
    enough = hidden.epsilon(n_users, n_steps, 2 / (sigma * 1.005), 1e-6)
    too_little = hidden.epsilon(n_users, n_steps, 2 / (sigma * 0.99), 1e-6)
    assert enough <= 1 < too_little


def test_the_known_column() -> None:
    known = calibrate.sigma(1.0, 1e-6, 2.0, task="sgd", n_users=50, n_steps=1500)
    assert known == pytest.approx(17.8, rel=0.005)


def test_one_known_step_beside_few_hidden_ones_is_a_gaussian() -> None:
    alone = gaussian.epsilon(0.5, 1e-6)
    assert alone < hidden.epsilon(10**6, 1, 0.5, 1e-6, known=1.0) < alone * 1.02
