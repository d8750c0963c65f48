"""Moments of all pairs of a large graph by one growth rate per pair: upper bounds, any length (THEORY.md#graph-growth).

For a reversible walk from its stationary law. Let W(x) = sum of W(m) x^m be the weighted kernel from one visit of v to
the next (`graph_walk`: pieces that weigh e^{b c^2/m}), and Phi the one from the start to the first visit. If
W(x) <= 1, the moment after T steps is at most

    x^-T C Phi(x),     C = max over w of 1 / E_w[x^(steps until v)],

by induction over T: what is still open after t steps is at most C times what it adds once it gets to v. All series are
needed at a few real points 0 < z < 1 only, where they are rational in the Green function G(z) = (I - zP)^-1:

* e^{B/m} - 1 is completely monotone in m, so that (e^{B/m} - 1) x^m is fitted from above by positive sums of z_j^m;
  sum_m f(m) e^{B/m} x^m then is f(x) + sum_j d_j f(z_j).
* A power series with nonnegative coefficients is log-convex in ln x: between two points it lies below its chord.
* G is inverted with its residual, which bounds its error; errors are added to all first-passage series.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.sparse import csr_array

from network_dp.accounting.moments import Task
from network_dp.accounting.rounding import UNIT

Floats = NDArray[np.float64]

_RATES: Final = (
    0.1,
    0.25,
    0.5,
    1.0,
    1.5,
    2.0,
    2.5,
    3.0,
    3.5,
    4.0,
    5.0,
    6.0,
    7.0,
    8.5,
    10.0,
    12.0,
    15.0,
    20.0,
    28.0,
    40.0,
)
_SPREAD: Final = 2.0  # ratio of further points
_FASTEST: Final = 12.0  # e^-12 stands for pieces of one step
_PIECE: Final = 16  # contributions of a sum between two looks at u
_UPWARDS: Final = 1 + 1e-12  # beyond the rounding of a thousand operations on positive numbers
_LARGEST_EXPONENT: Final = 600.0
_FITTED: Final = 90  # lengths of a fit
_DENSE: Final = 300  # lengths up to here are all checked
_STEP: Final = 1.003  # ratio of checked lengths beyond


@dataclass(frozen=True)
class Pieces:
    """Series of all targets u and one observer v, rounded up, [point, u], in symmetric form: x -> y times s_x / s_y.

    First passages; from the start, F / s_y; from u and still open, s_u times; s the roots of the stationary law."""

    uu: Floats
    uv: Floats
    vv: Floats
    first_u: Floats
    first_v: Floats
    open_u: Floats
    late: Floats  # C of the observer, at every rate
    root: float  # s_v


@dataclass(frozen=True)
class _Parts:
    """Series of pairs at every rate, [rate, u]. The last three are what a release shows more."""

    to_v: Floats  # W
    first: Floats  # Phi
    ending: Floats  # SGD: the last window
    opened: Floats  # sums: the last cycle, from v
    never: Floats  # sums: walks without v, at whatever rate is best for them


class Growth:
    """The Green function of a reversible walk at the points that walks of `n_steps` need."""

    def __init__(self, task: Task, p: Floats, start: Floats, n_steps: int, released: bool) -> None:
        self._task, self._n_steps, self._released, self._start = task, n_steps, released, start
        far = np.array(_RATES) / n_steps
        further = math.ceil(math.log(max(_FASTEST / far[-1], _SPREAD), _SPREAD))
        near = far[-1] * (max(_FASTEST / far[-1], _SPREAD)) ** (np.arange(1, further + 1) / further)
        self._logs = -np.concatenate([far, near])
        self._points, self._count = np.exp(self._logs), len(far)
        self._root = np.sqrt(start)
        scaled = self._root[:, None] * p / self._root[None, :]
        symmetric = (scaled + scaled.T) / 2
        skew, asymmetry = float(self._root.max() / self._root.min()), float(np.abs(scaled - symmetric).max())
        solved = [_inverse(symmetric, log, skew, asymmetry) for log in self._logs.tolist()]
        self._green = [green for green, _ in solved]
        self._diagonal = np.stack([green.diagonal() for green in self._green])
        self._error = np.array([error for _, error in solved])
        # |I - F| <= 2, so F errs by 2 (2 error) 2 / (1 - 4 error); and by its own rounding
        rounding = 16 * UNIT * (1 + self._diagonal.max(axis=1))
        self._passage_error = np.where(self._error < 0.02, 9 * self._error + rounding, np.inf)[:, None]
        self._fits: dict[float, _Fits] = {}

    def pieces(self, observer: int) -> Pieces:
        s_u, s_v = self._root, float(self._root[observer])
        g_u, g_v = self._diagonal, self._diagonal[:, observer][:, None]
        g = np.stack([green[observer] for green in self._green])
        determinant = g_u * g_v - g * g
        determinant[:, observer] = 1.0  # nobody is one's own observer: any number
        uu, vv, uv = 1 - g_v / determinant, 1 - g_u / determinant, g / determinant
        error, later = self._passage_error, -np.expm1(self._logs)[:, None]
        met = np.exp(self._logs)[:, None] / later  # times pi_x: visits of x
        left_u = s_u * (1 - uu) - s_v * uv + (s_u + s_v) * error
        left_v = s_v * (1 - vv) - s_u * uv + (s_u + s_v) * error
        return Pieces(
            _raised(uu + error),
            _raised(uv + error),
            _raised(vv + error),
            first_u=_raised(met * left_u),
            first_v=_raised(met * left_v),
            open_u=_raised(left_u / later),
            late=self._late(observer),
            root=s_v,
        )

    def _late(self, observer: int) -> Floats:
        """C at every rate."""
        worst = []
        for green, error in zip(self._green[: self._count], self._error, strict=False):
            reached = (green[observer] - error) / self._root
            least = float(np.min(reached)) * float(self._root[observer])
            worst.append((green[observer, observer] + error) / least * _UPWARDS if least > 0 else math.inf)
        return np.array(worst)

    def fit(self, b: float) -> _Fits:
        """The fits for one b; to be made before many observers are computed side by side."""
        if b not in self._fits:
            self._fits[b] = _Fits(b, self._logs, self._count, self._n_steps, 1 if self._task == "sgd" else _PIECE)
        return self._fits[b]

    def log_moments(self, pieces: Pieces, b: float) -> Floats:
        """ln E exp(b S) of each target's exposure, rounded up; infinite where the points do not reach. The entry of the
        observer itself means nothing."""
        fits = self.fit(b)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            found = self._least(_sgd(pieces, fits, self._released), pieces)
            if self._task == "sum":  # windows are never less than cycles, and good where cycles have no bound
                by_cycles = self._least(_sum(pieces, fits, self._released), pieces)
                found = np.fmin(found, by_cycles)
        # and probabilities of the law itself are rounded, once for each step of a path
        found += 1e-12 * (1 + np.abs(found)) + 8 * UNIT * (self._n_steps + 1)
        return np.asarray(np.maximum(found, 0.0))

    def _least(self, parts: _Parts, pieces: Pieces) -> Floats:
        """Over all rates, and over the chords between two of which the first is too slow."""

        def total(some: slice, late: Floats) -> Floats:
            seen = late * (parts.first[some] + parts.ending[some])
            opened = parts.opened[some]
            shown = np.where(opened > 0, (late + opened) * opened * pieces.root**2, 0.0)  # late is infinite at times
            return np.asarray(_or_infinite(np.log((seen + shown) * _UPWARDS)), dtype=np.float64)

        log_w, late = np.log(parts.to_v * _UPWARDS), pieces.late[:, None]
        grown = -self._logs[: self._count, None] * self._n_steps
        at = np.where(log_w <= 0, grown + total(slice(None), late), np.inf)
        low, high = total(slice(None, -1), late[1:]), total(slice(1, None), late[1:])
        share = np.minimum(log_w[:-1] / (log_w[:-1] - log_w[1:]) * _UPWARDS + 1e-12, 1.0)
        chord = grown[:-1] + low + share * (grown[1:] - grown[:-1] + high - low)
        between = (log_w[:-1] > 0) & (log_w[1:] < 0) & np.isfinite(log_w[:-1]) & np.isfinite(low)
        chord = np.where(between, _or_infinite(chord), np.inf)
        met = np.minimum(at.min(axis=0), chord.min(axis=0))
        never = _or_infinite(np.fmin.reduce(grown + np.log(parts.never * _UPWARDS), axis=0))
        return np.asarray(np.logaddexp(met, never), dtype=np.float64)


def _or_infinite(values: Floats) -> Floats:
    """What is not a number bounds nothing."""
    return np.where(np.isnan(values), np.inf, values)


def _raised(values: Floats) -> Floats:
    return np.asarray(np.maximum(values, 0.0) * _UPWARDS, dtype=np.float64)


def _inverse(symmetric: Floats, log: float, skew: float, asymmetry: float) -> tuple[Floats, float]:
    """G and a bound of the error of its entries: G - X = G (I - (I - zS) X), and the rows of G sum to at most
    skew / (1 - z). The residual is a sparse product, good to as many units as a row has entries."""
    n, z = len(symmetric), math.exp(log)
    found = np.linalg.inv(np.eye(n) - z * symmetric)
    found = (found + found.T) / 2
    sparse = csr_array(symmetric)
    width = int(np.diff(sparse.indptr).max())
    residual = found - z * (sparse @ found)
    residual[np.diag_indices(n)] -= 1.0
    largest = float(np.abs(found).max())
    rounding = ((width + 12) * UNIT * (1 + skew) + n * asymmetry) * largest + 4 * UNIT
    return found, skew / -math.expm1(log) * (float(np.abs(residual).max()) + rounding) * _UPWARDS


class _Fits:
    """d[c - 1][i, j] >= 0 with sum_j d_ij z_j^m >= (e^{b c^2/m} - 1) x_i^m for all c <= m <= T."""

    def __init__(self, b: float, logs: Floats, count: int, n_steps: int, most: int) -> None:
        self.count, self.points = count, np.exp(logs)
        self._logs, self._n_steps, self._b = logs, n_steps, b
        self._known: dict[int, Floats] = {}
        self.by_count = [self._all(c) for c in range(1, most + 1)]

    def _all(self, c: int) -> Floats:
        found = np.zeros((self.count, len(self._logs)))
        for i in range(self.count):
            found[i, i:] = self._fit(c, i)
        return found

    def _fit(self, c: int, i: int) -> Floats:
        """Least squares of the ratio on some lengths, then raised until it is 1 on all: both sides, without x^m, fall
        with m, so the greater of two lengths on the left against the smaller on the right covers those between."""
        if c > self._n_steps:
            return np.zeros(len(self._logs) - i)
        if self._b * c > _LARGEST_EXPONENT:
            return np.full(len(self._logs) - i, math.inf)
        lengths = self._lengths[self._lengths >= c]
        rows, aims = self._decays(i)[-len(lengths) :], np.expm1(self._b * c * c / lengths)
        few = np.unique(np.geomspace(1, len(aims), _FITTED).astype(int) - 1)
        weights, _ = nnls(rows[few] / aims[few, None], np.ones(len(few)), maxiter=100 * rows.shape[1])
        reached = rows @ weights
        ratio = aims / reached
        ratio[:-1] = np.where(np.diff(lengths) > 1, aims[:-1] / reached[1:], ratio[:-1])
        return np.asarray(weights * float(ratio.max()) * _UPWARDS, dtype=np.float64)

    @cached_property
    def _lengths(self) -> Floats:
        """All short ones, then in steps."""
        further = int(max(math.log(max(self._n_steps / _DENSE, 1.0), _STEP), 0)) + 2
        steps = np.minimum(np.ceil(_DENSE * _STEP ** np.arange(further)), self._n_steps)
        return np.unique(np.concatenate([np.arange(1.0, min(_DENSE, self._n_steps) + 1), steps, [self._n_steps]]))

    def _decays(self, i: int) -> Floats:
        """z_j^m / x_i^m."""
        if i not in self._known:
            self._known[i] = np.exp(np.outer(self._lengths, self._logs[i:] - self._logs[i]))
        return self._known[i]

    def gain(self, c: int, series: Floats, shift: int) -> Floats:
        """sum_L f(L) (e^{b c^2/(L + shift)} - 1) x^L, rounded up."""
        ratio = (self.points[None, :] / self.points[: self.count, None]) ** shift
        return np.asarray((self.by_count[c - 1] * ratio) @ series * _UPWARDS, dtype=np.float64)

    def weighed(self, c: int, series: Floats, shift: int) -> Floats:
        return np.asarray(series[: self.count] + self.gain(c, series, shift))


def _sgd(pieces: Pieces, fits: _Fits, released: bool) -> _Parts:
    """A look at every visit of u: its windows, as long as the way to the next look, weigh e^{b/m}."""
    k, root = fits.count, pieces.root
    through = _returns(fits.weighed(1, pieces.uu, 0)) * fits.weighed(1, pieces.uv, 0)
    none = np.zeros_like(through)
    # the window that only a release shows comes after a walk that, read backwards, starts at u
    back = _returns(fits.weighed(1, pieces.uu, 0)) * pieces.uv[:k]
    return _Parts(
        to_v=pieces.vv[:k] + pieces.uv[:k] * through,
        first=root * (pieces.first_v[:k] + pieces.first_u[:k] * through),
        opened=none,
        ending=root * back * fits.gain(1, pieces.open_u, 1) if released else none,
        never=none,
    )


def _returns(weight: Floats) -> Floats:
    """1 + w + w^2 + .., rounded up."""
    raised = weight * _UPWARDS
    return np.where(raised < 1, _UPWARDS / (1 - np.minimum(raised, 1.0)), np.inf)


def _sum(pieces: Pieces, fits: _Fits, released: bool) -> _Parts:
    """Cycles of v with c contributions weigh e^{b c^2/m}; a look at u after `_PIECE` of them."""
    k, most, root = fits.count, len(fits.by_count), pieces.root
    to_v, first = pieces.vv[:k].copy(), root * pieces.first_v[:k]
    # from u to v, from v to the end, from u to the end, from the start to the end
    out, shown, end, whole = (np.zeros_like(to_v) for _ in range(4))
    power = np.ones_like(pieces.uu)
    for c in range(1, most + 1):
        way = power * pieces.uv
        to_v += fits.weighed(c, pieces.uv * way, -1)
        first += root * fits.weighed(c, pieces.first_u * way, -1)
        out += fits.weighed(c, way, 0)
        if released:
            shown += fits.gain(c, way * pieces.open_u, 0)
            end += fits.weighed(c, power * pieces.open_u, 1)
            whole += fits.gain(c, pieces.first_u * power * pieces.open_u, 0)
        power = power * pieces.uu
    again = _returns(fits.weighed(most, power, 0))
    look = fits.weighed(most, pieces.uv * power, -1) * again
    first_look = fits.weighed(most, pieces.first_u * power, -1) * again
    none = np.zeros_like(to_v)
    return _Parts(
        to_v=to_v + look * out,
        first=first + root * first_look * out,
        opened=(shown + look * end) / root if released else none,
        ending=none,
        never=whole + first_look * end if released else none,
    )
