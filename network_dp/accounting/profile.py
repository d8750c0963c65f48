"""The path-averaged Gaussian profile: the tightest ex-ante bound for a known path (THEORY.md#profile).

Given the path, v's view is dominated by a Gaussian mechanism with mu = (Delta/sigma) sqrt(S); the path does not depend
on data and may be revealed, and delta_G grows with mu, so for every S^ >= S

    delta(epsilon) <= E_path delta_G(epsilon; (Delta/sigma) sqrt(S)) <= E delta_G(epsilon; (Delta/sigma) sqrt(S^)).

S^ is the exposure of `moments` (sum: c^2/m of every cycle; SGD: height^2/width of every face of `minorant`) with every
term rounded UP to a grid. Its characteristic function at each frequency w solves the same renewal equation with
e^{iw g} in place of e^{b S}, in the z-domain a quotient of power series; coefficient T comes from a Cauchy sum on a
circle of radius < 1, and the law of S^ by one inverse FFT. The sum also picks up coefficients T + N, T + 2N, ..,
damped: laws of longer walks, positive measures that only add to delta. `lost`, what must be added to delta, is

* the mass of terms left out: at most one cycle or face per step, each leaving out at most the worst row's rest, and
  cycles of 41 n/c steps and more (what is kept is rounded up: masses above the exact ones only add to delta);
* P(S^ > grid) <= E exp(b S^ - b grid), by the recursion with real b;
* floating-point error. Each stage of an FFT multiplies by a root of unity (good to 2 u) and adds: a relative error of
  at most 8 u for what flows through, so log2 N stages give eta = 8 u log2 N, in the 2-norm (Higham 2002, Thm 24.2,
  mu = 2 u) and, relative to |k|_1, at every point. Roots of unity and damping computed here are good to 25 u, products
  and sums of j terms to j u: (40 + j) u of the input. With D = 1 - z K and F = end/D, to first order the error of F on
  the circle is (error of end + F error of K)/D, so by Cauchy-Schwarz coefficient T errs by at most radius^-T times
  (eta |end| rms(1/D) + eta |k| rms(F/D)) plus rounding; or, as every point of a transform errs by at most eta |k|_1,
  eta |k|_1 rms(F) rms(1/D) for the second term. For SGD K is the exponential of a transform f, which errs by at most
  eta |f|_1 everywhere, so that K has that RELATIVE error r: the second term is r rms(F) rms(K/D).
  Kernels at frequency w are dominated, coefficient by coefficient, by those at w = 0: so are the means (Parseval), and
  one evaluation serves all frequencies. An error e in every frequency is one of at most e in the 2-norm of the
  probabilities, hence sqrt(bins) e in delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import fft
from scipy.optimize import brentq

from network_dp.accounting import gaussian, law_cache
from network_dp.accounting.law_cache import STEPS, ExposureLaw
from network_dp.accounting.moments import Law, Rows, binomial_rows, cycle_kernel, log_share, solve
from network_dp.accounting.renewal import Kernel
from network_dp.accounting.rounding import UNIT, halving_sum
from network_dp.errors import require

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Ints = NDArray[np.int64]

_BINS = 4096  # the grid of exposures is as fine as so many bins allow, among `STEPS`
_TILTS = (1.0, 2.0, 4.0, 6.0, 8.0, 12.0)
_ALIAS = 14.0  # the next law that a Cauchy sum picks up is damped by e^-14
_NEGLIGIBLE = 1e-17
_USELESS = 1e9  # an epsilon that protects nobody
_LONGEST = 41.5  # a cycle of so many times n/c steps has probability below 1e-18
LONGEST_WALK = (1 << 17) - 1
_WORK = 6e8  # points of all transforms, and terms of all kernels, that are worth their time: some 15 s

Progress = Callable[[float], None]  # is told the share that is done


def _silent(share: float) -> None:
    pass


@dataclass(frozen=True)
class _Watched:
    """A law that is asked for, and who is told meanwhile; what is remembered goes by the law alone."""

    law: Law
    progress: Progress = field(compare=False)


@lru_cache(maxsize=1024)
def epsilon(law: Law, sigma: float, sensitivity: float, delta: float) -> float:
    """Epsilon at `delta`; infinite where delta is below the numerical resolution, or the walk too long for it."""
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
        if high > _USELESS:
            return math.inf
    root = float(brentq(excess, 0.0, high, rtol=1e-9, xtol=1e-12))
    return root * (1 + 1e-8) + 1e-11  # the root is found to 1e-9 and 1e-12: round up


def deltas(law: Law, sigma: float, sensitivity: float, epsilons: Floats) -> Floats:
    """Delta at every epsilon, `lost` included; 1 where nothing is known."""
    spread = exposure_law(law)
    seen = spread.probability > 0
    mus = np.sqrt(spread.exposure[seen]) * sensitivity / sigma
    averaged = [float(spread.probability[seen] @ gaussian.deltas(mus, value)) for value in epsilons.tolist()]
    return np.minimum(np.array(averaged) * (1 + 1e-9) + spread.lost, 1.0)


def is_fine(law: Law, delta: float) -> bool:
    """Is the profile's own error so small, its grid so fine, that no other bound here needs to be looked at?"""
    spread = exposure_law(law)
    return spread.lost <= delta / 10 and spread.step < STEPS[-1]


def exposure_law(law: Law, progress: Progress = _silent) -> ExposureLaw:
    """The law of S^ over the uniform walk; computed once, then remembered, on disk too (`law_cache`)."""
    return _exposure_law(_Watched(law, progress))


@lru_cache(maxsize=16)
def _exposure_law(wanted: _Watched) -> ExposureLaw:
    found = law_cache.read(wanted.law)
    if found is None:
        found = computed_law(wanted.law, wanted.progress)
        law_cache.write(wanted.law, found)
    return found


def computed_law(law: Law, progress: Progress = _silent) -> ExposureLaw:
    """The law of S^, from scratch. Where it would take too long, nothing is known: all of it is lost."""
    require(law.n_steps >= 1, "a walk without steps has no exposure")
    if law.n_steps > LONGEST_WALK:
        return law_cache.OUT_OF_REACH
    terms = _Terms(law)
    circle = _Circle(law, terms.most)
    affordable = 2 * _WORK / (circle.size + terms.count)
    step, bins, beyond = _grid(law, terms, min(_BINS, affordable))
    if bins > affordable:
        return law_cache.OUT_OF_REACH
    spectrum = np.empty(bins // 2 + 1, dtype=np.complex128)
    roots, waves = np.exp(2j * np.pi * np.arange(bins) / bins), terms.waves(step)
    rounding = math.sqrt(bins) * (circle.error(waves(0, roots)) + _fft_error(bins))
    for k in range(bins // 2 + 1):
        spectrum[k] = circle.coefficient(waves(k, roots))
        if k % 64 == 0:
            progress(2 * k / bins)
    probability = np.asarray(np.fft.irfft(np.conj(spectrum), bins), dtype=np.float64)
    lost = beyond + (law.n_steps + 1) * terms.left_out + rounding
    return ExposureLaw(step, np.maximum(probability, 0.0), lost)


def _fft_error(size: int, terms: int = 0) -> float:
    """Relative error of a transform of that length, whose input is a sum of so many terms good to 40 roundings each."""
    return (8 * math.log2(size) + 40 + terms) * UNIT


Waves = Callable[[int, Complexes], Complexes]  # frequency, roots of unity -> G(m) s^m, 0 <= m <= T


class _Terms:
    """Which terms P(C = c) of a cycle's steps make up a renewal equation: at every frequency, and with a real tilt."""

    def __init__(self, law: Law) -> None:
        hit, rate = law.colluders / law.n_users, 1 / (law.n_users - law.colluders)
        longest = max(2_000, math.ceil(_LONGEST / hit))  # beyond, cycles are left out
        length = min(law.n_steps + 1, longest)
        rows = binomial_rows(rate, length)
        with np.errstate(under="ignore"):
            mass = np.exp(rows.log_pmf) * (1 + 16 * UNIT)
        is_kept = (mass > _NEGLIGIBLE) | (rows.count == 0)
        kept = np.flatnonzero(is_kept)
        gain = rows.count**2 / np.repeat(np.maximum(rows.start, 1.0), rows.size)
        row_of = np.repeat(np.arange(len(rows.start)), rows.size)[kept]
        log_s = _log_miss(law)
        self._law, self._rows, self._kept = law, rows, kept
        self._mass, self._gain = mass[kept], gain[kept]
        self._first = np.searchsorted(row_of, np.arange(len(rows.start)))  # kept term of each row
        self._repeats = (rows.stop - rows.start).astype(np.int64)
        self._decay = _powers(log_s, length - 1)
        self._shut = np.zeros(law.n_steps + 1 - length, dtype=np.complex128)
        self.count = len(kept)
        #: the most terms that are added up to one entry of the kernel
        self.most = int(np.diff(self._first, append=len(kept)).max())
        #: the most probability that a cycle leaves out
        self.left_out = _left_out(rows, np.where(is_kept, 0.0, mass), rate)
        if length <= law.n_steps:
            self.left_out += 1.01 * math.exp(length * log_s)

    def _levels(self, step: float) -> Ints:
        """What each term adds to the exposure, rounded up to steps of the grid."""
        return np.asarray(np.ceil(self._gain / step), dtype=np.int64)

    def waves(self, step: float) -> Waves:
        level = self._levels(step)

        def at(k: int, roots: Complexes) -> Complexes:
            terms = self._mass * roots[(k * level) & (len(roots) - 1)]
            sums = np.add.reduceat(terms, self._first)
            return np.concatenate([self._decay * np.repeat(sums, self._repeats), self._shut])

        return at

    def kernel_at(self, step: float, tilt: float) -> Kernel:
        gains = np.full(len(self._rows.count), -np.inf)
        gains[self._kept] = tilt * self._levels(step) * step
        return cycle_kernel(self._law, self._rows, gains, np.full(len(self._rows.start), -np.inf))


def _left_out(rows: Rows, dropped: Floats, rate: float) -> float:
    """The most probability of a row that is not kept: what was dropped, and by Chernoff's bound what it never held."""
    cut = rows.size <= rows.longest
    mean, first = rows.longest[cut] * rate, rows.size[cut]
    beyond = np.exp(-mean - first * (np.log(first / mean) - 1)) if cut.any() else np.zeros(1)
    return 1.01 * (float(np.add.reduceat(dropped, rows.first_term).max()) + float(beyond.max()))


def _grid(law: Law, terms: _Terms, most: float) -> tuple[float, int, float]:
    """Step, number of bins (a power of two) and a bound on the probability beyond: as fine as `most` bins allow."""
    step, bins, _ = _bins(law, terms, 1 / 512)
    reach = step * bins
    return _bins(law, terms, next((step for step in STEPS if reach / step <= most), STEPS[-1]))


def _bins(law: Law, terms: _Terms, step: float) -> tuple[float, int, float]:
    logs = {tilt: solve(law, terms.kernel_at(step, tilt), refine=True) for tilt in _TILTS}
    bins = 256
    while True:
        beyond = min(math.exp(min(value - tilt * bins * step, 0.0)) for tilt, value in logs.items())
        if beyond <= 1e-11 or bins >= law_cache.MOST_BINS:
            return step, bins, beyond
        bins *= 2


class _Circle:
    """Coefficient T of the solution of a renewal equation, by a Cauchy sum on |z| = radius."""

    def __init__(self, law: Law, terms: int) -> None:
        self._law = law
        # at least twice the walk, so that radius^-T is at most e^7; thrice, and e^5, where that costs little
        times = 3 if law.n_steps < 1 << 14 else 2
        self.size = 1 << (times * (law.n_steps + 1) - 1).bit_length()
        self._log_radius = -_ALIAS / self.size
        self._damp = np.exp(self._log_radius * np.arange(law.n_steps + 1))
        self._z = np.exp(self._log_radius - 2j * np.pi * np.arange(self.size) / self.size)
        self._pick = np.exp(2j * np.pi * ((np.arange(self.size) * law.n_steps) % self.size) / self.size)
        self._hit = law.colluders / law.n_users * (1 + 4 * UNIT)
        self._unseen = _powers(_log_miss(law), law.n_steps)
        self._unseen_end = self._transform(self._unseen)
        # the lengths of faces: SGD's cycles are made of them
        self._faces = np.maximum(np.arange(law.n_steps + 1), 1) if law.task == "sgd" else None
        self._eta = _fft_error(self.size, terms)

    def _transform(self, series: Floats | Complexes) -> Complexes:
        return np.asarray(fft(series * self._damp, self.size), dtype=np.complex128)

    def coefficient(self, wave: Complexes) -> complex:
        cycles = self._cycles(wave)
        end = cycles if self._law.released else self._unseen_end
        total = complex(halving_sum(end / (1 - self._hit * self._z * cycles) * self._pick)[0]) / self.size
        return total * math.exp(-self._log_radius * self._law.n_steps)

    def _cycles(self, wave: Complexes) -> Complexes:
        """sum of g(m) (w z)^m, g(m) the weight of a cycle of m steps."""
        if self._faces is None:
            return self._transform(wave)
        faces = wave / self._faces
        faces[0] = 0.0
        return np.exp(self._transform(faces))

    def error(self, wave: Complexes) -> float:
        """A bound on the error of every coefficient, from the terms at frequency 0, which dominate all others."""
        cycles, hit = self._cycles(wave), self._hit
        end = cycles if self._law.released else self._unseen_end
        inverse = 1 / (1 - hit * self._z * cycles)
        value, amplified = end * inverse, math.exp(-self._log_radius * self._law.n_steps)
        damped = np.abs(wave * self._damp)
        of_unseen = self._eta * _norm(self._unseen * self._damp) * _rms(inverse)
        if self._faces is None:
            of_end = self._eta * _norm(damped) * _rms(inverse)
            of_kernel = min(
                (self._eta * hit * _norm(damped) + 40 * UNIT) * _rms(value * inverse),
                (self._eta * hit * float(damped.sum()) + 40 * UNIT) * _rms(value) * _rms(inverse),
            )
        else:
            relative = self._eta * (1 + float((damped / self._faces)[1:].sum())) + 40 * UNIT
            of_end = relative * _rms(cycles) * _rms(inverse)
            of_kernel = relative * _rms(value) * _rms(hit * cycles * inverse)
        of_sums = (math.log2(self.size) + 100) * UNIT * _rms(value)  # the sum, products, what is picked, the radius
        # 1.01: terms of second order
        return 1.01 * ((of_end if self._law.released else of_unseen) + of_kernel + of_sums) * amplified


def _log_miss(law: Law) -> float:
    return log_share(law.n_users - law.colluders, law.n_users)


def _powers(log_s: float, n_steps: int) -> Floats:
    """s^0 .. s^T, rounded up."""
    exponent = log_s * np.arange(n_steps + 1)
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(exponent * (1 - 4 * UNIT)) * (1 + 16 * UNIT), dtype=np.float64)


def _norm(values: Floats | Complexes) -> float:
    return float(np.sqrt(np.sum(np.abs(values) ** 2)))


def _rms(values: Floats | Complexes) -> float:
    return _norm(values) / math.sqrt(len(values))
