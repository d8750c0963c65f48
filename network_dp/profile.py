"""The path-averaged Gaussian profile: the tightest ex-ante bound here, for walks up to 30 000 steps.

Given the path, v's view is dominated by a Gaussian mechanism with mu = (Delta/sigma) sqrt(S); the path does not depend
on data and may be revealed, and delta_G grows with mu, so for every S^ >= S

    delta(epsilon) <= E_path delta_G(epsilon; (Delta/sigma) sqrt(S)) <= E delta_G(epsilon; (Delta/sigma) sqrt(S^)).

S^ is the exposure of `moments` (sum: exact cycles; SGD: disjoint windows) with every term rounded UP to a grid. Its
characteristic function at each frequency w solves the same renewal equation with e^{iw g} in place of e^{b S}, in
the z-domain a quotient of power series; coefficient T comes from a Cauchy sum on a circle of radius < 1, and the law of
S^ by one inverse FFT. The sum also picks up coefficients T + N, T + 2N, .., damped: laws of longer walks, positive
measures that only add to delta. `lost`, what must be added to delta, is

* the mass of terms left out: at most one cycle per step, each leaving out at most the worst row's rest (what is kept is
  rounded up: masses above the exact ones only add to delta);
* P(S^ > grid) <= E exp(b S^ - b grid), by the recursion with real b;
* floating-point error. Each stage of an FFT multiplies by a root of unity (good to 2 u) and adds: a relative error of
  at most 8 u for what flows through, so log2 N stages give eta = 8 u log2 N, in the 2-norm (Higham 2002, Thm 24.2,
  mu = 2 u) and, relative to |k|_1, at every point. Roots of unity and damping computed here are good to 25 u, products
  and sums of j terms to j u: (40 + j) u of the input. With D = 1 - z K and F = end/D, to first order the error of F on
  the circle is (error of end + F error of K)/D, so by Cauchy-Schwarz coefficient T errs by at most radius^-T times
  (eta |end| rms(1/D) + eta |k| rms(F/D)) plus rounding; or, as every point of a transform errs by at most eta |k|_1,
  eta |k|_1 rms(F) rms(1/D) for the second term. The opening factor O = 1/(1 - (1-hit) z) errs by |O| times the relative
  error of z, which adds 32 u rms(O) rms(result).
  Kernels at frequency w are dominated, coefficient by coefficient, by those at w = 0: so are the means (Parseval), and
  one evaluation serves all frequencies. An error e in every frequency is one of at most e in the 2-norm of the
  probabilities, hence sqrt(bins) e in delta.
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
from network_dp.moments import RECURSION_STEPS, Kernel, Law, Rows, binomial_rows, cycle_kernel, log_share, solve
from network_dp.rounding import UNIT, halving_sum

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

_STEP = 1 / 512  # grid of exposures
_TILTS = (1.0, 2.0, 4.0, 6.0, 8.0, 12.0)
_ALIAS = 14.0  # the next law that a Cauchy sum picks up is damped by e^-14
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
        # 1e-9: far above the rounding of the profile and of the sum
        return float(spread.probability @ gaussian.deltas(mus, value)) * (1 + 1e-9) + spread.lost - delta

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
    log_s, waves, kernel_at, left_out, terms = _sum_terms(law) if law.task == "sum" else _sgd_terms(law)
    bins, beyond = _grid(law, kernel_at)
    spectrum = np.empty(bins // 2 + 1, dtype=np.complex128)
    roots = np.exp(2j * np.pi * np.arange(bins) / bins)
    circle = _Circle(law, log_s, terms)
    rounding = math.sqrt(bins) * (circle.error(*waves(0, roots)) + _fft_error(bins))
    for k in range(bins // 2 + 1):
        spectrum[k] = circle.coefficient(*waves(k, roots))
    probability = np.asarray(np.fft.irfft(np.conj(spectrum), bins), dtype=np.float64)
    lost = beyond + (law.n_steps + 1) * left_out + rounding
    return ExposureLaw(np.arange(bins, dtype=np.float64) * _STEP, np.maximum(probability, 0.0), lost)


def _fft_error(size: int, terms: int = 0) -> float:
    """Relative error of a transform of that length, whose input is a sum of so many terms good to 40 roundings each."""
    return (8 * math.log2(size) + 40 + terms) * UNIT


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

    def __init__(self, law: Law, log_s: float, terms: int) -> None:
        self._law = law
        self._terms = terms
        self._size = 1 << (2 * (law.n_steps + 1) - 1).bit_length()
        self._log_radius = -_ALIAS / self._size
        self._damp = np.exp(self._log_radius * np.arange(law.n_steps + 1))
        self._z = np.exp(self._log_radius - 2j * np.pi * np.arange(self._size) / self._size)
        self._pick = np.exp(2j * np.pi * ((np.arange(self._size) * law.n_steps) % self._size) / self._size)
        hit = law.colluders / law.n_users
        opening = law.task == "sgd" and not law.released
        self._open = 1 / (1 - (1 - hit) * self._z) if opening else None
        self._hit = hit
        self._log_s = log_s
        self._usual_end = self._transform(_powers(log_s, law.n_steps))

    def _transform(self, series: Floats | Complexes) -> Complexes:
        return np.asarray(fft(series * self._damp, self._size), dtype=np.complex128)

    def coefficient(self, kernel: Complexes, closing: Complexes | None) -> complex:
        end = self._usual_end if closing is None else self._transform(closing)
        value = self._opened(end / (1 - self._z * self._transform(kernel)))
        total = complex(halving_sum(value * self._pick)[0]) / self._size
        return total * math.exp(-self._log_radius * self._law.n_steps)

    def _opened(self, value: Complexes) -> Complexes:
        return value if self._open is None else self._open * (1 + self._hit * self._z * value)

    def error(self, kernel: Complexes, closing: Complexes | None) -> float:
        """A bound on the error of every coefficient, from the terms at frequency 0, which dominate all others."""
        usual = _powers(self._log_s, self._law.n_steps) if closing is None else closing
        end = self._transform(usual)
        denominator = 1 - self._z * self._transform(kernel)
        value = end / denominator
        gain = 1.0 if self._open is None else self._hit * self._open
        eta, opened = _fft_error(self._size, self._terms), self._opened(value)
        of_end = eta * _norm(usual * self._damp) * _rms(gain / denominator)
        of_kernel = min(
            (eta * _norm(kernel * self._damp) + 40 * UNIT) * _rms(gain * value / denominator),
            (eta * float(np.abs(kernel * self._damp).sum()) + 40 * UNIT) * _rms(gain * value) * _rms(1 / denominator),
        )
        of_opening = 0.0 if self._open is None else 32 * UNIT * _rms(self._open) * _rms(opened)
        of_sums = (math.log2(self._size) + 100) * UNIT * _rms(opened)  # the sum, products, what is picked, the radius
        # 1.01: terms of second order
        return 1.01 * (of_end + of_kernel + of_opening + of_sums) * math.exp(-self._log_radius * self._law.n_steps)


def _powers(log_s: float, n_steps: int) -> Floats:
    """s^0 .. s^T, rounded up."""
    exponent = log_s * np.arange(n_steps + 1)
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(exponent * (1 - 4 * UNIT)) * (1 + 16 * UNIT), dtype=np.float64)


def _norm(values: Floats | Complexes) -> float:
    return float(np.sqrt(np.sum(np.abs(values) ** 2)))


def _rms(values: Floats | Complexes) -> float:
    return _norm(values) / math.sqrt(len(values))


def _sgd_terms(law: Law) -> tuple[float, Waves, RealKernel, float, int]:
    n, c = law.n_users, law.colluders
    j = np.arange(law.n_steps + 1, dtype=np.float64)
    log_s = log_share(n - c - 1, n)
    decay = _powers(log_s, law.n_steps) / n * (1 + 4 * UNIT)
    level = np.ceil(1 / ((1 + j) * _STEP)).astype(np.int64)

    def waves(k: int, roots: Complexes) -> tuple[Complexes, Complexes | None]:
        return decay * (c + roots[(k * level) % len(roots)]), None

    def kernel_at(tilt: float) -> Kernel:
        weight = np.logaddexp(math.log(c), tilt * level * _STEP) - math.log(n) + 1e-12  # 1e-12: above its rounding
        return Kernel(log_s, j, np.append(j[1:], np.inf), weight, np.zeros_like(j), None)

    return log_s, waves, kernel_at, 0.0, 2


def _sum_terms(law: Law) -> tuple[float, Waves, RealKernel, float, int]:
    """ln s, the terms by frequency and by tilt, the most probability that a cycle leaves out, and the longest row."""
    hit = law.colluders / law.n_users
    rows = binomial_rows(1 / (law.n_users - law.colluders), law.n_steps + 1)
    shortest = np.repeat(np.maximum(rows.start, 1.0), rows.size)
    level = np.ceil(rows.count**2 / shortest / _STEP).astype(np.int64)
    with np.errstate(under="ignore"):
        mass = np.exp(rows.log_pmf) * (1 + 16 * UNIT)
    is_kept = (mass > _NEGLIGIBLE) | (rows.count == 0)
    kept = np.flatnonzero(is_kept)
    left_out = _left_out(rows, np.where(is_kept, 0.0, mass), 1 / (law.n_users - law.colluders))
    row_of = np.repeat(np.arange(len(rows.start)), rows.size)[kept]
    first = np.searchsorted(row_of, np.arange(len(rows.start)))
    mass, kept_level = mass[kept], level[kept]
    lengths = (rows.stop - rows.start).astype(np.int64)
    log_s = log_share(law.n_users - law.colluders, law.n_users)
    decay = _powers(log_s, law.n_steps)

    def waves(k: int, roots: Complexes) -> tuple[Complexes, Complexes | None]:
        g = np.repeat(np.add.reduceat(mass * roots[(k * kept_level) % len(roots)], first), lengths)
        return decay * (hit * (1 + 4 * UNIT)) * g, decay * g if law.released else None

    def kernel_at(tilt: float) -> Kernel:
        gains = np.full(len(level), -np.inf)
        gains[kept] = tilt * kept_level * _STEP
        return cycle_kernel(law, rows, gains, np.full(len(rows.start), -np.inf))

    return log_s, waves, kernel_at, left_out, int(np.diff(first, append=len(kept)).max())


def _left_out(rows: Rows, dropped: Floats, rate: float) -> float:
    """The most probability of a row that is not kept: what was dropped, and by Chernoff's bound what it never held."""
    cut = rows.size <= rows.longest
    mean, first = rows.longest[cut] * rate, rows.size[cut]
    beyond = np.exp(-mean - first * (np.log(first / mean) - 1)) if cut.any() else np.zeros(1)
    return 1.01 * (float(np.add.reduceat(dropped, rows.first_term).max()) + float(beyond.max()))
