"""Local DP of a walk before it happens: how often a user contributes is random, and known to the observer."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from network_dp.accounting import bounds, gaussian

_TAIL = 1e-6  # share of delta left to more visits than are looked at, which count as certain failure


def random_local_epsilon(n_users: int, n_steps: int, sigma: float, sensitivity: float, delta: float) -> float:
    """Exact: delta(eps) = E over K ~ Binomial(T, 1/n) of the Gaussian profile with mu = sqrt(K) Delta / sigma.

    K does not depend on data, so revealing it is a mixture with a public index.
    """
    tail = _TAIL * delta
    most = bounds.visits(n_users, n_steps, tail)
    counts = np.arange(most + 1)
    weights = binom.pmf(counts, n_steps, 1 / n_users)
    mus = np.sqrt(counts) * sensitivity / sigma

    def excess(epsilon: float) -> float:
        return float(weights @ gaussian.deltas(mus, epsilon)) + tail - delta

    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, gaussian.epsilon(float(mus[-1]), delta / 2), xtol=1e-12))
