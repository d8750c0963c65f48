"""Renewal equations with positive terms, solved with every rounding upward (THEORY.md#before-a-run).

    value(t) = sum over j < t of k(j) value(t - 1 - j) + end(t),      k(j) = hit g(j) s^j,  end(t) = closing(t) s^t,

closing = g where the end is seen, else 1. Two ways, both upper bounds:

* `recursion`: step by step, for short walks.
* `closed_form`: if sum_j k(j) x^(j+1) <= 1 at x = 1/growth, and constant * sum_{j >= t} k(j) x^(j+1) >= end(t) x^t for
  every t, then value(t) <= constant * growth^t, by induction. For any length.

A kernel is built from floats that are at least its exact weights, which can only raise the solution; the solutions then
add the error of their own operations on those floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from network_dp.accounting.rounding import UNIT, halving_sum

Floats = NDArray[np.float64]

_LARGEST_EXPONENT = 600.0  # e to this is still a number, and so are thousands of them


@dataclass(frozen=True)
class Kernel:
    """ln g(j), constant on blocks [start, stop); the last stop is infinite unless the kernel repeats."""

    log_s: float
    log_hit: float
    start: Floats
    stop: Floats
    log_g: Floats
    released: bool  # is the end seen?
    log_repeat: float | None  # ln of the factor, without s, gained from one period to the next; period = last stop

    @property
    def log_weight(self) -> Floats:
        return np.asarray(self.log_g + self.log_hit + 4 * UNIT * (np.abs(self.log_g) - self.log_hit))

    @property
    def log_closing(self) -> Floats:
        return self.log_g if self.released else np.zeros_like(self.log_g)


def recursion(kernel: Kernel, n_steps: int) -> float:
    """ln value(T), step by step, tilted by the growth of the closed form so that nothing overflows.

    All terms are positive. A value is a dot product of at most T terms and one addition: a relative error of (T + 4) u,
    in any order of summation, and a walk has at most T renewals, so that (T + 4)^2 u covers them all.
    """
    log_growth = _log_growth(kernel)
    j = np.arange(n_steps + 1, dtype=np.float64)
    weight, closing = by_length(kernel, kernel.log_weight, j), by_length(kernel, kernel.log_closing, j)
    drift = j * kernel.log_s
    to_visit, to_end = weight + drift - (j + 1) * log_growth, closing + drift - j * log_growth
    for exponent, size in ((to_visit, weight), (to_end, closing)):
        exponent += 8 * UNIT * (np.abs(size) - drift + (j + 1) * log_growth)
    if max(float(to_visit.max()), float(to_end.max())) > _LARGEST_EXPONENT:  # an order that no useful bound needs
        return closed_form(kernel, n_steps)
    with np.errstate(under="ignore"):
        k, end = np.exp(to_visit) * (1 + 16 * UNIT), np.exp(to_end) * (1 + 16 * UNIT)
        value = np.empty(n_steps + 1)
        backwards = k[::-1].copy()
        for t in range(n_steps + 1):
            value[t] = dot(backwards[n_steps + 1 - t :], value[:t]) + end[t]
        final = float(value[n_steps])
    if not 1e-280 < final < math.inf:  # so strong a tilt that terms underflowed: an order that no short walk needs
        return closed_form(kernel, n_steps)
    total = n_steps * log_growth
    return max(
        math.log(final) + total + UNIT * (64 + 1.01 * (n_steps + 4) ** 2 + 4 * (total + abs(math.log(final)))), 0.0
    )


def by_length(kernel: Kernel, log_values: Floats, j: Floats) -> Floats:
    """Values of blocks, in logarithms, as values of lengths."""
    if kernel.log_repeat is None:
        return np.asarray(log_values[np.searchsorted(kernel.stop, j, side="right")], dtype=np.float64)
    times, rest = np.divmod(j, kernel.stop[-1])
    values, gained = log_values[np.searchsorted(kernel.stop, rest, side="right")], times * kernel.log_repeat
    return np.asarray(values + gained + 4 * UNIT * (np.abs(gained) + np.abs(values)), dtype=np.float64)


def dot(left: Floats, right: Floats) -> float:
    """Dot product in pieces that BLAS keeps on one core: waking threads for each step costs ten times more."""
    return sum(float(left[a : a + 8_000] @ right[a : a + 8_000]) for a in range(0, len(right), 8_000))


def log_series(kernel: Kernel, log_weight: Floats, log_growth: float) -> tuple[Floats, Floats]:
    """ln of the sum over each block of weight s^j growth^-(j+1), later periods left out; and its error.

    The sum is geometric. Its logarithm adds terms that are each good to a few u of their size: 16 u of all sizes."""
    log_x = kernel.log_s - log_growth
    lengths = kernel.stop - kernel.start
    with np.errstate(under="ignore"):
        first, cut, each = kernel.start * log_x, np.log(-np.expm1(lengths * log_x)), math.log(-math.expm1(log_x))
    series = log_weight + (first + cut - each) - log_growth
    return series, 16 * UNIT * (2 + np.abs(log_weight) - first - cut + abs(each) + log_growth)


def log_period(kernel: Kernel, log_growth: float) -> float:
    """ln of the factor from one period to the next, rounded up."""
    if kernel.log_repeat is None:
        return -math.inf
    decay = float(kernel.stop[-1]) * (kernel.log_s - log_growth)
    return kernel.log_repeat + decay + 8 * UNIT * (kernel.log_repeat - decay)


def _log_total(kernel: Kernel, log_growth: float) -> float:
    """ln of the sum of k(j) growth^-(j+1), rounded up."""
    ratio = log_period(kernel, log_growth)
    if ratio >= 0:
        return math.inf
    series, error = log_series(kernel, kernel.log_weight, log_growth)
    later = -math.log1p(-math.exp(ratio))
    return log_sum(series + error) + later * (1 + 32 * UNIT)


def log_sum(logs: Floats) -> float:
    """ln of a sum of positive terms, given by their logarithms, rounded up."""
    top = float(logs.max())
    if top == -math.inf:
        return top
    with np.errstate(under="ignore"):
        terms = np.exp((logs - top) * (1 - 8 * UNIT))
    return top + math.log(float(halving_sum(terms)[0])) + UNIT * (64 + 4 * abs(top))


def _log_growth(kernel: Kernel) -> float:
    """ln of a growth at which the kernel sums to at most 1: the least, but for rounding."""
    return least_growth(lambda log_growth: _log_total(kernel, log_growth))


def least_growth(excess: Callable[[float], float]) -> float:
    """The least logarithm of a growth, but for rounding, whose excess is not positive; the excess decreases."""

    def total(log_growth: float) -> float:
        return min(excess(log_growth), 1e6)

    low, high = 0.0, 1e-12
    while total(high) > 0:
        low, high = high, high * 4
    root = float(brentq(total, low, high, xtol=1e-300, rtol=1e-13)) if total(low) > 0 else low
    step = max(root * 1e-15, 1e-24)
    while total(root) > 0 and root < high:
        root, step = min(root + step, high), 2 * step
    return root


def closed_form(kernel: Kernel, n_steps: int) -> float:
    """ln of constant * growth^T."""
    log_growth = _log_growth(kernel)
    constant = _log_constant(kernel, log_growth)
    total = n_steps * log_growth
    bound = constant + total + 4 * UNIT * (abs(constant) + total)
    return max(bound + UNIT * (64 + 16 * abs(bound)), 0.0)


def _log_constant(kernel: Kernel, log_growth: float) -> float:
    """ln of a constant with constant * sum_{j >= t} k(j) x^(j+1) >= end(t) x^t for every t, rounded up."""
    log_x = kernel.log_s - log_growth
    each = math.log(-math.expm1(log_x))
    series, error = log_series(kernel, kernel.log_weight, log_growth)
    later = np.append(np.logaddexp.accumulate((series - error)[::-1])[::-1][1:], -np.inf)
    ratio = log_period(kernel, log_growth)
    if ratio > -math.inf:  # all later periods together, seen from the end of this one
        decay = float(kernel.stop[-1]) * log_x
        ratio -= 32 * UNIT * (abs(ratio) - 2 * decay)  # rounded down here
        whole = float(np.logaddexp.reduce(series - error)) + ratio - math.log1p(-math.exp(ratio))
        later = np.logaddexp(later, whole)
    # end(t) x^t / sum_{j >= t} is monotone inside a block: its ends are enough
    constant, largest = -math.inf, 0.0
    last_of_block = np.where(np.isinf(kernel.stop), kernel.start, kernel.stop - 1)
    for t in (kernel.start, last_of_block):
        with np.errstate(under="ignore"):
            rest = kernel.log_weight + np.log(-np.expm1((kernel.stop - t) * log_x)) + t * log_x
        tail = np.logaddexp(rest - each - log_growth, later)
        constant = max(constant, float(np.max(kernel.log_closing + t * log_x - tail)))
        largest = max(
            largest, float(np.abs(tail).max()), float(np.abs(kernel.log_closing).max()), -float(t[-1] * log_x)
        )
    # a tail is reached by adding up one block after the other: as many roundings of its logarithm as there are blocks
    return constant + UNIT * (len(series) + 64) * (8 + 2 * largest)
