"""Network DP when the path is hidden (THEORY.md#hidden-path).

If no user can tell who else held the token, each step is, to the observer, a secretly subsampled Gaussian
mechanism of rate q = 1/(n-c), even if it saw every value of the token. Under replacement of u's data the three
possible outputs of a step (u's old data, u's new data, another user) are Gaussians with means at most Delta apart,
so advanced joint convexity (Balle, Barthe & Gaboardi 2018, Thm 2) gives, in BOTH directions, the profile

    D(e) = q delta_G(ln(1 + (exp(e) - 1)/q))   for e >= 0,     D(-e) = 1 - exp(-e) + exp(-e) D(e)

(the second line is what symmetry of the pair means). Its privacy-loss distribution, discretised pessimistically by
connecting the dots of D on a grid (Doroshenko et al. 2022), is composed T times. (The subsampled Gaussian of
dp-accounting is for adding or removing a user: not valid here.)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from network_dp.accounting import composition, gaussian
from network_dp.accounting.number_cache import kept
from network_dp.errors import require

Floats = NDArray[np.float64]


def step_deltas(losses: Floats, rate: float, mu: float) -> Floats:
    """Profile D of one step, for any real losses."""
    size = np.abs(losses)
    # ln(1 + (e^e - 1)/q), without overflow
    inner = size + np.log(np.exp(-size) - np.expm1(-size) / rate)
    upper = rate * gaussian.deltas(mu, inner)
    return np.where(losses >= 0, upper, -np.expm1(-size) + np.exp(-size) * upper)


@kept
def epsilon(n_users: int, n_steps: int, mu: float, delta: float, colluders: int = 1, known: float = 0.0) -> float:
    """Epsilon at `delta` of T steps; mu = Delta / sigma. Infinite if delta is below what the grid resolves.

    `n_users`: the least number that attended a step. `known`: the exposure of steps whose holder became known beside
    the T hidden ones (an absence shows one): a Gaussian mechanism with mu sqrt(known), composed with them.
    """
    require(n_users > colluders >= 1, f"need n_users > colluders >= 1, got {n_users} and {colluders}")
    require(known >= 0, f"known must be >= 0, got {known}")
    rate = 1 / (n_users - colluders)
    top = _top(rate, mu, n_steps, delta)
    # Losses are rounded on a grid; composition adds T roundings of random sign, so the grid may grow as 1/sqrt(T).
    interval = max(min(1e-2 / math.sqrt(n_steps), top / 200), top / 200_000)
    parts = [_part(rate, mu, top, interval, n_steps)]
    if known > 0:
        seen = math.sqrt(known) * mu
        parts.append(_part(1.0, seen, _top(1.0, seen, 1, delta), interval, 1))
    return composition.epsilon(parts, interval, delta)


def _top(rate: float, mu: float, times: int, delta: float) -> float:
    """Past it a step's delta, so many times over, is far below the delta asked for; it becomes infinite loss."""
    top = 0.01
    while step_deltas(np.array([top]), rate, mu)[0] * times > delta * 1e-4 and top < 600:
        top *= 1.1
    return top


def _part(rate: float, mu: float, top: float, interval: float, times: int) -> composition.Part:
    count = math.ceil(top / interval)
    grid = np.arange(-count, count + 1)
    deltas = step_deltas(np.asarray(grid * interval, dtype=np.float64), rate, mu)
    return composition.connected(deltas, interval, -count, times)
