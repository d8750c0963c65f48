"""Compositions as the paper's experiments use them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from network_dp.printed import advanced_composition

Floats = NDArray[np.float64]


def best_of_two(epsilon: float, count: float, delta: float) -> float:
    """The smaller of basic and advanced composition."""
    return min(advanced_composition(epsilon, count, delta), count * epsilon)


def heterogeneous(sums: Floats, delta: Floats) -> Floats:
    """Composition of unequal losses e_i (Kairouz, Oh & Viswanath 2015, Thm 3.5), from the rows of `sums`:

    total = sum e_i, squares = sum e_i^2, slopes = sum e_i (e^e_i - 1)/(e^e_i + 1). The authors spend delta = (number of
    losses) * 1e-7 on this alone, and leave out the deltas of the losses themselves.
    """
    total, squares, slopes = sums
    root = np.sqrt(squares)
    shorter = math.e + root / delta
    logarithm = np.where(shorter > 1 / delta, np.log(1 / delta), np.log(shorter))
    return np.asarray(np.minimum(slopes + np.sqrt(2 * squares * logarithm), total))
