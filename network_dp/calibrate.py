"""The least noise, or the longest run, that meets a target (epsilon, delta): searches on the valid bounds only.

Noise on the wire is discrete (THEORY.md#grid): on the required grid the Gaussian formulas hold with delta
inflated by 1e-5 relative, so `sigma` and `steps` aim at delta / (1 + 1e-5).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from network_dp import bounds, gaussian
from network_dp.errors import UnreachableError, require, require_whole
from network_dp.moments import Task

Topology = Literal["complete", "ring"]
Privacy = Literal["network", "local"]

DISCRETE_INFLATION = 1 + 1e-5
_PRECISION = 1e-4


def sigma(
    epsilon: float,
    delta: float,
    sensitivity: float,
    *,
    topology: Topology = "complete",
    privacy: Privacy = "network",
    task: Task = "sum",
    n_users: int | None = None,
    n_steps: int | None = None,
    n_rounds: int | None = None,
    n_contributions: int | None = None,
    released: bool = False,
    colluders: int = 1,
    cap: int | None = None,
    path: bounds.Path = "known",
    reissues: int = 0,
) -> float:
    """Least sigma (to 0.1 %, rounded up) with which a run is (epsilon, delta)-DP.

    privacy="local": every contribution carries its own full noise; `n_contributions` is how many each user makes
    (`cap` and, on a ring, `n_rounds` are accepted for it). privacy="network": the ring needs `n_rounds`, the complete
    graph `n_users` (the least number alive) and `n_steps`. `reissues`: how often a ring may take its token up again.
    """
    _check_target(epsilon, delta, sensitivity)
    aim = delta / DISCRETE_INFLATION
    if privacy == "local":
        count = next((k for k in (n_contributions, cap, n_rounds) if k is not None), None)
        if count is None:
            raise UnreachableError("local calibration needs n_contributions (or cap, or n_rounds on a ring)")
        require_whole("n_contributions (or cap, or n_rounds)", count)
        return gaussian.sigma(epsilon, aim, math.sqrt(count) * sensitivity) * (1 + 1e-12)
    require(privacy == "network", f'privacy must be "network" or "local", got {privacy!r}')
    _check_topology(topology)
    if topology == "ring":
        if n_rounds is None:
            raise UnreachableError("calibrating a ring needs n_rounds")
        require_whole("n_rounds", n_rounds, 1)
        if colluders > 1:
            raise UnreachableError("a ring resists no collusion: no sigma protects a user between two colluders")
        require_whole("reissues", reissues)
        return gaussian.sigma(epsilon, aim, math.sqrt(n_rounds + reissues) * sensitivity) * (1 + 1e-12)
    if n_users is None or n_steps is None:
        raise UnreachableError("calibrating the complete graph needs n_users and n_steps")
    users, steps = n_users, n_steps

    def reached(noise: float) -> float:
        return bounds.network_epsilon(task, users, steps, noise, sensitivity, aim, released, colluders, cap, path)

    return least(reached, epsilon, start=max(gaussian.sigma(epsilon, aim, sensitivity), 1e-12 * sensitivity))


def steps(
    epsilon: float,
    delta: float,
    sensitivity: float,
    sigma: float,
    *,
    n_users: int,
    task: Task = "sum",
    released: bool = False,
    colluders: int = 1,
    path: bounds.Path = "known",
) -> int:
    """The largest number of steps T on the complete graph that stays (epsilon, delta)-DP with the given sigma."""
    _check_target(epsilon, delta, sensitivity)
    aim = delta / DISCRETE_INFLATION

    def within(n_steps: int) -> bool:
        value = bounds.network_epsilon(task, n_users, n_steps, sigma, sensitivity, aim, released, colluders, None, path)
        return value <= epsilon

    if not within(1):
        raise UnreachableError(f"sigma = {sigma} is too small: even one step exceeds epsilon = {epsilon}")
    low, high = 1, 2
    while within(high):
        low, high = high, 2 * high
        if high > 10**12:
            raise UnreachableError("more than 10^12 steps fit the budget; choose a smaller sigma")
    while high - low > max(1, low // 10_000):
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low


def gamma(
    epsilon: float,
    delta: float,
    *,
    topology: Topology,
    n_users: int,
    n_buckets: int,
    n_rounds: int | None = None,
    n_steps: int | None = None,
    released: bool = False,
    reissues: int = 0,
) -> float:
    """Least probability of a random answer with which a histogram run is (epsilon, delta)-network-DP.

    Every candidate is checked with the shuffle accountant; the answer is rounded up by at most 0.1 %.
    """
    from network_dp import shuffle

    _check_target(epsilon, delta, 1.0)
    _check_topology(topology)

    def reached(probability: float) -> float:
        if topology == "ring":
            if n_rounds is None:
                raise UnreachableError("calibrating a ring needs n_rounds")
            return shuffle.ring_epsilon(n_users, n_rounds, n_buckets, probability, delta, released, reissues)
        if n_steps is None:
            raise UnreachableError("calibrating the complete graph needs n_steps")
        return shuffle.complete_epsilon(n_users, n_steps, n_buckets, probability, delta, released)

    low, high = 0.0, 1.0  # gamma = 1 answers nothing but noise: always private
    while high - low > 1e-3 * high:
        middle = (low + high) / 2 if low == 0 else math.sqrt(low * high)
        low, high = (low, middle) if reached(middle) <= epsilon else (middle, high)
        if high < 1e-9:
            break
    return high


def _check_target(epsilon: float, delta: float, sensitivity: float) -> None:
    require(0 < epsilon < math.inf, f"epsilon must be positive and finite, got {epsilon}")
    require(0 < delta < 1, f"delta must lie strictly between 0 and 1, got {delta}")
    require(0 < sensitivity < math.inf, f"sensitivity must be positive and finite, got {sensitivity}")


def _check_topology(topology: str) -> None:
    require(topology in ("complete", "ring"), f'topology must be "complete" or "ring", got {topology!r}')


def least(reached: Callable[[float], float], target: float, start: float) -> float:
    """Least x, to 0.01 % and rounded up, with reached(x) <= target, for a decreasing function."""
    low = high = start
    below = above = reached(start)  # reached(low) > target >= reached(high), once both are found
    while above > target:
        low, below, high = high, above, 2 * high
        if high > start * 2**60:
            raise UnreachableError(f"no noise reaches epsilon = {target}")
        above = reached(high)
    while below <= target:
        high, above, low = low, below, low / 2
        if low < start * 2**-60:
            return high
        below = reached(low)
    # Between them ln epsilon is nearly a line in ln x: aim a little beside where it meets the target, so that both ends
    # close in. Every third step halves the gap, for functions that are no line.
    side, turn = 1, 0
    while high / low > 1 + _PRECISION:
        middle = math.sqrt(low * high)
        if turn % 3 < 2 and 0 < above < below < math.inf:
            share = math.log(below / target) / math.log(below / above)
            aimed = low * (high / low) ** share * (1 + side * _PRECISION / 3)
            middle = min(max(aimed, low * (1 + _PRECISION / 9)), high / (1 + _PRECISION / 9))
        value = reached(middle)
        if value <= target:
            high, above, side = middle, value, -1
        else:
            low, below, side = middle, value, 1
        turn += 1
    return high
