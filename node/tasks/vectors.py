"""Lengths of rows, without overflow on the way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Rounding may make a shortened row longer than asked by a few units in the last place; this takes them off again.
_A_LITTLE_LESS = 1 - 2.0**-48


def unit_rows(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows scaled to L2 norm 1; a row of zeros stays zero."""
    return _directions(rows)[0]


def clip_to_norm(rows: NDArray[np.float64], norm: float) -> tuple[NDArray[np.float64], int]:
    """Rows shortened to an L2 norm of at most `norm`, and how many had to be."""
    directions, lengths = _directions(rows)
    long = lengths > norm
    return np.where(long, directions * (norm * _A_LITTLE_LESS), rows), int(long.sum())


def _directions(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Unit rows and their original lengths, as a column; a length beyond float64 is infinite."""
    peak = np.abs(rows).max(axis=1, keepdims=True)
    scaled = rows / np.where(peak > 0, peak, 1.0)  # the largest entry is 1, so squares neither overflow nor vanish
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        return scaled / np.where(length > 0, length, 1.0), peak * length
