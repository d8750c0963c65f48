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

Rounding is upward: a kernel is built from floats that are at least its exact weights (each formula's error, a few u
times the size of its terms, is added), which can only raise the solution; the solutions then add the error of their own
operations on those floats.

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

from network_dp.errors import require, require_whole
from network_dp.rounding import UNIT, halving_sum

Floats = NDArray[np.float64]
Task = Literal["sum", "sgd"]

EXACT_STEPS = 4_000  # up to here every evaluation runs the recursion
RECURSION_STEPS = 30_000  # up to here the recursion refines the best orders found by the closed form
_ROWS = 1_500  # cycle lengths below this have a row each
_FINENESS = 2.0**-11  # relative length of a block beyond
_PERIODS = 20  # cycles longer than 20 / p have probability e^-20
_LEAST_DECAY = 0.05
_LOG_TINY = -690.0  # ln of what stands for nothing: rounding 0 up
_LARGEST_EXPONENT = 600.0  # e to this is still a number, and so are thousands of them


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
    log_weight += 16 * UNIT * (1 + math.log(c) + b / (1 + start) + math.log(n))
    return Kernel(log_share(n - c - 1, n), start, stop, log_weight, np.zeros_like(start), None)


def log_share(part: int, whole: int) -> float:
    """ln(part / whole) <= 0, rounded up. By log1p for more than a half: the relative error is then below 16 u."""
    if part == 0:
        return _LOG_TINY
    missing = (whole - part) / whole
    value = math.log1p(-missing) if missing < 0.5 else math.log(part / whole)
    return value * (1 - 16 * UNIT)


@dataclass(frozen=True)
class Rows:
    """Binomial terms P(C = c), rounded up, one row per block of cycle lengths; a row's terms are contiguous.

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
    c = (np.arange(counts.sum()) - np.repeat(first_term, counts)).astype(np.float64)
    each = zip(longest.tolist(), counts.tolist(), strict=True)
    log_pmf = np.concatenate([_log_binomial(m, rate, count) for m, count in each])
    return Rows(start, stop, first_term, counts, log_pmf, c, longest)


def _log_binomial(m: float, rate: float, count: int) -> Floats:
    """ln P(C = c), c < count, of Binomial(m, rate), rounded up.

    ln (1-r)^m and the logarithms l_i of the ratios (m-i) r / ((i+1) (1-r)) add up to it. With partial sums s_i the
    error is at most u (16 |s_0| + sum of (16 + 16 |l_i| + |s_i|)): each l_i is the logarithm of four operations, each
    addition rounds. No factorials, whose logarithms are a thousand times larger and cancel.
    """
    if rate == 1.0:
        return np.where(np.arange(count) == m, 0.0, -np.inf)
    i = np.arange(count - 1, dtype=np.float64)
    steps = np.log((m - i) / (i + 1) * (rate / (1 - rate)))
    sums = np.cumsum(np.concatenate([[m * math.log1p(-rate)], steps]))
    error = np.abs(sums) + np.concatenate([[16 * abs(sums[0])], 16 + 16 * np.abs(steps)])
    return np.asarray(sums + 1.01 * UNIT * np.cumsum(error), dtype=np.float64)


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
    # the gain is three operations, the sum one; minus infinity stays
    terms += 8 * UNIT * np.where(np.isfinite(terms), np.abs(gains) + np.abs(terms), 0.0)
    top = np.maximum.reduceat(terms, rows.first_term)
    terms -= np.repeat(top, rows.size)
    terms *= 1 - 8 * UNIT  # exponents <= 0, and their rounding
    with np.errstate(under="ignore"):
        log_g = top + np.log(np.add.reduceat(np.exp(terms, out=terms), rows.first_term))
    log_g = np.logaddexp(log_g, log_tails)
    log_g += UNIT * (64 + rows.size + 16 * np.abs(log_g))  # a sum of so many terms, in any order, and its logarithm
    stop, log_repeat = rows.stop, None
    if law.n_steps >= _horizon(law):
        # G(period) <= G(period - 1) G(1), and the last block holds period - 1
        log_repeat = float(log_g[-1] + log_g[1]) * (1 + 4 * UNIT)
    else:
        stop = np.append(stop[:-1], np.inf)
    log_hit = log_share(law.colluders, law.n_users)
    weight = log_g + log_hit + 4 * UNIT * (np.abs(log_g) - log_hit)
    closing = log_g if law.released else np.zeros_like(log_g)
    log_miss = log_share(law.n_users - law.colluders, law.n_users)
    return Kernel(log_miss, rows.start, stop, weight, closing, log_repeat)


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
    tails[cut] = -m * rate - first * decay - np.log(-np.expm1(-decay)) + 1e-9  # 1e-9: far above its rounding
    return tails


# --- solutions


def _recursion(law: Law, kernel: Kernel) -> float:
    """The renewal equation step by step, tilted by the growth of the closed form so that nothing overflows.

    All terms are positive. A value is a dot product of at most T terms and one addition: a relative error of (T + 4) u,
    in any order of summation, and a walk has at most T renewals, so that (T + 4)^2 u covers them all.
    """
    n_steps = law.n_steps
    log_growth = _log_growth(kernel)
    j = np.arange(n_steps + 1, dtype=np.float64)
    weight, closing = _by_length(kernel, j)
    drift = j * kernel.log_s
    to_visit, to_end = weight + drift - (j + 1) * log_growth, closing + drift - j * log_growth
    for exponent, size in ((to_visit, weight), (to_end, closing)):
        exponent += 8 * UNIT * (np.abs(size) - drift + (j + 1) * log_growth)
    if max(float(to_visit.max()), float(to_end.max())) > _LARGEST_EXPONENT:  # an order that no useful bound needs
        return _lundberg(law, kernel)
    with np.errstate(under="ignore"):
        k, end = np.exp(to_visit) * (1 + 16 * UNIT), np.exp(to_end) * (1 + 16 * UNIT)
        value = np.empty(n_steps + 1)
        backwards = k[::-1].copy()
        for t in range(n_steps + 1):
            value[t] = _dot(backwards[n_steps + 1 - t :], value[:t]) + end[t]
        final = float(value[n_steps]) if law.released or law.task == "sum" else _opened(law, value, log_growth)
    if not 1e-280 < final < math.inf:  # so strong a tilt that terms underflowed: an order that no short walk needs
        return _lundberg(law, kernel)
    total = n_steps * log_growth
    return max(
        math.log(final) + total + UNIT * (64 + 1.01 * (n_steps + 4) ** 2 + 4 * (total + abs(math.log(final)))), 0.0
    )


def _by_length(kernel: Kernel, j: Floats) -> tuple[Floats, Floats]:
    """ln of weight and closing of every length."""
    if kernel.log_repeat is None:
        block = np.searchsorted(kernel.stop, j, side="right")
        return kernel.log_weight[block], kernel.log_closing[block]
    times, rest = np.divmod(j, kernel.stop[-1])
    block, gained = np.searchsorted(kernel.stop, rest, side="right"), times * kernel.log_repeat
    slack = 4 * UNIT * (np.abs(gained) + np.abs(kernel.log_weight[block]))
    return kernel.log_weight[block] + gained + slack, kernel.log_closing[block] + gained + slack


def _opened(law: Law, value: Floats, log_growth: float) -> float:
    """SGD, not released: the first visit of the observer from the end opens the recursion. Tilted as the values are."""
    j = np.arange(law.n_steps, dtype=np.float64)
    log_hit, log_miss = log_share(law.colluders, law.n_users), log_share(law.n_users - law.colluders, law.n_users)
    exponent = log_hit + j * log_miss - (j + 1) * log_growth
    opening = np.exp(exponent * (1 - 16 * UNIT)) * (1 + 16 * UNIT)
    never = math.exp(law.n_steps * (log_miss - log_growth) * (1 - 16 * UNIT))
    return (float(opening @ value[law.n_steps - 1 :: -1]) + never) * (1 + 16 * UNIT)


def _dot(left: Floats, right: Floats) -> float:
    """Dot product in pieces that BLAS keeps on one core: waking threads for each step costs ten times more."""
    return sum(float(left[a : a + 8_000] @ right[a : a + 8_000]) for a in range(0, len(right), 8_000))


def _log_series(kernel: Kernel, log_growth: float) -> tuple[Floats, Floats]:
    """ln of the sum over each block of k(j) growth^-(j+1), a repeating kernel's later periods left out; and its error.

    The sum is geometric. Its logarithm adds terms that are each good to a few u of their size: 16 u of all sizes."""
    log_x = kernel.log_s - log_growth
    lengths = kernel.stop - kernel.start
    with np.errstate(under="ignore"):
        first, cut, each = kernel.start * log_x, np.log(-np.expm1(lengths * log_x)), math.log(-math.expm1(log_x))
    series = kernel.log_weight + (first + cut - each) - log_growth
    return series, 16 * UNIT * (2 + np.abs(kernel.log_weight) - first - cut + abs(each) + log_growth)


def _log_period(kernel: Kernel, log_growth: float) -> float:
    """ln of the factor from one period to the next, rounded up."""
    if kernel.log_repeat is None:
        return -math.inf
    decay = float(kernel.stop[-1]) * (kernel.log_s - log_growth)
    return kernel.log_repeat + decay + 8 * UNIT * (kernel.log_repeat - decay)


def _log_total(kernel: Kernel, log_growth: float) -> float:
    """ln of the sum of k(j) growth^-(j+1), rounded up."""
    ratio = _log_period(kernel, log_growth)
    if ratio >= 0:
        return math.inf
    series, error = _log_series(kernel, log_growth)
    series += error
    top = float(series.max())
    with np.errstate(under="ignore"):
        terms = np.exp((series - top) * (1 - 8 * UNIT))
    total = top + math.log(float(halving_sum(terms)[0]))
    later = -math.log1p(-math.exp(ratio))
    return total + later + UNIT * (64 + 4 * abs(top) + 16 * later)


def _log_growth(kernel: Kernel) -> float:
    """ln of a growth at which the kernel sums to at most 1: the least, but for rounding."""

    def total(log_growth: float) -> float:
        return min(_log_total(kernel, log_growth), 1e6)

    low, high = 0.0, 1e-12
    while total(high) > 0:
        low, high = high, high * 4
    root = float(brentq(total, low, high, xtol=1e-300, rtol=1e-13)) if total(low) > 0 else low
    step = max(root * 1e-15, 1e-24)
    while total(root) > 0 and root < high:
        root, step = min(root + step, high), 2 * step
    return root


def _lundberg(law: Law, kernel: Kernel) -> float:
    log_growth = _log_growth(kernel)
    constant = _log_constant(kernel, log_growth)
    total = law.n_steps * log_growth
    bound = constant + total + 4 * UNIT * (abs(constant) + total)
    if law.task == "sgd" and not law.released:
        log_hit, log_miss = log_share(law.colluders, law.n_users), log_share(law.n_users - law.colluders, law.n_users)
        # sum over j >= 0 of hit miss^j growth^-(j+1) = hit / (growth - miss) = hit / ((growth - 1) + (1 - miss))
        opening = log_hit - math.log(math.expm1(log_growth) - math.expm1(log_miss)) if log_growth < 700 else -log_growth
        bound = float(np.logaddexp(bound + opening + 32 * UNIT * (1 + abs(opening) - log_hit), law.n_steps * log_miss))
    return max(bound + UNIT * (64 + 16 * abs(bound)), 0.0)


def _log_constant(kernel: Kernel, log_growth: float) -> float:
    """ln of a constant with constant * sum_{j >= t} k(j) x^(j+1) >= end(t) x^t for every t, rounded up."""
    log_x = kernel.log_s - log_growth
    each = math.log(-math.expm1(log_x))
    if kernel.log_repeat is None and not kernel.log_closing.any() and (np.diff(kernel.log_weight) <= 0).all():
        # No later weight is below the last: the sum is at least that of a geometric series, whatever t.
        last = float(kernel.log_weight[-1])
        return each + log_growth - last + 32 * UNIT * (1 + abs(each) + log_growth + abs(last))
    series, error = _log_series(kernel, log_growth)
    later = np.append(np.logaddexp.accumulate((series - error)[::-1])[::-1][1:], -np.inf)
    ratio = _log_period(kernel, log_growth)
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
