"""The noise in the logs, one row per draw: what every test of its law and of its freshness starts from.

A visit's noise is drawn once, however often it left. When a visit left again with more noise components, the
difference to what had left before is a draw of its own. Values are looked at while a log streams by; of each draw
there remain two sizes, a mark that equal noises (or one and its negative) share, and its **score**: at most ``WIDTH``
numbers that are independent between draws, centred and sub-Gaussian with variance proxy 1 whenever the noise has the
plan's law:

* Gaussian: noise / std (a sum of discrete Gaussians has the proxy of its variance, Canonne, Kamath & Steinke 2020);
* Laplace: the normal quantile of its distribution function, or on a coarse grid twice that function minus 1
  (bounded by 1: Hoeffding's lemma);
* randomised response: 2 (lie - rate of lies), which spans 2 (Hoeffding's lemma).

Longer vectors are folded: every score is a sum of coordinates with fixed random signs over the root of their number.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analyzer.read.tables import DRAW, Floats, NoiseTally, Rows
from analyzer.reconstruct.noise_laws import law_of
from analyzer.reconstruct.values import Payload, value_unit
from network_dp.plan import Plan

CELLS: Final = 64  # equally likely cells of the noise's goodness of fit
MAX_LIE_CELLS: Final = 4096
WIDTH: Final = 512
_KEPT_SCORES: Final = 1 << 24
_FLUSH_AT: Final = 1 << 16
_OPEN_VISITS: Final = 2  # visits of one user whose noise is remembered, in case they leave again


def lie_rate(plan: Plan) -> float:
    """Probability that a response differs from the truth: gamma (1 - 1/L)."""
    return plan.mechanism.size * (1 - 1 / plan.task.dimension)


class NoiseCounter:
    """Collects every draw, standardised by its law, and sums them up as the tests need them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._unit = value_unit(plan)
        self._law = law_of(plan)
        self._rr = not plan.mechanism.additive
        self._size = 1 if self._rr else plan.task.dimension
        self._width = min(self._size, WIDTH, max(1, _KEPT_SCORES // max(1, plan.total_steps)))
        fixed = np.random.default_rng(0)  # the verdict on the same logs is the same
        self._mix = fixed.integers(0, 2**63, self._size, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        self._signs = fixed.choice([-1.0, 1.0], self._size)
        exact = plan.task.additive and not self._rr
        self._resolution = self._unit / plan.unit_size if exact else 0.0
        cells = min(plan.task.dimension, MAX_LIE_CELLS) if self._rr else CELLS
        self._count = np.zeros(plan.n, dtype=np.int64)
        self._total, self._absolute, self._square = (np.zeros(plan.n) for _ in range(3))
        self._bins = np.zeros(cells, dtype=np.int64)
        self._largest = 0.0
        self._rows, self._values = (array("q"), array("q"), array("q")), array("d")
        self._draws: list[Rows] = []
        self._scores: list[NDArray[np.float32]] = []
        self._bare: list[tuple[int, int]] = []
        self._elements: Counter[tuple[int, int]] = Counter()
        self._user = -1
        self._units: dict[int, int] = {}
        self._noise: OrderedDict[int, Payload] = OrderedDict()
        self._cover: OrderedDict[int, Payload] = OrderedDict()

    def open(self, user: int) -> None:
        """The visits that follow are ``user``'s."""
        self._user = user
        self._units, self._noise, self._cover = {}, OrderedDict(), OrderedDict()

    def add(
        self, row: int, visit: int, noise: Payload | None, contribution: Payload | None, units: int, real: bool
    ) -> None:
        """One line with values that sent a token: what it drew that no earlier line of the visit shows."""
        if self._rr:
            if real and visit not in self._units:
                self._units[visit] = 1
                self._response(row, noise, contribution)
            return
        before = self._units.get(visit, 0)
        if units <= before:
            return
        if noise is None:
            self._bare.append((self._user, row))
            return
        drawn, earlier = noise, self._noise.get(visit)
        if before and earlier is None:
            return  # too long ago to tell what is new
        if earlier is not None:
            drawn = [a - b for a, b in zip(noise, earlier, strict=True)]
        self._units[visit] = units
        _remember(self._noise, visit, noise)
        for column, value in zip(self._rows, (self._user, row, units - before), strict=True):
            column.append(value)
        self._values.extend(drawn)
        if len(self._values) >= _FLUSH_AT:
            self._flush()

    def _response(self, row: int, noise: Payload | None, contribution: Payload | None) -> None:
        if noise is None or contribution is None:
            self._bare.append((self._user, row))
            return
        lie = any(noise)
        self._count[self._user] += 1
        self._total[self._user] += lie
        if lie:
            distance = (int(np.argmax(noise)) - int(np.argmax(contribution))) % len(noise)
            self._bins[distance % len(self._bins)] += 1
        for column, value in zip(self._rows, (self._user, row, 1), strict=True):
            column.append(value)
        self._values.append(lie)

    def add_elements(self, visit: int, cover: Payload) -> None:
        """Uniform elements of a line, less those an earlier line of its visit shows."""
        earlier = self._cover.get(visit)
        _remember(self._cover, visit, cover)
        drawn = cover if earlier is None else [a - b for a, b in zip(cover, earlier, strict=True)]
        if min(drawn) < 0:
            return
        for bucket, count in enumerate(drawn):
            if count:
                self._elements[self._user, bucket] += int(count)

    def _flush(self) -> None:
        if not self._values:
            return
        users, rows, units = (np.frombuffer(column, dtype=np.int64) for column in self._rows)
        values = np.frombuffer(self._values, dtype=np.float64).reshape(len(users), -1)
        draws = np.zeros(len(users), dtype=DRAW)
        draws["user"], draws["row"], draws["units"] = users, rows, units
        if self._rr:
            self._scores.append((2 * (values - lie_rate(self._plan))).astype(np.float32))
        else:
            draws["mark"] = _marks(values, self._mix)
            z = self._law.standardised(values * (self._unit / self._plan.unit_size), units)
            self._sum_up(draws, z)
            self._scores.append(self._folded(z))
        self._draws.append(draws)
        del users, rows, units, values  # they borrow the buffers below
        self._rows, self._values = (array("q"), array("q"), array("q")), array("d")

    def _sum_up(self, draws: Rows, z: Floats) -> None:
        n, half = self._plan.n, self._resolution / 2
        size = np.abs(z)
        absolute, square = size.sum(axis=1), (z * z).sum(axis=1)
        users = draws["user"]
        # The law is discrete: "at most as small" includes half a grid step, so that a zero is no miracle.
        draws["size"], draws["low"] = self._law.sizes(absolute, square, z.shape[1], half)
        self._count += np.bincount(users, minlength=n) * z.shape[1]
        self._total += np.bincount(users, z.sum(axis=1), minlength=n)
        self._absolute += np.bincount(users, absolute, minlength=n)
        self._square += np.bincount(users, square, minlength=n)
        self._largest = max(self._largest, float(size.max()))
        cells = np.minimum((self._law.cdf(z).ravel() * CELLS).astype(np.int64), CELLS - 1)
        self._bins += np.bincount(cells, minlength=CELLS)

    def _folded(self, z: Floats) -> NDArray[np.float32]:
        scores = self._law.scores(z, self._resolution)
        if self._law.bounded_scores or self._size == self._width:
            return scores.astype(np.float32)
        edges = np.linspace(0, self._size, self._width + 1).astype(np.int64)
        folded = np.add.reduceat(scores * self._signs, edges[:-1], axis=1) / np.sqrt(np.diff(edges))
        return np.asarray(folded, dtype=np.float32)

    def tally(self) -> NoiseTally:
        self._flush()
        return NoiseTally(
            count=self._count,
            total=self._total,
            absolute=self._absolute,
            square=self._square,
            bins=self._bins,
            largest=self._largest,
            resolution=self._resolution,
            draws=np.concatenate([np.zeros(0, dtype=DRAW), *self._draws]),
            scores=np.concatenate([np.zeros((0, self._width), dtype=np.float32), *self._scores]),
            bare=tuple(self._bare),
            elements=dict(self._elements),
        )


def _remember(kept: OrderedDict[int, Payload], visit: int, payload: Payload) -> None:
    kept[visit] = payload
    if len(kept) > _OPEN_VISITS:
        kept.popitem(last=False)


def _marks(values: Floats, mix: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """64 bits per row, equal for equal numbers and for their negatives; others meet by accident only."""
    first = values[np.arange(len(values)), np.argmax(values != 0, axis=1)]
    upright = np.where(first[:, None] < 0, -values, values) + 0.0  # + 0.0: no negative zero
    bits = upright.view(np.uint64)
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((bits * mix).sum(axis=1, dtype=np.uint64))
