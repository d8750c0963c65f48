"""Amplification by shuffling as the authors' Fig. 3 uses it: the best of three bounds for any eps0-LDP randomiser.

Hoeffding and Bennett bounds of the privacy blanket (Balle, Bell, Gascon & Nissim 2019, section 5, with the constants
that hold for every randomiser, gamma = e^-eps0), and the closed form of Erlingsson et al. 2019.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from network_dp.accounting.shuffle import erlingsson_epsilon

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LEAST_EPSILON, _LEAST_DELTA = 1e-6, 1e-11
_POINTS = 300


def hoeffding_delta(epsilon: float, epsilon_0: float, n: int) -> float:
    blanket = math.exp(-epsilon_0)
    gap = math.expm1(epsilon)
    width = (math.exp(epsilon) + 1) * 2 * math.sinh(epsilon_0)
    decay = math.log1p(blanket * math.expm1(-2 * (gap / width) ** 2))
    return width**2 / (4 * gap * blanket * n) * math.exp(n * decay)


def bennett_delta(epsilon: float, epsilon_0: float, n: int) -> float:
    """E over M ~ Binomial(n, gamma), M >= 1, of exp(-M a), in closed form."""
    blanket = math.exp(-epsilon_0)
    gap = math.expm1(epsilon)
    highest = math.exp(epsilon_0) * -math.expm1(epsilon - 2 * epsilon_0)
    variance = math.exp(epsilon_0) * (math.exp(2 * epsilon) + 1) - 2 * blanket * math.exp(epsilon - 2 * epsilon_0)
    ratio = gap * highest / variance
    decay = variance / highest**2 * ((1 + ratio) * math.log1p(ratio) - ratio)
    some = math.exp(n * math.log1p(blanket * math.expm1(-decay))) - math.exp(n * math.log1p(-blanket))
    return highest / math.log1p(ratio) * some / (blanket * n)


def shuffled_epsilon(epsilon_0: float, n: int, delta: float) -> float:
    """The least of the three bounds, and never more than eps0."""

    def inverted(profile: Callable[[float, float, int], float]) -> float:
        def excess(epsilon: float) -> float:
            return max(profile(epsilon, epsilon_0, n), _LEAST_DELTA) - delta

        if excess(epsilon_0 * (1 - 1e-9)) >= 0:
            return epsilon_0
        return float(brentq(excess, _LEAST_EPSILON, epsilon_0 * (1 - 1e-9), xtol=1e-12))

    return min(inverted(hoeffding_delta), inverted(bennett_delta), erlingsson_epsilon(epsilon_0, n, delta), epsilon_0)


def shuffled_epsilons(epsilon_0: float, lengths: Ints, delta: float) -> Floats:
    """The same for many lengths: computed at _POINTS of them, interpolated between (the curve is smooth)."""
    points = np.unique(np.geomspace(lengths.min(), lengths.max(), _POINTS).round().astype(np.int64))
    values = [shuffled_epsilon(epsilon_0, n, delta) for n in points.tolist()]
    return np.asarray(np.interp(np.log(lengths), np.log(points), values))
