"""ln E exp(b S_uv) over the uniform walk of the complete graph: the moment behind every ex-ante bound.

A walk is a renewal process (`renewal`): it starts anew whenever the observer, c colluders, holds the token, which has
probability hit = c/n per step. With s = 1 - hit and C ~ Binomial(m, 1/(n-c)) of a cycle's m steps u's,

* sum: a cycle weighs g(m) = G(m) = E exp(b C^2/m);
* SGD: it weighs the moment of the least energy, whose law the faces of a convex minorant have (`minorant`):
  sum_m g(m) z^m = exp(sum_l G(l) z^l / l). Exact, too.

Rounding is upward: a kernel is built from floats that are at least its exact weights (each formula's error, a few u
times the size of its terms, is added), which can only raise the solution.

Long kernels are cut into blocks on which the weight is constant, rounded up. Beyond the last row a kernel repeats:
G(m + m') <= G(m) G(m'), for one more look in the middle of a cycle only adds to what is seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from network_dp.accounting import minorant, renewal
from network_dp.accounting.renewal import Kernel
from network_dp.accounting.rounding import UNIT
from network_dp.errors import require, require_whole

Floats = NDArray[np.float64]
Task = Literal["sum", "sgd"]

EXACT_STEPS = 4_000  # up to here every evaluation runs the recursion
RECURSION_STEPS = 30_000  # up to here the recursion refines the best orders found by the closed form
_ROWS = 1_500  # cycle lengths below this have a row each
_FINENESS = 2.0**-11  # relative length of a block beyond
_PERIODS = 20  # cycles longer than 20 / p have probability e^-20
_LEAST_DECAY = 0.05
_LOG_TINY = -690.0  # ln of what stands for nothing: rounding 0 up


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


def log_moment(law: Law, b: float, refine: bool = False) -> float:
    """An upper bound on ln E exp(b S_uv). `refine`: run the recursion for walks up to RECURSION_STEPS steps."""
    require(b > 0, f"b must be positive, got {b}")
    if law.n_steps == 0:
        return 0.0
    kernel = _kernel(law, b)
    return math.inf if kernel is None else solve(law, kernel, refine)


def solve(law: Law, kernel: Kernel, refine: bool) -> float:
    """ln value(T) of the renewal equation with that kernel, of the task's cycles, rounded up."""
    short = law.n_steps <= (RECURSION_STEPS if refine else EXACT_STEPS)
    if law.task == "sgd":
        return (minorant.recursion if short else minorant.closed_form)(kernel, law.n_steps)
    return (renewal.recursion if short else renewal.closed_form)(kernel, law.n_steps)


def _blocks(last: int) -> tuple[Floats, Floats]:
    """Starts and stops of blocks that cover 0 .. last - 1: one number each below _ROWS, then geometric."""
    ends = [np.arange(1, min(_ROWS, last) + 1)]
    if last > _ROWS:
        count = math.ceil(math.log(last / _ROWS) / math.log1p(_FINENESS)) + 1
        ends.append(np.minimum(np.ceil(_ROWS * (1 + _FINENESS) ** np.arange(1, count + 1)), last).astype(np.int64))
    stop = np.unique(np.concatenate(ends)).astype(np.float64)
    return np.concatenate([[0.0], stop[:-1]]), stop


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
    """P(C = c) for C ~ Binomial(m, rate), m up to `last`, cut where the rest is bounded."""
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


def _kernel(law: Law, b: float) -> Kernel | None:
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
    log_hit, log_miss = log_share(law.colluders, law.n_users), log_share(law.n_users - law.colluders, law.n_users)
    return Kernel(log_miss, log_hit, rows.start, stop, log_g, law.released, log_repeat)


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
