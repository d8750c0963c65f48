"""The path-averaged Gaussian profile: the tightest ex-ante bound here, for walks up to 30 000 steps.

Given the path, v's view is dominated by a Gaussian mechanism with mu = (Delta/sigma) sqrt(S); the path does not depend
on data and may be revealed, and delta_G grows with mu, so for every S^ >= S

    delta(epsilon) <= E_path delta_G(epsilon; (Delta/sigma) sqrt(S)) <= E delta_G(epsilon; (Delta/sigma) sqrt(S^)).

S^ is the exposure of `moments` (sum: exact cycles; SGD: disjoint windows) with every term rounded UP to a grid. Its
characteristic function at each frequency w solves the same renewal equation with e^{iw g} in place of e^{b S}, in
the z-domain a quotient of power series; coefficient T comes from a Cauchy sum on a circle of radius < 1 (all
coefficients are at most 1 in modulus, so aliasing is a geometric tail), and the law of S^ by one inverse FFT. Added to
delta:

* the mass of terms left out (it shows as a total below 1), and floating-point error, which is measured, not proved: as
  |1 - total|, plus the most negative probability found times the number of bins, plus _ROUNDING;
* P(S^ > grid) <= E exp(b S^ - b grid), by the recursion with real b.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import fft
from scipy.optimize import brentq

from network_dp import gaussian
from network_dp.errors import require
from network_dp.moments import RECURSION_STEPS, Kernel, Law, binomial_rows, cycle_kernel, solve

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

_STEP = 1 / 512  # grid of exposures
_TILTS = (1.0, 2.0, 4.0, 6.0, 8.0, 12.0)
_ROUNDING = 1e-11
_NEGLIGIBLE = 1e-17


@dataclass(frozen=True)
class ExposureLaw:
    """Law of a rounded-up exposure: P(S^ = exposure[k]) = probability[k]; `lost` must be added to every delta."""

    exposure: Floats
    probability: Floats
    lost: float


def epsilon(law: Law, sigma: float, sensitivity: float, delta: float) -> float:
    """Epsilon at `delta`; infinite where delta is below the numerical resolution."""
    require(sigma > 0 and sensitivity >= 0, f"need sigma > 0 and sensitivity >= 0, got {sigma} and {sensitivity}")
    spread = exposure_law(law)
    if delta <= 2 * spread.lost:
        return math.inf
    mus = np.sqrt(spread.exposure) * sensitivity / sigma

    def excess(value: float) -> float:
        return float(spread.probability @ gaussian.deltas(mus, value)) + spread.lost - delta

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
    root = float(brentq(excess, 0.0, high, rtol=1e-9, xtol=1e-12))
    return root * (1 + 1e-8)  # the root is found to 1e-9: round up


def sigma(law: Law, epsilon_target: float, sensitivity: float, delta: float) -> float:
    """Least sigma, to 0.01 % and rounded up, that meets a target."""
    require(epsilon_target > 0, f"epsilon must be positive, got {epsilon_target}")
    low = high = gaussian.sigma(epsilon_target, delta, sensitivity)
    require(math.isfinite(epsilon(law, high, sensitivity, delta)), f"delta = {delta} is below the resolution")
    while epsilon(law, high, sensitivity, delta) > epsilon_target:
        low, high = high, 2 * high
    while low > 1e-9 * high and epsilon(law, low, sensitivity, delta) <= epsilon_target:
        low, high = low / 2, low
    while high / low > 1.0001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if epsilon(law, middle, sensitivity, delta) <= epsilon_target else (middle, high)
    return high


@lru_cache(maxsize=8)
def exposure_law(law: Law) -> ExposureLaw:
    """The law of S^ over the uniform walk."""
    require(1 <= law.n_steps <= RECURSION_STEPS, f"n_steps must lie between 1 and {RECURSION_STEPS}")
    log_s, waves, kernel_at = _sum_terms(law) if law.task == "sum" else _sgd_terms(law)
    bins, beyond = _grid(law, kernel_at)
    spectrum = np.empty(bins // 2 + 1, dtype=np.complex128)
    roots = np.exp(2j * np.pi * np.arange(bins) / bins)
    circle = _Circle(law, log_s)
    for k in range(bins // 2 + 1):
        spectrum[k] = circle.coefficient(*waves(k, roots))
    probability = np.asarray(np.fft.irfft(np.conj(spectrum), bins), dtype=np.float64)
    lost = beyond + abs(1 - float(probability.sum())) + bins * float(-min(probability.min(), 0.0)) + _ROUNDING
    return ExposureLaw(np.arange(bins, dtype=np.float64) * _STEP, np.maximum(probability, 0.0), lost)


# frequency, roots of unity -> kernel k(j) and, where it is not s^t, closing end(t); 0 <= j, t <= T
Waves = Callable[[int, Complexes], tuple[Complexes, Complexes | None]]
RealKernel = Callable[[float], Kernel]


def _grid(law: Law, kernel_at: RealKernel) -> tuple[int, float]:
    """Number of bins (a power of two) and a bound on the probability beyond them."""
    logs = {tilt: solve(law, kernel_at(tilt), refine=True) for tilt in _TILTS}
    bins = 512
    while True:
        beyond = min(math.exp(min(value - tilt * bins * _STEP, 0.0)) for tilt, value in logs.items())
        if beyond <= 1e-11 or bins >= 1 << 17:
            return bins, beyond
        bins *= 2


class _Circle:
    """Coefficient T of the solution of a renewal equation, by a Cauchy sum on |z| = radius."""

    def __init__(self, law: Law, log_s: float) -> None:
        self._law = law
        self._size = 1 << (2 * (law.n_steps + 1) - 1).bit_length()
        self._log_radius = -28.0 / self._size  # aliasing: radius^size = e^-28 < 1e-12
        self._damp = np.exp(self._log_radius * np.arange(law.n_steps + 1))
        self._z = np.exp(self._log_radius - 2j * np.pi * np.arange(self._size) / self._size)
        self._pick = np.exp(2j * np.pi * ((np.arange(self._size) * law.n_steps) % self._size) / self._size)
        hit = law.colluders / law.n_users
        opening = law.task == "sgd" and not law.released
        self._open = 1 / (1 - (1 - hit) * self._z) if opening else None
        self._hit = hit
        with np.errstate(under="ignore"):
            self._usual_end = self._transform(np.exp(log_s * np.arange(law.n_steps + 1)))

    def _transform(self, series: Floats | Complexes) -> Complexes:
        return np.asarray(fft(series * self._damp, self._size), dtype=np.complex128)

    def coefficient(self, kernel: Complexes, closing: Complexes | None) -> complex:
        end = self._usual_end if closing is None else self._transform(closing)
        value = end / (1 - self._z * self._transform(kernel))
        if self._open is not None:
            value = self._open * (1 + self._hit * self._z * value)
        total = complex(np.sum(value * self._pick)) / self._size
        return total * math.exp(-self._log_radius * self._law.n_steps)


def _sgd_terms(law: Law) -> tuple[float, Waves, RealKernel]:
    n, c = law.n_users, law.colluders
    j = np.arange(law.n_steps + 1, dtype=np.float64)
    log_s = math.log(max(1 - (c + 1) / n, 1e-300))
    with np.errstate(under="ignore"):
        decay = np.exp(j * log_s)
    level = np.ceil(1 / ((1 + j) * _STEP)).astype(np.int64)

    def waves(k: int, roots: Complexes) -> tuple[Complexes, Complexes | None]:
        return decay * (c + roots[(k * level) % len(roots)]) / n, None

    def kernel_at(tilt: float) -> Kernel:
        weight = np.logaddexp(math.log(c), tilt * level * _STEP) - math.log(n)
        return Kernel(log_s, j, np.append(j[1:], np.inf), weight, np.zeros_like(j), None)

    return log_s, waves, kernel_at


def _sum_terms(law: Law) -> tuple[float, Waves, RealKernel]:
    hit = law.colluders / law.n_users
    rows = binomial_rows(1 / (law.n_users - law.colluders), law.n_steps + 1)
    shortest = np.repeat(np.maximum(rows.start, 1.0), rows.size)
    level = np.ceil(rows.count**2 / shortest / _STEP).astype(np.int64)
    with np.errstate(under="ignore"):
        mass = np.exp(rows.log_pmf)
    kept = np.flatnonzero((mass > _NEGLIGIBLE) | (rows.count == 0))
    row_of = np.repeat(np.arange(len(rows.start)), rows.size)[kept]
    first = np.searchsorted(row_of, np.arange(len(rows.start)))
    mass, kept_level = mass[kept], level[kept]
    lengths = (rows.stop - rows.start).astype(np.int64)
    decay = np.exp(np.arange(law.n_steps + 1) * math.log1p(-hit))

    def waves(k: int, roots: Complexes) -> tuple[Complexes, Complexes | None]:
        g = np.repeat(np.add.reduceat(mass * roots[(k * kept_level) % len(roots)], first), lengths)
        return decay * hit * g, decay * g if law.released else None

    def kernel_at(tilt: float) -> Kernel:
        gains = np.full(len(level), -np.inf)
        gains[kept] = tilt * kept_level * _STEP
        return cycle_kernel(law, rows, gains, np.full(len(rows.start), -np.inf))

    return math.log1p(-hit), waves, kernel_at
