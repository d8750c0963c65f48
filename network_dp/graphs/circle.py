"""Moments of ALL pairs of a graph at once, by Cauchy sums on a circle: upper bounds with a proved error.

For a reversible walk from its stationary law. On N points z of |z| = r < 1, one eigendecomposition gives the Green
function G(z) = (I - zP)^-1 of all users, and for each pair the first-passage series F = I - (G_EE)^-1, E = {u, v}
(THEORY.md#graph-circle). Pieces of the walk (`graph_walk`: cycles of v, looks at u) are products of such series; back
in the time domain they are weighed by exp(b c^2/m); and the moment after T steps is coefficient T of

    end_s + Phi_u s + Phi_v t,     s = end_u + UU s + UV t,     t = end_v + VU s + VV t.

Every series has nonnegative coefficients. That makes all errors one-sided or small:

* A Cauchy sum over N > T points also picks up coefficients T + N, T + 2N, .., which only add.
* Series computed from G err by at most `slack` in every coefficient (times r^m), which is added to each of them.
* For series x with |x(z)| <= x(r) and errors e, the solution errs by at most its value at x(r) + e minus that at x(r):
  it is itself a power series in its inputs with nonnegative coefficients. It is convex, so that errors k times as
  large give at least k times the difference: computed with k = 10^6, lest it be lost in rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from network_dp.accounting.moments import Task
from network_dp.accounting.rounding import UNIT

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

_PIECE = 10  # contributions of a sum between two looks at u
_BATCH = 32  # pairs whose series fit into a cache
_HEAD = 80  # first terms of such pieces that are convolved
_MAGNIFIED = 1e6
_REVERSIBLE = 1e-13


def applies(p: Floats, start: Floats) -> bool:
    """Is the walk reversible, from its stationary law?"""
    flow = start[:, None] * p
    return bool(np.all(start > 0)) and bool(np.all(np.abs(flow - flow.T) <= _REVERSIBLE * flow.max()))


@dataclass(frozen=True)
class _Slack:
    """Errors of series computed from G, in every coefficient times r^m; all users alike."""

    first: float  # of first passages
    start: float  # of first visits
    ends: float  # of what is still open, from a user
    open: float  # of what is still open, from the start


class Circle:
    """The Green function of a reversible walk on a circle whose radius suits moments up to e^`most`."""

    def __init__(self, task: Task, p: Floats, start: Floats, n_steps: int, released: bool, most: float) -> None:
        self._task, self._n_steps, self._released, self._start = task, n_steps, released, start
        self.piece = min(_PIECE, n_steps)
        self._size = 2 * next_fast_len(int(0.512 * n_steps) + 1)  # more than T
        self._log_radius = -most / n_steps
        index = np.arange(self._size // 2 + 1)
        self._z = np.exp(self._log_radius - 2j * np.pi * index / self._size)
        self._pick = np.exp(2j * np.pi * ((index * n_steps) % self._size) / self._size)
        self._by_stay = np.argsort(p.diagonal(), kind="stable")
        root = np.sqrt(start)
        scaled = root[:, None] * p / root[None, :]
        symmetric = (scaled + scaled.T) / 2
        self._values, self._vectors = np.linalg.eigh(symmetric)
        self._green = 1 / (1 - self._z[:, None] * self._values[None, :])
        self._diagonal = self._green @ (self._vectors**2).T  # [z, u]
        self._slack = self._errors(symmetric, float(np.linalg.norm(scaled - symmetric)), float(root.max() / root.min()))

    def _mean(self, values: Floats) -> float:
        """Over the whole circle: all points but the first and the last stand for two."""
        return float(2 * values.sum() - values[0] - values[-1]) / self._size

    def _errors(self, symmetric: Floats, asymmetry: float, skew: float) -> _Slack:
        n, vectors = len(symmetric), self._vectors
        # norms by Frobenius; entries of the products themselves err by n u times the sum of moduli, at most n u each
        rounding = 4 * n**1.5 * UNIT
        residual = float(np.linalg.norm(symmetric @ vectors - vectors * self._values)) + rounding
        orthogonal = float(np.linalg.norm(vectors @ vectors.T - np.eye(n))) + rounding
        residual += 2 * asymmetry + 8 * math.sqrt(n) * UNIT  # of the symmetric matrix itself
        norm = 1 / (np.abs(1 - self._z[:, None] * self._values).min(axis=1) - 2 * residual)
        green = norm * (orthogonal + residual * norm * (1 + orthogonal)) + (n + 100) * UNIT * norm
        first = 5 * green + 50 * UNIT  # |G^-1| <= 2: 2 green 2 / (1 - 2 green)
        away = 1 / np.abs(1 - self._z)
        visit = float(self._start.max()) * away
        visits = 2 * skew * (visit * (first + 50 * UNIT) * 2)
        ends = 2 * skew * (2 * first + 50 * UNIT) * away
        return _Slack(
            float(self._mean(first)), self._mean(visits), self._mean(ends), self._mean((2 * visits + 50 * UNIT) * away)
        )

    def batches(self, observer: int) -> list[NDArray[np.int64]]:
        """All other users, in lots that fit into a cache; who keeps the token alike is exposed alike."""
        others = self._by_stay[self._by_stay != observer]
        return np.array_split(others, max(1, len(others) // _BATCH))

    def pieces(self, observer: int, targets: NDArray[np.int64]) -> Pieces:
        """The pieces of the walk for these targets and one observer."""
        cross = (self._vectors[targets] * self._vectors[observer]) @ self._green.T
        return _pieces(self, targets, observer, cross)

    def log_moments(self, pieces: Pieces, b: float) -> Floats:
        """ln E exp(b S) of each target's exposure, rounded up; infinite where too large for the circle."""
        weighed = {name: self._weighed(parts, b, name.startswith("end")) for name, parts in pieces.timed.items()}
        plain = pieces.plain
        inputs = [weighed.get(name, plain.get(name)) for name in _NAMES]
        # at z = r all series are real and largest
        eta = (8 * math.log2(self._size) + 60 + self.piece) * UNIT
        tops = [np.zeros(1) if x is None else x[:, 0].real for x in inputs]
        raised = [x + _MAGNIFIED * (eta * x + 64 * UNIT * (1 + x)) for x in tops]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            total = self._coefficient(_solution([0.0 if x is None else x for x in inputs]))
            largest, above = _solution(tops), _solution(raised)
            error = (above - largest) / _MAGNIFIED * (1 + 1e-6) + 200 * UNIT * largest
            total = (total + error) * math.exp(-self._log_radius * self._n_steps * (1 + 4 * UNIT)) * (1 + 1e-12)
            logs = np.log(np.maximum(total, 1.0))
            found = np.where(_converges(raised) & np.isfinite(logs), logs + 1e-12, np.inf)
        return np.asarray(found, dtype=np.float64)

    def _weighed(self, parts: _Timed, b: float, ends: bool) -> Complexes:
        lengths = np.maximum(np.arange(self._size, dtype=np.float64) + parts.steps, 1.0)
        squares = np.square(np.array(parts.counts, dtype=np.float64))[:, None]
        weights = np.exp(np.minimum(b * squares / lengths, 600.0) * (1 + 8 * UNIT))
        total = parts.series[0] * weights[0]
        for series, weight in zip(parts.series[1:], weights[1:], strict=True):
            total += series * weight
        if not ends:  # every move takes a step
            total[:, 0] = 0.0
        return np.asarray(rfft(total, axis=1), dtype=np.complex128)

    def _coefficient(self, value: Complexes) -> Floats:
        """Coefficient T, times r^T."""
        terms = (value * self._pick).real
        return np.asarray(2 * terms.sum(axis=1) - terms[:, 0] - terms[:, -1]) / self._size

    def timed(self, values: Complexes, slack: float) -> Floats:
        """Coefficients 0 .. N-1 times r^m, raised by their error."""
        found = np.asarray(irfft(values, self._size, axis=-1), dtype=np.float64)
        return np.maximum(found, 0.0) + (slack + (8 * math.log2(self._size) + 60) * UNIT)

    def raised(self, values: Complexes, slack: float) -> Complexes:
        """The same on the circle: a constant is seen at z = r only."""
        lifted = values.copy()
        lifted[..., 0] += self._size * slack
        return lifted


@dataclass(frozen=True)
class _Timed:
    """Pieces in the time domain, [c, pair, L]; they are L + `steps` long."""

    counts: tuple[int, ...]
    series: Floats
    steps: int


@dataclass(frozen=True)
class Pieces:
    """The kernels between u, v and the start: with the windows' weights (timed) and without (plain)."""

    timed: dict[str, _Timed]
    plain: dict[str, Complexes]


_NAMES = ("uu", "uv", "vu", "vv", "su", "sv", "end_u", "end_v", "end_s")


def _solution(inputs: Sequence[Any]) -> Any:
    """end_s + su s + sv t, by divisions of 1 - .. only: each rounding is one of an input."""
    uu, uv, vu, vv, su, sv, end_u, end_v, end_s = inputs
    returns = 1 / (1 - uu)
    through = uv * returns
    t = (end_v + vu * (returns * end_u)) / (1 - vv - vu * through)
    return end_s + su * (returns * end_u + through * t) + sv * t


def _converges(inputs: Sequence[Any]) -> Any:
    uu, uv, vu, vv = inputs[:4]
    return (uu < 1) & (1 - vv - vu * uv / (1 - uu) > 0)


def _pieces(circle: Circle, others: NDArray[np.int64], observer: int, cross: Complexes) -> Pieces:
    """Of all pairs (u in `others`, observer); series are [pair, z]."""
    z, slack, start = circle._z, circle._slack, circle._start
    g_u, g_v = np.ascontiguousarray(circle._diagonal[:, others].T), circle._diagonal[:, observer]
    determinant = g_u * g_v - cross**2
    f_uu, f_vv, f = 1 - g_v / determinant, 1 - g_u / determinant, cross / determinant
    skew = np.sqrt(start[observer] / start[others])[:, None]
    f_uv, f_vu = f * skew, f / skew
    ratio = float(max(skew.max(), 1 / skew.min()))
    visit_u, visit_v = start[others][:, None] * z / (1 - z), start[observer] * z / (1 - z)
    phi_u = visit_u * (1 - f_uu) - visit_v * f_vu
    phi_v = visit_v * (1 - f_vv) - visit_u * f_uv
    plain = {
        "su": circle.raised(phi_u, slack.start),
        "sv": circle.raised(phi_v, slack.start),
    }
    first = slack.first * ratio
    if circle._released:
        plain["end_s"] = circle.raised((1 - phi_u - phi_v) / (1 - z), slack.open)
    else:
        plain["end_v"] = circle.raised(np.broadcast_to(1 / ((1 - z) * g_v), f.shape), slack.ends)
        plain["end_s"] = circle.raised(np.broadcast_to((1 - visit_v / g_v) / (1 - z), f.shape), slack.open)
    if circle._task == "sgd":
        plain |= {"vu": circle.raised(f_vu, first), "vv": circle.raised(f_vv, first)}
        timed = {
            "uu": _Timed((1,), circle.timed(f_uu, first)[None], 0),
            "uv": _Timed((1,), circle.timed(f_uv, first)[None], 0),
        }
        if circle._released:
            plain["end_v"] = circle.raised((1 - f_vu - f_vv) / (1 - z), slack.ends)
            timed["end_u"] = _Timed((1,), circle.timed((1 - f_uu - f_uv) / (1 - z), slack.ends)[None], 1)
        return Pieces(timed, plain)
    return Pieces(_sum_pieces(circle, f_uu, f_uv, f_vu, f_vv, z, first), plain)


def _sum_pieces(
    circle: Circle, f_uu: Complexes, f_uv: Complexes, f_vu: Complexes, f_vv: Complexes, z: Complexes, slack: float
) -> dict[str, _Timed]:
    """Powers of the return to u. A product of c + 1 series of modulus at most 1 has as many errors; the first terms,
    which weigh most, are convolved instead, so that their errors are relative."""
    count = circle.piece
    stay_u, slack_end = (1 - f_uu - f_uv) / (1 - z), circle._slack.ends
    heads = {name: circle.timed(x, slack)[:, :_HEAD] for name, x in (("uu", f_uu), ("uv", f_uv), ("vu", f_vu))}
    for head in heads.values():
        head[:, 0] = 0.0
    stay_head = circle.timed(stay_u, slack_end)[:, :_HEAD]

    def piece(values: Complexes, head: Floats, error: float) -> Floats:
        series = circle.timed(values, error)
        series[:, : head.shape[1]] = head
        return series

    vv, uv, end_v, end_u = [circle.timed(f_vv, slack)], [], [], []
    if circle._released:
        end_v.append(circle.timed((1 - f_vu - f_vv) / (1 - z), slack_end))
    power, head_v, head_u = np.ones_like(f_uu), heads["vu"], np.zeros_like(heads["vu"])
    head_u[:, 0] = 1.0
    for c in range(1, count + 1):
        error = (c + 1) * slack + 8 * c * UNIT
        vv.append(piece(f_vu * power * f_uv, _convolved(head_v, heads["uv"]), error))
        uv.append(piece(power * f_uv, _convolved(head_u, heads["uv"]), error))
        if circle._released:
            error = slack_end * (c + 1) + error * circle._size
            end_v.append(piece(f_vu * power * stay_u, _convolved(head_v, stay_head), error))
            end_u.append(piece(power * stay_u, _convolved(head_u, stay_head), error))
        power = power * f_uu
        head_v, head_u = _convolved(head_v, heads["uu"]), _convolved(head_u, heads["uu"])
    error = (count + 2) * slack + 8 * (count + 2) * UNIT
    counts = tuple(range(1, count + 1))
    timed = {
        "vv": _Timed((0, *counts), np.stack(vv), -1),
        "uv": _Timed(counts, np.stack(uv), 0),
        "vu": _Timed((count,), piece(f_vu * power, head_v, error)[None], -1),
        "uu": _Timed((count,), piece(power, head_u, error)[None], 0),
    }
    if circle._released:
        timed |= {"end_v": _Timed((0, *counts), np.stack(end_v), 0), "end_u": _Timed(counts, np.stack(end_u), 1)}
    return timed


def _convolved(left: Floats, right: Floats) -> Floats:
    """The first terms of the products of two positive series per pair, rounded up."""
    total = np.zeros_like(left)
    for m in range(left.shape[1]):
        total[:, m:] += left[:, m : m + 1] * right[:, : left.shape[1] - m]
    return np.asarray(total * (1 + 4 * left.shape[1] * UNIT))
