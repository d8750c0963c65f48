"""ln E exp(b S_uv) over the uniform walk of the complete graph: the moment behind every ex-ante bound.

Both tasks are renewal equations (THEORY.md#before-a-run)

    value(t) = sum over j < t of k(j) value(t - 1 - j) + end(t),      k(j) = weight(j) s^j,  end(t) = closing(t) s^t.

* Sum: a renewal is a visit of the observer (c colluders: probability p = c/n per step). s = 1 - p,
  weight(m) = p G(m) with G(m) = E exp(b C^2/m), C ~ Binomial(m, r), r = 1/(n-c); closing = G if released, else 1.
* SGD, backwards in time: a renewal is a visit of u or the observer. f(h) of THEORY.md#before-a-run, unrolled over h,
  gives s = 1 - (c+1)/n, weight(j) = (c + e^{b/(1+j)})/n, closing = 1, and value(T) = f(1), the released case. Not
  released, the first visit of the observer from the end opens it: f(inf) = sum_j (c/n) w^j value(T-1-j) + w^T, w = 1 -
  c/n.

Two ways to solve, both upper bounds:

* `_recursion`: step by step, for short walks.
* `_lundberg`: if sum_j k(j) x^(j+1) <= 1 at x = 1/growth, and constant * sum_{j >= t} k(j) x^(j+1) >= end(t) x^t for
  every t, then value(t) <= constant * growth^t, by induction. A closed form, for any length.

Long kernels are cut into blocks on which the weight is constant, rounded up. Beyond the last row of a sum's kernel,
it repeats: G(m + m') <= G(m) G(m'), for one more look in the middle of a cycle only adds to what is seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln

from network_dp.errors import require, require_whole

Floats = NDArray[np.float64]
Task = Literal["sum", "sgd"]

EXACT_STEPS = 4_000  # up to here every evaluation runs the recursion
RECURSION_STEPS = 30_000  # up to here the recursion refines the best orders found by the closed form
_ROWS = 1_500  # cycle lengths below this have a row each
_FINENESS = 2.0**-11  # relative length of a block beyond
_PERIODS = 20  # cycles longer than 20 / p have probability e^-20
_LEAST_DECAY = 0.05


@dataclass(frozen=True)
class Law:
    """The law of a walk: T steps, next holder uniform over n users, the observer being a set of c of them."""

    task: Task
    n_users: int
    n_steps: int
    colluders: int = 1
    released: bool = False

    def __post_init__(self) -> None:
        require(self.task in ("sum", "sgd"), f'task must be "sum" or "sgd", got {self.task!r}')
        require_whole("n_users", self.n_users, 2)
        require_whole("n_steps", self.n_steps)
        require_whole("colluders (the observer itself included)", self.colluders, 1)
        require(
            self.n_users > self.colluders,
            f"n_users must exceed colluders ({self.colluders}), got {self.n_users}: nobody is left to protect",
        )


@dataclass(frozen=True)
class Kernel:
    """weight(j), constant on blocks [start, stop); the last stop is infinite unless the kernel repeats."""

    log_s: float
    start: Floats
    stop: Floats
    log_weight: Floats
    log_closing: Floats
    log_repeat: float | None  # ln of the factor, without s, gained from one period to the next; period = last stop


def log_moment(law: Law, b: float, refine: bool = False) -> float:
    """An upper bound on ln E exp(b S_uv). `refine`: run the recursion for walks up to RECURSION_STEPS steps."""
    require(b > 0, f"b must be positive, got {b}")
    if law.n_steps == 0:
        return 0.0
    kernel = _sum_kernel(law, b) if law.task == "sum" else _sgd_kernel(law, b)
    return math.inf if kernel is None else solve(law, kernel, refine)


def solve(law: Law, kernel: Kernel, refine: bool) -> float:
    """ln value(T) of the renewal equation with that kernel, rounded up."""
    limit = RECURSION_STEPS if refine else EXACT_STEPS
    return _recursion(law, kernel) if law.n_steps <= limit else _lundberg(law, kernel)


# --- kernels


def _blocks(last: int) -> tuple[Floats, Floats]:
    """Starts and stops of blocks that cover 0 .. last - 1: one number each below _ROWS, then geometric."""
    ends = [np.arange(1, min(_ROWS, last) + 1)]
    if last > _ROWS:
        count = math.ceil(math.log(last / _ROWS) / math.log1p(_FINENESS)) + 1
        ends.append(np.minimum(np.ceil(_ROWS * (1 + _FINENESS) ** np.arange(1, count + 1)), last).astype(np.int64))
    stop = np.unique(np.concatenate(ends)).astype(np.float64)
    return np.concatenate([[0.0], stop[:-1]]), stop


def _sgd_kernel(law: Law, b: float) -> Kernel:
    n, c = law.n_users, law.colluders
    start, stop = _blocks(law.n_steps)
    stop = np.append(stop[:-1], np.inf)
    log_weight = np.logaddexp(math.log(c), b / (1 + start)) - math.log(n)
    # max: with s = 0 nothing changes but a vanishing, upward, rounding
    return Kernel(math.log(max(1 - (c + 1) / n, 1e-300)), start, stop, log_weight, np.zeros_like(start), None)


@dataclass(frozen=True)
class Rows:
    """Binomial terms P(C = c), one row per block of cycle lengths; a row's terms are contiguous.

    A block [start, stop) is served by its longest cycle, stop - 1, for the law of C and by its shortest for the gain.
    """

    start: Floats
    stop: Floats
    first_term: NDArray[np.int64]
    size: NDArray[np.int64]
    log_pmf: Floats
    count: Floats  # c of each term
    longest: Floats  # longest cycle of the block


@lru_cache(maxsize=4)
def binomial_rows(rate: float, last: int) -> Rows:
    start, stop = _blocks(last)
    longest = stop - 1
    # complete rows, c = 0 .. m, if all are short; else cut where the rest is both small and easy to bound
    cut = np.inf if last <= _ROWS else np.maximum(300, np.ceil(12.2 * longest * rate))
    counts = np.minimum(longest + 1, cut).astype(np.int64)
    first_term = np.concatenate([[0], np.cumsum(counts)[:-1]])
    m = np.repeat(longest, counts)
    c = (np.arange(len(m)) - np.repeat(first_term, counts)).astype(np.float64)
    log_miss = math.log(max(1 - rate, 1e-300))
    log_factorial = gammaln(np.arange(1.0, counts.max() + 2))
    log_choose = np.repeat(gammaln(longest + 1), counts) - log_factorial[c.astype(np.int64)] - gammaln(m - c + 1)
    log_pmf = log_choose + c * math.log(rate) + (m - c) * log_miss
    return Rows(start, stop, first_term, counts, log_pmf, c, longest)


def cycle_rows(law: Law) -> Rows:
    """Rows for the number of u's steps in a cycle of the observer, as long as the walk or as cycles ever get."""
    horizon = _horizon(law)
    return binomial_rows(1 / (law.n_users - law.colluders), min(horizon, law.n_steps + 1))


def _horizon(law: Law) -> int:
    return max(_ROWS, math.ceil(_PERIODS * law.n_users / law.colluders))


def _sum_kernel(law: Law, b: float) -> Kernel | None:
    """None where the terms left out of a row cannot be bounded: b is beyond what any useful order needs."""
    rows = cycle_rows(law)
    tails = _log_row_tails(rows, 1 / (law.n_users - law.colluders), b)
    if tails is None:
        return None
    shortest = np.repeat(np.maximum(rows.start, 1.0), rows.size)
    return cycle_kernel(law, rows, b * rows.count**2 / shortest, tails)


def cycle_kernel(law: Law, rows: Rows, gains: Floats, log_tails: Floats) -> Kernel:
    """The kernel of independent cycles: G(m) = E exp(gain), plus a bound on the terms that rows leave out.

    Walks longer than the horizon repeat the rows: an observer that looks once more in the middle of a cycle learns
    more, so G(m + m') may be replaced by G(m) G(m').
    """
    terms = rows.log_pmf + gains
    top = np.maximum.reduceat(terms, rows.first_term)
    terms -= np.repeat(top, rows.size)
    with np.errstate(under="ignore"):
        log_g = top + np.log(np.add.reduceat(np.exp(terms, out=terms), rows.first_term))
    log_g = np.logaddexp(log_g, log_tails)
    stop, log_repeat = rows.stop, None
    if law.n_steps >= _horizon(law):
        # G(period) <= G(period - 1) G(1), and the last block holds period - 1
        log_repeat = float(log_g[-1] + log_g[1])
    else:
        stop = np.append(stop[:-1], np.inf)
    hit = law.colluders / law.n_users
    closing = log_g if law.released else np.zeros_like(log_g)
    return Kernel(math.log1p(-hit), rows.start, stop, log_g + math.log(hit), closing, log_repeat)


def _log_row_tails(rows: Rows, rate: float, b: float) -> Floats | None:
    """ln of a bound on the terms c >= size of each row.

    P(C = c) <= exp(-m r - c (ln(c/(m r)) - 1)) (Chernoff), so a term is at most e^{-m r - c phi(c)} with
    phi(c) = ln(c/(m r)) - 1 - b c/m', concave in c: at least its value at one end of the range. Geometric series.
    """
    tails = np.full(len(rows.start), -np.inf)
    cut = rows.size <= rows.longest
    if not cut.any():
        return tails
    m, shortest, first = rows.longest[cut], rows.start[cut], rows.size[cut].astype(np.float64)
    ends = [np.log(c / (m * rate)) - 1 - b * c / shortest for c in (first, m)]
    decay = np.minimum(ends[0], ends[1])
    if float(decay.min()) < _LEAST_DECAY:
        return None
    tails[cut] = -m * rate - first * decay - np.log(-np.expm1(-decay))
    return tails


# --- solutions


def _recursion(law: Law, kernel: Kernel) -> float:
    """The renewal equation step by step, tilted by the growth of the closed form so that nothing overflows."""
    n_steps = law.n_steps
    log_growth = _log_growth(kernel)
    j = np.arange(n_steps + 1, dtype=np.float64)
    block = np.searchsorted(kernel.stop, j, side="right")
    if kernel.log_repeat is None:
        weight, closing = kernel.log_weight[block], kernel.log_closing[block]
    else:
        period = kernel.stop[-1]
        times, rest = np.divmod(j, period)
        block = np.searchsorted(kernel.stop, rest, side="right")
        weight = kernel.log_weight[block] + times * kernel.log_repeat
        closing = kernel.log_closing[block] + times * kernel.log_repeat
    with np.errstate(under="ignore"):
        k = np.exp(weight + j * kernel.log_s - (j + 1) * log_growth)
        end = np.exp(closing + j * kernel.log_s - j * log_growth)
        value = np.empty(n_steps + 1)
        backwards = k[::-1].copy()
        for t in range(n_steps + 1):
            value[t] = _dot(backwards[n_steps + 1 - t :], value[:t]) + end[t]
        if law.task == "sgd" and not law.released:
            miss = math.log1p(-law.colluders / law.n_users)
            opening = np.exp(math.log(law.colluders / law.n_users) + j[:-1] * miss - (j[:-1] + 1) * log_growth)
            final = float(opening @ value[n_steps - 1 :: -1]) + math.exp(n_steps * (miss - log_growth))
        else:
            final = float(value[n_steps])
    if final < 1e-280:  # so strong a tilt that terms underflowed: an order that no short walk needs
        return _lundberg(law, kernel)
    # every operation rounds by at most 2^-53, all terms are positive: 1e-11 covers n_steps of them
    return max(math.log(final) + n_steps * log_growth + 1e-11, 0.0)


def _dot(left: Floats, right: Floats) -> float:
    """Dot product in pieces that BLAS keeps on one core: waking threads for each step costs ten times more."""
    return sum(float(left[a : a + 8_000] @ right[a : a + 8_000]) for a in range(0, len(right), 8_000))


def _log_series(kernel: Kernel, log_growth: float) -> Floats:
    """ln of the sum over each block of k(j) growth^-(j+1), a repeating kernel's later periods left out."""
    log_x = kernel.log_s - log_growth
    lengths = kernel.stop - kernel.start
    with np.errstate(under="ignore"):
        log_geometric = kernel.start * log_x + np.log(-np.expm1(lengths * log_x)) - math.log(-math.expm1(log_x))
    return kernel.log_weight + log_geometric - log_growth


def _log_period(kernel: Kernel, log_growth: float) -> float:
    """ln of the factor from one period to the next."""
    if kernel.log_repeat is None:
        return -math.inf
    return kernel.log_repeat + float(kernel.stop[-1]) * (kernel.log_s - log_growth)


def _log_total(kernel: Kernel, log_growth: float) -> float:
    ratio = _log_period(kernel, log_growth)
    if ratio >= 0:
        return math.inf
    series = _log_series(kernel, log_growth)
    top = float(series.max())
    with np.errstate(under="ignore"):
        total = top + math.log(float(np.exp(series - top).sum()))
    return total - math.log1p(-math.exp(ratio))


def _log_growth(kernel: Kernel) -> float:
    """ln of the least growth at which the kernel sums to at most 1 (rounded up)."""

    def total(log_growth: float) -> float:
        return min(_log_total(kernel, log_growth), 1e6)

    low, high = 0.0, 1e-12
    while total(high) > 0:
        low, high = high, high * 4
    root = float(brentq(total, low, high, xtol=1e-300, rtol=1e-13)) if total(low) > 0 else low
    while total(root) > 0 and root < high:
        root = min(root * (1 + 1e-9) + 1e-18, high)
    return root


def _lundberg(law: Law, kernel: Kernel) -> float:
    log_growth = _log_growth(kernel)
    log_x = kernel.log_s - log_growth
    series = _log_series(kernel, log_growth)
    later = np.append(np.logaddexp.accumulate(series[::-1])[::-1][1:], -np.inf)
    ratio = _log_period(kernel, log_growth)
    if ratio > -math.inf:  # all later periods together, seen from the end of this one
        whole = float(np.logaddexp.reduce(series)) + ratio - math.log1p(-math.exp(ratio))
        later = np.logaddexp(later, whole)
    # end(t) x^t / sum_{j >= t} is monotone inside a block: its ends are enough
    constant = -math.inf
    last_of_block = np.where(np.isinf(kernel.stop), kernel.start, kernel.stop - 1)
    for t in (kernel.start, last_of_block):
        with np.errstate(under="ignore"):
            rest = kernel.log_weight + np.log(-np.expm1((kernel.stop - t) * log_x)) + t * log_x
        tail = np.logaddexp(rest - math.log(-math.expm1(log_x)) - log_growth, later)
        constant = max(constant, float(np.max(kernel.log_closing + t * log_x - tail)))
    bound = constant + law.n_steps * log_growth
    if law.task == "sgd" and not law.released:
        hit, miss = law.colluders / law.n_users, math.log1p(-law.colluders / law.n_users)
        # sum over j >= 0 of hit miss^j growth^-(j+1) = hit / (growth - miss)
        opening = math.log(hit) - log_growth - math.log(-math.expm1(-log_growth) + hit * math.exp(-log_growth))
        bound = float(np.logaddexp(bound + opening, law.n_steps * miss))
    return max(bound + 1e-11, 0.0)
