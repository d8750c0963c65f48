"""L-ary randomised response among the answers of others: the pair of distributions that dominates it.

RR_gamma answers truly with probability 1 - gamma, else uniformly. An observer that sees the histogram of u's answer
and of j others learns at most what it would learn if all answers that were NOT uniform were pointed out to it (Balle
et al. 2019, privacy blanket; Feldman, McMillan & Talwar 2021, 2023, clones). What is left is u's answer among B
uniform ones, B ~ Binomial(j, gamma). With U the law of the histogram of B + 1 uniform answers, and x, x' the two
values of u,

    P(h) = U(h) (gamma + (1 - gamma) L h_x / (B + 1)),      Q(h) = U(h) (gamma + (1 - gamma) L h_x' / (B + 1)).

So the pair depends on (h_x, h_x') only, and P and Q play symmetric roles. B = 0 is plain randomised response. More
uniform answers only hide better (they can be added by post-processing), so rounding B or j down is safe.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, gammaln, xlogy

from network_dp.errors import require

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_TAIL = 1e-22  # probability left out on each side of a truncated range, and accounted for at its worst
_UPWARDS = 1 + 1e-9  # far beyond the rounding of logarithms of factorials below 2^16
_TAILS_UPWARDS = 1 + 1e-9  # tails of a binomial law were found 1e-10 too small
_CELLS = 3_000_000  # cells of one window; beyond, the number of uniform answers is rounded down to a coarser grid


@dataclass(frozen=True)
class Response:
    """L-ary randomised response."""

    n_buckets: int
    gamma: float

    def __post_init__(self) -> None:
        require(self.n_buckets >= 2, f"n_buckets must be at least 2, got {self.n_buckets}")
        require(0 <= self.gamma <= 1, f"gamma must lie in [0, 1], got {self.gamma}")

    @property
    def epsilon(self) -> float:
        """epsilon_0 of local DP: ln(1 + L (1 - gamma)/gamma)."""
        return math.inf if self.gamma == 0 else math.log1p(self.n_buckets * (1 - self.gamma) / self.gamma)


@dataclass(frozen=True)
class Window:
    """u's answer among `others` answers of other users and `uniform` uniform elements."""

    others: int
    uniform: int = 0


class Losses(NamedTuple):
    """Privacy losses ln(P/Q) of a window, rounded up to multiples of the interval."""

    lowest: int
    probabilities: Floats
    infinite: float


def round_down(others: int, bits: int = 6) -> int:
    """A number rounded down to so many bits: few different windows, with 6 at most 3 % fewer others."""
    shift = max(others.bit_length() - bits, 0)
    return others >> shift << shift


def round_all_down(others: Ints, bits: int = 6) -> Ints:
    """``round_down`` of many numbers (below 2^53) at once."""
    shift = np.maximum(np.frexp(others.astype(np.float64))[1] - bits, 0)
    return np.asarray(others >> shift << shift, dtype=np.int64)


def window_losses(response: Response, window: Window, interval: float) -> Losses:
    """The privacy-loss distribution of one window, rounded up; what was left out counts as an infinite loss."""
    half = math.ceil(response.epsilon / interval) + 1
    probabilities, infinite = np.zeros(2 * half + 1), 0.0
    for weight, blanket in _blankets(response, window):
        table = _table(response, blanket)
        losses = table.by_rows(np.log(table.p)) - np.log(table.q)
        index = np.ceil(losses / interval).astype(np.int64) + half
        masses = table.u * table.by_rows(table.p)
        probabilities += weight * np.bincount(index.ravel(), masses.ravel(), minlength=2 * half + 1)
        infinite += weight * table.left_out * response.n_buckets
    return Losses(-half, probabilities, infinite)


def log_moments(response: Response, orders: Floats, others: Ints) -> Floats:
    """ln sum P^alpha Q^(1-alpha) for every order (rows) and number of others (columns, increasing): upper bounds.

    The number B of uniform answers is rounded down to 6 bits, so that few pairs serve all columns.
    """
    grid, weights = _rounded_blankets(response.gamma, tuple(others.tolist()))
    by_blanket = np.array([_pair_moments(response, orders, b) for b in grid]).T
    usable = np.isfinite(by_blanket).all(axis=1)
    result = np.full((len(orders), len(others)), np.inf)
    result[usable] = np.log(by_blanket[usable] @ weights.T)
    return result


@lru_cache(maxsize=4)
def _rounded_blankets(gamma: float, others: tuple[int, ...]) -> tuple[list[int], Floats]:
    """Numbers of uniform answers, and how probable each is among so many others (rows), rounded up.

    Differences of the smaller of the two tails: however rare few uniform answers are, they are known to 1e-11 of the
    tail that ends there. What moments of high orders make of them would drown in any absolute error."""
    trials = np.array(others)[:, None]
    _, most = _range(others[-1], gamma)
    grid = np.unique(round_all_down(np.arange(most + 1)))
    starts = np.minimum(grid, trials + 1) - 1.0  # B > start, for B >= a number of the grid
    inside = np.clip(starts, 0.0, None)
    below = np.where(starts >= 0, bdtr(inside, trials, gamma), 0.0)
    above = np.where(starts >= 0, bdtrc(inside, trials, gamma), 1.0)
    below, above = np.pad(below, ((0, 0), (0, 1)), constant_values=1.0), np.pad(above, ((0, 0), (0, 1)))
    rising = below[:, 1:] * _TAILS_UPWARDS - below[:, :-1]
    falling = above[:, :-1] * _TAILS_UPWARDS - above[:, 1:]
    return grid.tolist(), np.where(below[:, 1:] <= 0.5, rising, falling)


@dataclass(frozen=True)
class _Table:
    """The pair for a fixed B. U is a matrix over (h_x, h_x'), or for L = 2, where h_x' = B + 1 - h_x, a vector.

    P/U depends on h_x only and Q/U on h_x' only; both are at most L.
    """

    u: Floats
    p: Floats
    q: Floats
    left_out: float

    def by_rows(self, values: Floats) -> Floats:
        """A function of h_x, shaped to be broadcast over U."""
        return values[:, None] if self.u.ndim == 2 else values


def _range(trials: int, probability: float) -> tuple[int, int]:
    """Where Binomial(trials, probability) lies but for _TAIL on each side (Bernstein's inequality)."""
    log_tail = -math.log(_TAIL)
    reach = log_tail / 3 + math.sqrt(log_tail**2 / 9 + 2 * log_tail * trials * probability * (1 - probability))
    middle = trials * probability
    return max(0, math.floor(middle - reach)), min(trials, math.ceil(middle + reach))


def _table(response: Response, blanket: int) -> _Table:
    total, buckets = blanket + 1, response.n_buckets
    low, high = _range(total, 1 / buckets)
    mine = np.arange(low, high + 1)
    other = mine if buckets > 2 else total - mine
    log_factorial = gammaln(np.arange(1.0, total + 2))
    if buckets > 2:
        # ln of (L-2)^rest / rest! by rest; minus infinity where h_x + h_x' would exceed the total
        by_rest = np.arange(total + 1) * math.log(buckets - 2) - log_factorial
        rest = total - mine[:, None] - mine[None, :]
        log_u = np.where(rest >= 0, by_rest[np.maximum(rest, 0)], -np.inf)
        log_u -= log_factorial[mine][:, None] + log_factorial[mine][None, :]
    else:
        log_u = -log_factorial[mine] - log_factorial[other]
    with np.errstate(under="ignore"):
        u = np.exp(log_u + log_factorial[total] - total * math.log(buckets))
    scale = (1 - response.gamma) * buckets / total
    left_out = 0.0 if low == 0 and high == total else 4 * _TAIL
    p, q = (np.asarray(response.gamma + scale * counts, dtype=np.float64) for counts in (mine, other))
    return _Table(u, p, q, left_out)


def _blankets(response: Response, window: Window) -> Iterator[tuple[float, int]]:
    """(probability, number of uniform answers), rounded down to a grid that keeps the tables small."""
    from scipy.stats import binom

    low, high = _range(window.others, response.gamma)
    first, last = _range(high + window.uniform + 1, 1 / response.n_buckets)
    cells = float(last - first + 1) ** (1 if response.n_buckets == 2 else 2)
    points = max(24, min(high - low + 1, int(_CELLS / cells)))
    grid = np.unique(np.linspace(low, high + 1, points + 1).astype(np.int64))
    yield 2 * _TAIL, window.uniform  # both tails, as if nobody else had answered uniformly
    for begin, stop in itertools.pairwise(grid):
        weight = float(binom.pmf(np.arange(begin, stop), window.others, response.gamma).sum())
        if weight > 0:
            yield weight, int(begin) + window.uniform


def _pair_moments(response: Response, orders: Floats, blanket: int) -> Floats:
    """sum U (P/U)^alpha (Q/U)^(1-alpha) for a fixed B. The cells of U are independent Poisson counts, given their sum:
    so the double sum over (h_x, h_x') is a convolution, taken where the other cells make up the total."""
    total, buckets = blanket + 1, response.n_buckets
    low, high = _range(total, 1 / buckets)
    mine, both = np.arange(low, high + 1), np.arange(2 * low, 2 * high + 1)
    exponent = np.minimum(orders, 1 + 600 / response.epsilon)  # beyond, infinity is returned
    share = response.gamma + (1 - response.gamma) * buckets / total * mine
    with np.errstate(under="ignore"):
        cell = _poisson(mine, total / buckets)
        rest = np.where(both <= total, _poisson(np.maximum(total - both, 0), total * (buckets - 2) / buckets), 0.0)
        sums = [np.convolve(share**a * cell, share ** (1 - a) * cell) @ rest for a in exponent]
        inside = np.array(sums) / _poisson(np.array([total]), total)[0] * _UPWARDS
        worst = np.exp((exponent - 1) * response.epsilon) * buckets
    left_out = 0.0 if low == 0 and high == total else 4 * _TAIL
    return np.where(orders > exponent, np.inf, inside + left_out * worst)


def _poisson(counts: Ints, mean: float) -> Floats:
    return np.asarray(np.exp(xlogy(counts, mean) - mean - gammaln(counts + 1.0)), dtype=np.float64)
