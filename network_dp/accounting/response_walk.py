"""Randomised response on the complete graph before a run, by the law of the privacy loss averaged over paths.

Given the path, u's answers are windows whose losses add up (`shuffle`); the path does not depend on data and may be
revealed, so delta(eps) is at most the average over paths of E (1 - e^(eps - L))_+: that of ONE law of L, the mixture.
Its transform solves the renewal equation of `moments` with E e^(z L) of a window in place of its moment, at every
frequency. As in `composition`, all is tilted by the lambda at which Renyi's bound is least, so that errors are relative
to delta. With K = ln E e^(lambda L), phi_j the transform of window j's tilted law and growth as in `renewal`,

    value(t) = sum over j < t of k(j) value(t-1-j) + end(t),    k(m) = hit s^m growth^-(m+1) E prod M_j phi_j,

step by step. All coefficients are positive and |phi_j| <= 1: so value at frequency 0 bounds all others, and

* an error eta of every phi_j (`composition`) is one of at most (1 + eta)^T - 1 of it: a path has at most T windows;
* roundings of the recursion and of the powers are at most (T + 8)^2 8 u of it.

Losses of windows are rounded up to a grid. Short walks only: the work grows with T^2 for every frequency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft
from scipy.sparse import csr_array
from scipy.special import logsumexp

from network_dp.accounting import composition, renewal
from network_dp.accounting.composition import OUTSIDE, Tilted
from network_dp.accounting.moments import Law, Rows, cycle_kernel, cycle_rows, log_share
from network_dp.accounting.randomised_response import Losses, Response, Window, round_all_down, window_losses
from network_dp.accounting.rounding import UNIT

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Ints = NDArray[np.int64]

LONGEST_WALK = 128
_BLOCK = 256  # frequencies at a time
_RATES = 0.4  # from one tilt to the next, in ln lambda
_MOST_POINTS = 1 << 16
_NEGLIGIBLE = 1e-18  # of a tilted row
_LARGEST_WEIGHT = 1e100  # a tilted law sums to 1: far beyond it numbers are lost


@dataclass(frozen=True)
class _Walk:
    """Windows by number of others, and which one every term (cycle length, answers of u) is made of."""

    law: Law
    rows: Rows
    interval: float
    windows: tuple[Losses, ...]
    window: Ints
    losses: Floats
    masses: Floats  # one row per window

    @property
    def infinite(self) -> float:
        return self.law.n_steps * max(each.infinite for each in self.windows)

    def log_moments(self, rate: float) -> Floats:
        exponents = rate * self.losses
        roundings = 64 + len(exponents) + 8 * float(np.abs(exponents).max())
        return np.asarray(logsumexp(exponents, b=self.masses, axis=1) + roundings * UNIT, dtype=np.float64)

    def kernel(self, rate: float) -> renewal.Kernel:
        gains = self.rows.count * self.log_moments(rate)[self.window]
        return cycle_kernel(self.law, self.rows, gains, np.full(len(self.rows.start), -np.inf))

    def log_moment(self, rate: float) -> float:
        """ln E e^(rate L)."""
        return renewal.recursion(self.kernel(rate), self.law.n_steps)


class _NoNumbersError(Exception):
    """The law is too wide for a transform, or so far tilted that its weights are no numbers: a loss that saturates is
    told by Renyi's bound."""


def epsilon(law: Law, response: Response, delta: float) -> float:
    """Epsilon at `delta`; infinite where the walk is too long or the law too wide."""
    if law.n_steps > LONGEST_WALK:
        return math.inf
    walk = _walk(law, response)
    # 1e-9: far above the rounding of the masses of windows
    finite = (delta - walk.infinite) * (1 - 1e-9)
    if finite <= 0:
        return math.inf
    rate = composition.best_rate(walk.log_moment, finite)
    try:
        return _tilted(law, response, round(math.log(rate) / _RATES)).epsilon(finite)
    except _NoNumbersError:
        return math.inf


@lru_cache(maxsize=4)
def _walk(law: Law, response: Response) -> _Walk:
    rows = cycle_rows(law)
    grid = np.unique(round_all_down(np.arange(law.n_steps)))
    count = np.maximum(rows.count, 1.0)
    length = np.repeat(rows.start, rows.size)
    window = np.searchsorted(grid, np.maximum((length - count) // count, 0.0), side="right") - 1
    visits = law.n_steps / (law.n_users - law.colluders)
    interval = min(response.epsilon / 500, 0.01 * min(response.epsilon, 1.0) / math.sqrt(visits + 1))
    windows = tuple(window_losses(response, Window(int(others)), interval) for others in grid)
    losses = (windows[0].lowest + np.arange(len(windows[0].probabilities), dtype=np.float64)) * interval
    masses = np.array([each.probabilities for each in windows])
    return _Walk(law, rows, interval, windows, window, losses, masses)


@lru_cache(maxsize=64)
def _tilted(law: Law, response: Response, index: int) -> Tilted:
    """The law of L, tilted; one tilt serves all deltas of its neighbourhood."""
    walk, rate = _walk(law, response), math.exp(index * _RATES)
    top, room = walk.log_moment(rate), -math.log(OUTSIDE)
    steps = [rate * share for share in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)]
    lowest = max((top - walk.log_moment(rate - t) - room) / t for t in steps)
    highest = min((walk.log_moment(rate + t) - top + room) / t for t in steps)
    if not math.isfinite(top + lowest + highest):
        raise _NoNumbersError
    first = math.floor(lowest / walk.interval) - 1
    last = math.ceil(highest / walk.interval) + 1
    size = 1 << max(last - first, 1).bit_length()
    if size > _MOST_POINTS:
        raise _NoNumbersError
    spectrum, dropped = _transform(walk, rate, top, size)
    n_steps, eta = law.n_steps, (8 * math.log2(size) + 40) * UNIT
    seen = np.roll(np.maximum(np.asarray(irfft(spectrum, size)), 0.0), -(first % size))
    error = math.expm1(n_steps * (eta + 8 * UNIT)) + (n_steps + 8) ** 2 * 8 * UNIT
    error = 1.01 * (error + eta * float(np.sqrt(seen @ seen)))
    reach = rate * float(np.abs(walk.losses).max()) + abs(top)
    factor = math.exp(UNIT * (64 + n_steps * (128 + len(walk.losses) + 16 * (reach + 750.0))))
    return Tilted(rate, top, walk.interval, first, seen, error, factor, dropped)


def _transform(walk: _Walk, rate: float, top: float, size: int) -> tuple[Complexes, float]:
    """The transform of the tilted law of L, and how much of that law was dropped."""
    tops = walk.log_moments(rate)
    with np.errstate(under="ignore", divide="ignore"):  # no mass stays none, however large its tilt
        tilted = np.exp(np.log(walk.masses) + rate * walk.losses[None, :] - tops[:, None])
    places = np.rint(walk.losses / walk.interval).astype(np.int64) % size
    phi = rfft(np.array([np.bincount(places, row, minlength=size) for row in tilted]), axis=1)
    growth = top / walk.law.n_steps
    hit = walk.law.colluders / walk.law.n_users * math.exp(-growth)
    terms = _terms(walk, tops, growth, hit)
    result = np.empty(size // 2 + 1, dtype=np.complex128)
    for begin in range(0, len(result), _BLOCK):
        some = slice(begin, begin + _BLOCK)
        cycles = terms.weights @ terms.products(phi[:, some])
        result[some] = _solved(cycles, terms.end, hit, walk.law.released)
    return result / terms.whole, terms.dropped


@dataclass(frozen=True)
class _Terms:
    """Different products of windows, phi_j^c, and the weight that each has in a cycle of each length."""

    window: Ints
    answers: Ints
    weights: csr_array
    end: Floats  # what an end that is not seen weighs
    whole: float  # the value of all terms at frequency 0
    dropped: float  # the share of it that is left out

    def products(self, phi: Complexes) -> Complexes:
        result = np.ones((len(self.window), phi.shape[1]), dtype=np.complex128)
        power = np.ones_like(phi)
        for times in range(1, int(self.answers.max()) + 1):
            power *= phi
            chosen = self.answers == times
            result[chosen] = power[self.window[chosen]]
        return result


def _terms(walk: _Walk, tops: Floats, growth: float, hit: float) -> _Terms:
    """All terms but those that weigh next to nothing."""
    law, rows = walk.law, walk.rows
    lengths = np.arange(law.n_steps + 1)
    log_s = log_share(law.n_users - law.colluders, law.n_users)
    length = np.repeat(rows.start, rows.size)
    answers = rows.count.astype(np.int64)
    with np.errstate(under="ignore", over="ignore"):
        weight = np.exp(rows.log_pmf + answers * tops[walk.window] + length * (log_s - growth))
        end = np.exp(lengths * (log_s - growth))
    if not weight.max() < _LARGEST_WEIGHT:
        raise _NoNumbersError
    kept = weight > _NEGLIGIBLE
    pairs, which = np.unique(
        np.stack([np.where(answers > 0, walk.window, 0), answers])[:, kept], axis=1, return_inverse=True
    )
    shape = (law.n_steps + 1, pairs.shape[1])
    weights = csr_array((weight[kept], (length[kept].astype(np.int64), which.ravel())), shape=shape)
    whole = float(_solved(np.bincount(length.astype(np.int64), weight)[:, None], end, hit, law.released)[0])
    found = float(_solved(np.asarray(weights.sum(axis=1))[:, None], end, hit, law.released)[0])
    if not 0 < whole < _LARGEST_WEIGHT:
        raise _NoNumbersError
    return _Terms(pairs[0], pairs[1], weights, end, whole, max(1 - found / whole, 0.0) + 1e-11)


def _solved(cycles: Any, end: Floats, hit: float, released: bool) -> Any:
    """value(T), at many frequencies: cycles[m] is what one of m steps weighs."""
    closing = cycles if released else np.broadcast_to(end[:, None], cycles.shape)
    value = np.empty_like(cycles)
    for t in range(len(cycles)):
        value[t] = closing[t] + hit * np.einsum("mf,mf->f", cycles[:t], value[:t][::-1])
    return value[-1]
