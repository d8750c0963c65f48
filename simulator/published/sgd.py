"""The noise of the paper's Fig. 2 as the authors' code chooses it, and what that code does with it.

Wrong in it (THEORY.md#printed): gradients have sensitivity 2 L, the code uses L for local and network; 2 K instead of
4 K in the network search; the NOISY gradient is clipped to L = 0.4, which the theory does not cover (unclipped rows
with an intercept have L = sqrt(2)). For few contributions only, K < n ln(1/delta) / (2 ln n), as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from network_dp.printed import advanced_composition, gaussian_sigma
from simulator.budgets import Budget

Floats = NDArray[np.float64]

CLIP = 0.4
STEP_SIZES = {"local": 0.06733333, "centralized": 0.03416667, "network": 0.03416667}


def local_sigma(budget: Budget) -> float:
    """Advanced composition of K contributions with delta / K each."""
    share = budget.delta / budget.cap
    step = _solve(lambda e: advanced_composition(e, budget.cap, share), budget.epsilon)
    return gaussian_sigma(step, share, budget.lipschitz)


def centralized_sigma(budget: Budget) -> float:
    """Bassily, Smith & Thakurta 2014."""
    logs = math.log(2 / budget.delta) * math.log(1.25 * budget.n_steps / (budget.delta * budget.n_users))
    return 16 * budget.lipschitz * math.sqrt(budget.n_steps * logs) / (budget.n_users * budget.epsilon)


def network_sigma(budget: Budget) -> float:
    """The budget is shared between spotted contributions and the rest until both need the same noise (to 5 %)."""
    share = 0.5
    while True:
        spotted = _spotted_sigma(budget, share * budget.epsilon)
        rest = _iterated_sigma(budget, (1 - share) * budget.epsilon)
        if max(spotted, rest) <= 1.05 * min(spotted, rest):
            return max(spotted, rest)
        share *= 1.01 if spotted > rest else 0.99


def _spotted_sigma(budget: Budget, epsilon: float) -> float:
    n, cap, share = budget.n_users, budget.cap, budget.delta / budget.cap
    count = math.ceil(2 * cap / n + math.sqrt(6 * cap * math.log(1 / budget.delta) / n))
    step = _solve(lambda e: min(count * e, advanced_composition(e, count, share)), epsilon)
    return gaussian_sigma(step, share, budget.lipschitz)


def _iterated_sigma(budget: Budget, epsilon: float) -> float:
    """Grown by 15 % until the lemma of Thm 4, at the largest order it allows, is within epsilon."""
    n, l2 = budget.n_users, budget.lipschitz**2
    sigma = gaussian_sigma(epsilon, budget.delta, budget.lipschitz)
    while True:
        order = (1 + math.sqrt(1 + 2 * sigma**2 / l2)) / 2
        lemma = 2 * budget.cap * l2 * order * math.log(n) / (sigma**2 * n)
        if lemma + math.log(1 / budget.delta) / (order - 1) < epsilon:
            return sigma
        sigma *= 1.15


def clipped(noisy_gradients: Floats) -> Floats:
    """Every row shortened to norm CLIP."""
    length = np.linalg.norm(noisy_gradients, axis=1, keepdims=True)
    return np.asarray(noisy_gradients * np.minimum(1.0, CLIP / np.maximum(length, 1e-300)))


def _solve(loss: Callable[[float], float], target: float) -> float:
    return float(brentq(lambda e: loss(e) - target, 0.0, target))
