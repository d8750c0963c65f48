"""Composition of privacy-loss distributions, with a proved bound on what floating point does to it.

Mechanisms have losses on a grid: p_j at loss l_j = j h, and an infinite loss with some probability. All together, at
any lambda > 0, with K = ln E e^{lambda L} and the tilted law q_j = p_j e^{lambda l_j} / E e^{lambda l},

    delta(eps) <= infinite + e^{K - lambda eps} * sum over l > eps of w(l) r(l),
    w(l) = (1 - e^{eps - l}) e^{-lambda (l - eps)} in [0, 1],      r = convolution of all q, each as often as it occurs.

With the lambda at which Renyi's bound on epsilon is least, the first factor is within a small factor of delta itself:
errors in r are errors RELATIVE to delta, however small that is. r comes from an FFT of length N:

* The transform Q of a law errs by at most eta = (8 log2 N + 40) u at every point: each of its terms passes through
  log2 N multiplications by a root of unity (good to 2 u) and additions (Higham 2002, section 24.1). So a power Q^t
  errs by at most t eta (|Q| + eta)^(t-1), its repeated squaring by 4 t u |Q|^t, and a product by the sum of such
  terms: e_k at frequency k. The inverse transform adds eta |r|_2. By Parseval |dr|_2 <= |e|_2 / sqrt(N) + eta |r|_2,
  and by Cauchy-Schwarz the sum errs by at most |w|_2 |dr|_2, with |w|_2^2 <= min(N, 1 / (1 - e^{-2 lambda h})).
* Tilting errs by some u times |lambda l| for each mechanism: a factor.
* N covers r but for a probability of 2e-16 on each side (Chernoff). Both are
  added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft
from scipy.optimize import minimize_scalar

from network_dp.accounting.rounding import UNIT

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

OUTSIDE: Final = 2e-16
_LARGEST: Final = 1 << 24  # points of a transform
_LOG_LEAST: Final = 750.0  # no probability above 0 is below e to minus this
_FAR: Final = 60.0  # e^-60 of the sum is added instead of being summed up


class Part(NamedTuple):
    """A mechanism that occurs so often: P(loss = (lowest + i) h) = probabilities[i]; the rest is an infinite loss."""

    lowest: int
    probabilities: Floats
    infinite: float
    times: int


def connected(deltas: Floats, interval: float, lowest: int, times: int) -> Part:
    """The law on the grid whose profile is `deltas` there, and in between a chord in e^epsilon: above a convex one."""
    deltas = np.minimum.accumulate(deltas)
    falls = -np.diff(deltas)
    up = np.append(1 - deltas[0], falls / -math.expm1(-interval))
    down = np.append(falls / math.expm1(interval), 0.0)
    return Part(lowest, np.maximum(up - down, 0.0), float(deltas[-1]), times)


@dataclass(frozen=True)
class Tilted:
    """r on the losses (first + i) h; `error`: |dr|_2; `factor`: what tilting may have taken away."""

    rate: float  # lambda
    log_moment: float  # K
    interval: float
    first: int
    law: Floats
    error: float
    factor: float
    dropped: float = 0.0  # of the law, at its worst

    def delta(self, epsilon: float) -> float:
        """A bound on delta(epsilon), infinite losses left out."""
        begin = max(math.floor(epsilon / self.interval) + 1 - self.first, 0)
        stop = min(begin + math.ceil(_FAR / (self.rate * self.interval)) + 1, len(self.law))
        above = np.arange(self.first + begin, self.first + max(stop, begin)) * self.interval - epsilon
        weights = np.maximum(-np.expm1(-above), 0.0) * np.exp(-self.rate * np.maximum(above, 0.0))
        seen = float(weights @ self.law[begin:stop]) * (1 + (len(above) + 64) * UNIT)
        norm = math.sqrt(min(len(self.law), -1 / math.expm1(-2 * self.rate * self.interval)))
        exponent = self.log_moment - self.rate * epsilon
        if exponent > 700:
            return math.inf
        return (
            math.exp(exponent) * self.factor * (seen + norm * self.error + self.dropped + 2 * OUTSIDE + math.exp(-_FAR))
        )

    def epsilon(self, delta: float) -> float:
        """Least epsilon found at which the bound is at most `delta`."""
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, self.interval
        while not self.delta(high) <= delta:  # so that what is not a number is never small enough
            low, high = high, 2 * high
            if high > 1e9:
                return math.inf
        while high - low > 1e-11 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high


def epsilon(parts: Sequence[Part], interval: float, delta: float) -> float:
    """Epsilon at `delta` of all mechanisms together; infinite if it is not found within the largest transform."""
    parts = [part for part in parts if part.times]
    finite = delta - sum(part.infinite * part.times for part in parts) * (1 + 1e-12)
    tilted = _tilted(parts, interval, finite) if finite > 0 else None
    if tilted is None:
        return math.inf
    return tilted.epsilon(finite)


def _log_moment(part: Part, rate: float, interval: float) -> float:
    """ln E e^{rate loss} of one mechanism, infinite losses left out."""
    terms = _log_terms(part, rate, interval)
    top = float(terms.max())
    with np.errstate(under="ignore"):
        return top + math.log(float(np.exp(terms - top).sum()))


def _log_terms(part: Part, rate: float, interval: float) -> Floats:
    """ln of p e^{rate loss}, minus infinity where p is 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(rate * _losses(part, interval) + np.log(part.probabilities), dtype=np.float64)


def _losses(part: Part, interval: float) -> Floats:
    return np.arange(part.lowest, part.lowest + len(part.probabilities), dtype=np.float64) * interval


def _tilted(parts: Sequence[Part], interval: float, delta: float) -> Tilted | None:
    """The composed law, tilted by the lambda at which Renyi's bound on epsilon is least."""

    def total(rate: float) -> float:
        return sum(part.times * _log_moment(part, rate, interval) for part in parts)

    rate = best_rate(total, delta)
    tops = [_log_moment(part, rate, interval) for part in parts]
    with np.errstate(under="ignore"):
        laws = [np.exp(_log_terms(part, rate, interval) - top) for part, top in zip(parts, tops, strict=True)]
    first, last = _window(parts, laws, interval, lambda shift: total(rate + shift) - total(rate))
    size = 1 << max(last - first, 1).bit_length()
    if size > _LARGEST:
        return None
    law, error = composed(laws, [part.times for part in parts], size)
    law = np.roll(law, -((first - sum(part.lowest * part.times for part in parts)) % size))
    roundings = 64.0
    for part, top in zip(parts, tops, strict=True):
        reach = rate * float(np.abs(_losses(part, interval)).max()) + abs(top)
        roundings += part.times * (64 + len(part.probabilities) + 8 * (reach + _LOG_LEAST))
    return Tilted(rate, total(rate), interval, first, law, error, math.exp(UNIT * roundings))


def best_rate(total: Callable[[float], float], delta: float) -> float:
    """The order, less 1, of the best Renyi bound (any is valid)."""

    def reached(log_rate: float) -> float:
        rate = math.exp(log_rate)
        return (total(rate) - math.log(delta) - math.log1p(rate)) / rate - math.log1p(1 / rate)

    best = minimize_scalar(reached, bounds=(-7.0, 18.0), method="bounded", options={"xatol": 0.01})
    return math.exp(float(best.x))


def _window(
    parts: Sequence[Part], laws: Sequence[Floats], interval: float, change: Callable[[float], float]
) -> tuple[int, int]:
    """First and last loss, in grid steps, beyond which the tilted law has at most OUTSIDE on each side (Chernoff).

    `change(t)` is ln E e^{t L} under the tilted law. t is tried around what a Gaussian of its variance would need."""
    lowest = sum(part.lowest * part.times for part in parts)
    highest = sum((part.lowest + len(part.probabilities) - 1) * part.times for part in parts)
    variance = interval**2
    for part, law in zip(parts, laws, strict=True):
        losses = _losses(part, interval)
        variance += part.times * float(law @ (losses - float(law @ losses)) ** 2)
    room = -math.log(OUTSIDE)
    rates = [scale * math.sqrt(2 * room / variance) for scale in (0.25, 0.5, 1.0, 2.0)]
    above = min((change(rate) + room) / rate for rate in rates)
    below = max(-(change(-rate) + room) / rate for rate in rates)
    return max(lowest, math.floor(below / interval) - 1), min(highest, math.ceil(above / interval) + 1)


def composed(laws: Sequence[Floats], times: Sequence[int], size: int) -> tuple[Floats, float]:
    """The circular convolution of laws, each so often, and a bound on its error in the 2-norm."""
    eta = (8 * math.log2(size) + 40) * UNIT
    spectrum, reach, errors = (
        np.ones(size // 2 + 1, dtype=np.complex128),
        np.ones(size // 2 + 1),
        np.zeros(size // 2 + 1),
    )
    for law, count in zip(laws, times, strict=True):
        folded = np.bincount(np.arange(len(law)) % size, law, minlength=size)
        transform = rfft(folded)
        mass = float(folded.sum()) * (1 + len(law) * UNIT)
        bound = np.abs(transform) * (1 + 4 * UNIT) + eta * mass
        spectrum *= _power(transform, count)
        with np.errstate(under="ignore"):
            reach *= bound**count
        errors += count * (eta * mass / bound + 4 * UNIT)
    law = np.asarray(irfft(spectrum, size), dtype=np.float64)
    with np.errstate(under="ignore"):
        wrong = math.sqrt(2 * float(np.sum((reach * errors) ** 2)) / size)
    return np.maximum(law, 0.0), 1.01 * (wrong + eta * float(np.sqrt(law @ law)))


def _power(values: Complexes, exponent: int) -> Complexes:
    """values^exponent by repeated squaring: relative error at most 4 u times the exponent."""
    result = np.ones_like(values)
    with np.errstate(under="ignore"):
        while exponent:
            if exponent & 1:
                result = result * values
            exponent >>= 1
            if exponent:
                values = values * values
    return result
