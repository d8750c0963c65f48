"""What every pair (u, v) of users lost on simulated walks: mean, best and worst epsilon, without keeping all pairs.

The exposure of all pairs comes from `network_dp.exposure` (THEORY.md#exposure), row by row. n^2 square roots are kept:
beyond `PAIRS_USERS_MAX` users only the pairs among `SAMPLED_USERS` users are looked at; results say so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from network_dp import exposure
from network_dp.accounting import gaussian
from network_dp.exposure.paths import Task

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PAIRS_USERS_MAX = 10_000  # 400 MB in each worker
SAMPLED_USERS = 300
_GRID = 301  # points at which epsilon(exposure) is computed; interpolating between them is good to 1e-5
_ROWS = 512  # rows of the matrix looked at together


@dataclass(frozen=True)
class Spread:
    """Mean, least and greatest of `count` numbers; `sampled`: they are a random part of what there is."""

    mean: float
    low: float
    high: float
    count: int
    sampled: bool = False


def spread(values: Floats) -> Spread:
    return Spread(float(values.mean()), float(values.min()), float(values.max()), values.size)


def merge(parts: list[Spread]) -> Spread:
    """The spread of all runs together."""
    count = sum(part.count for part in parts)
    return Spread(
        mean=sum(part.mean * part.count for part in parts) / count,
        low=min(part.low for part in parts),
        high=max(part.high for part in parts),
        count=count,
        sampled=any(part.sampled for part in parts),
    )


def exposures(walk: Ints, n_users: int, task: Task, chosen: Ints) -> Floats:
    """S[u, v] of all pairs of `chosen` users.

    All other users become one user that only adds noise: cycles of the chosen stay what they were.
    """
    label = np.full(n_users, len(chosen))
    label[chosen] = np.arange(len(chosen))
    steps = label[walk]
    return exposure.matrix(steps, len(chosen) + 1, task, contributing=steps < len(chosen))[:-1, :-1]


def sum_losses(
    walk: Ints, n_users: int, sigma: float, sensitivity: float, delta: float, generator: np.random.Generator
) -> Spread:
    """Exact epsilon of network DP over the pairs u != v of one walk, for a sum that is not released."""
    if n_users <= PAIRS_USERS_MAX:
        return _losses(exposure.rows(walk, n_users, "sum"), n_users, sensitivity / sigma, delta)
    chosen = generator.choice(n_users, SAMPLED_USERS, replace=False)
    seen = _losses(exposures(walk, n_users, "sum", chosen), SAMPLED_USERS, sensitivity / sigma, delta)
    return replace(seen, sampled=True)


def local_losses(walk: Ints, n_users: int, sigma: float, sensitivity: float, delta: float) -> Spread:
    """Exact epsilon of local DP over users: k contributions are one Gaussian mechanism with sqrt(k) Delta / sigma."""
    counts = np.bincount(walk, minlength=n_users)
    return spread(gaussian.epsilons(np.sqrt(counts) * sensitivity / sigma, delta))


def _losses(rows: Iterable[Floats], n_users: int, mu: float, delta: float) -> Spread:
    """Epsilon grows with the exposure: the extremes are exact; the mean is interpolated on a grid of mu."""
    roots = np.empty((n_users, n_users - 1), dtype=np.float32)
    least, greatest = math.inf, 0.0
    for u, row in enumerate(rows):
        others = np.sqrt(np.delete(row, u))  # u and u are no pair
        least, greatest = min(least, float(others.min())), max(greatest, float(others.max()))
        roots[u] = others
    grid = np.linspace(least, greatest, _GRID)
    epsilon = gaussian.epsilons(grid * mu, delta)
    blocks = (roots[start : start + _ROWS] for start in range(0, n_users, _ROWS))
    total = sum(float(np.interp(block, grid, epsilon).sum()) for block in blocks)
    return Spread(total / roots.size, float(epsilon[0]), float(epsilon[-1]), roots.size)
