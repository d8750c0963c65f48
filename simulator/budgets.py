"""The noise each way of training needs for one and the same user-level (epsilon, delta): audited bounds only.

All train the same model in the same way, one user's whole data per step; they differ in who sees what.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from scipy.optimize import brentq

from network_dp import calibrate, hidden

Method = Literal["non-private", "centralized", "network, path hidden", "network, path known", "local"]
METHODS: tuple[Method, ...] = ("non-private", "centralized", "network, path hidden", "network, path known", "local")

CAP_FACTOR = 1.2  # local DP: each user contributes at most this many times its expected number, as in the paper


@dataclass(frozen=True)
class Budget:
    """A target, and the walk it is spent on; `lipschitz` is L, so that a contribution has sensitivity 2 L."""

    epsilon: float
    delta: float
    n_users: int
    n_steps: int
    lipschitz: float = 1.0

    @property
    def cap(self) -> int:
        """Contributions of one user under local DP; afterwards it forwards the token unchanged."""
        return math.ceil(CAP_FACTOR * self.n_steps / self.n_users)


def sigma(method: Method, budget: Budget) -> float:
    """Standard deviation of the noise on each gradient."""
    sensitivity = 2 * budget.lipschitz
    match method:
        case "non-private":
            return 0.0
        case "centralized":
            return _centralized(budget, sensitivity)
        case "local":
            return calibrate.sigma(
                budget.epsilon, budget.delta, sensitivity, privacy="local", n_contributions=budget.cap
            )
        case _:
            return calibrate.sigma(
                budget.epsilon,
                budget.delta,
                sensitivity,
                task="sgd",
                n_users=budget.n_users,
                n_steps=budget.n_steps,
                path="hidden" if method == "network, path hidden" else "known",
            )


def _centralized(budget: Budget, sensitivity: float) -> float:
    """A trusted curator draws one user of n per step and publishes every model.

    T secretly subsampled Gaussians of rate 1/n under replacement of a user, composed as a privacy-loss distribution by
    dp-accounting. It is the accountant of a hidden path, whose observer knows one user more (rate 1/(n-1)).
    """

    def excess(log_sigma: float) -> float:
        mu = sensitivity * math.exp(-log_sigma)
        return hidden.epsilon(budget.n_users + 1, budget.n_steps, mu, budget.delta) - budget.epsilon

    low = high = math.log(sensitivity)
    while excess(high) > 0:
        high += 0.5
    while excess(low) <= 0:
        low -= 0.5
    return math.exp(float(brentq(excess, low, high, xtol=1e-4)) + 1e-4)
