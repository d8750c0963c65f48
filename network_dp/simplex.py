"""Shares that noise took out of their range, brought back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def on_simplex(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest non-negative vector with sum 1: public processing of a private result costs no privacy."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - excess[falling > excess][-1], 0.0))
