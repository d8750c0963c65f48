"""The searches behind every calibration."""

from __future__ import annotations

import math
from collections.abc import Callable

from network_dp.errors import UnreachableError


def least(reached: Callable[[float], float], target: float, start: float, precision: float = 1e-4) -> float:
    """Least x with reached(x) <= target, to 0.01 % or another precision and rounded up, for a decreasing function."""
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
    while high / low > 1 + precision:
        middle = math.sqrt(low * high)
        if turn % 3 < 2 and 0 < above < below < math.inf:
            share = math.log(below / target) / math.log(below / above)
            aimed = low * (high / low) ** share * (1 + side * precision / 3)
            middle = min(max(aimed, low * (1 + precision / 9)), high / (1 + precision / 9))
        value = reached(middle)
        if value <= target:
            high, above, side = middle, value, -1
        else:
            low, below, side = middle, value, 1
        turn += 1
    return high


def descend(value: Callable[[int], float], guess: int, low: int, high: int, step: int = 64) -> int:
    """Where between low and high a function that falls and then rises is least, by steps that halve; infinite values
    lie to the right."""
    while step:
        while (left := max(guess - step, low)) < guess and value(left) <= value(guess):
            guess = left
        while (right := min(guess + step, high)) > guess and value(right) < value(guess):
            guess = right
        step //= 2
    return guess
