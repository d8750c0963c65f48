"""eps of every pair when histograms are made by randomised response (THEORY.md#histograms).

Each of u's answers lies in a window: among the other answers of one of v's cycles, and among its cover elements. c
answers of u in one cycle share it, 1/c each. Windows are disjoint, so their privacy losses compose. Where tokens off
the accepted branch share answers with cycles, all of them fall into pieces (``Observations.pieces``), and each piece is
a window.

* Ring: windows are few and alike, so every pair is composed exactly, as privacy-loss distributions.
* Complete graph: every pair gets the Renyi bound, whose windows simply add up; the pairs it calls worst are then
  composed exactly.

All are upper bounds, and none exceeds local DP of the answers that v could see: that one always holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from analyzer.read.tables import Bools, Floats, Ints
from analyzer.reconstruct.observations import Observations
from network_dp.accounting import gaussian, shuffle
from network_dp.accounting.randomised_response import Response, Window, log_moments, round_all_down
from network_dp.plan import Plan
from network_dp.promise import response_of

ORDERS: Final = (1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 22.0, 40.0)
_REFINED: Final = 3
_SHORT_BITS: Final = 4


@dataclass(frozen=True, slots=True)
class Windows:
    """What one observer saw of everybody: ``count`` answers of ``user``, each in a window of that size."""

    user: Ints
    count: Ints
    others: Ints
    uniform: Ints

    def answers(self, n_users: int) -> Ints:
        """Answers of each user that the observer could see."""
        return np.bincount(self.user, self.count, minlength=n_users).astype(np.int64)

    def of(self, user: int) -> Counter[Window]:
        mine = self.user == user
        found: Counter[Window] = Counter()
        for others, uniform, count in zip(self.others[mine], self.uniform[mine], self.count[mine], strict=True):
            found[Window(int(others), int(uniform))] += int(count)
        return found


class Responses:
    """eps of everybody towards one observer, from the windows on the actual path."""

    def __init__(self, plan: Plan, observations: Observations) -> None:
        self._plan, self._sights = plan, observations
        self._response = response_of(plan)
        self._ring = not plan.topology.drawn
        self._known: dict[frozenset[tuple[Window, int]], float] = {}
        self._sizes = np.unique(round_all_down(np.arange(0 if self._ring else plan.total_steps + 1)))
        self._moments = log_moments(self._response, np.array(ORDERS), self._sizes) if len(self._sizes) else np.zeros(0)

    def windows(self, members: Sequence[int]) -> Windows:
        observer: Bools = np.zeros(self._plan.n, dtype=np.bool_)
        observer[list(members)] = True
        seen = self._sights.increments(observer)
        touched, pieces = self._sights.pieces(observer, seen)
        kept = ~np.isin(seen.cycle, touched)
        cycle = seen.cycle[kept]
        straight = np.stack([seen.user[kept], seen.count[kept], seen.answers()[cycle], seen.elements[cycle]], axis=1)
        cut = [
            (user, count, piece.answers.total(), piece.elements)
            for piece in pieces
            for user, count in piece.answers.items()
        ]
        table = np.concatenate([straight, np.array(cut).reshape(-1, 4)]).astype(np.int64)
        user, count, answers, elements = table.T
        others, uniform = (answers - count) // count, elements // count
        if self._ring:  # short windows differ from pair to pair: few sizes are composed
            short = (uniform > 0) | (others < self._plan.walk.min_live - 2)
            others = np.where(short, round_all_down(others, _SHORT_BITS), others)
        else:  # the Renyi tables know answers only; a cover element hides at least as well
            others, uniform = round_all_down(others + uniform), np.zeros_like(others)
        return Windows(user, count, others, uniform)

    def column(self, members: Sequence[int]) -> Floats:
        """Bound on eps of every user towards the set."""
        windows = self.windows(members)
        return self._composed(windows) if self._ring else self._renyi(windows)

    def _renyi(self, windows: Windows) -> Floats:
        n, delta, answers = self._plan.n, self._plan.noise.delta, windows.answers(self._plan.n)
        place = np.searchsorted(self._sizes, windows.others, side="right") - 1  # more than the longest cycle: as many
        result = np.array([_local(self._response, int(count), delta) for count in answers])
        for order, moments in zip(ORDERS, self._moments, strict=True):
            total = np.bincount(windows.user, windows.count * moments[place], minlength=n)
            offset = gaussian.rdp_to_epsilon(order, 0.0, delta)
            result = np.minimum(result, total / (order - 1) + offset)
        return np.where(answers > 0, result, 0.0)

    def _composed(self, windows: Windows) -> Floats:
        """Exact composition; users with the same windows, most of them, are composed once."""
        distinct, kind = np.unique((windows.others << 32) + windows.uniform, return_inverse=True)
        weight = np.random.default_rng(0).integers(1, 2**40, size=len(distinct))  # sums tell multisets apart
        marks = np.bincount(windows.user, windows.count * weight[kind], minlength=self._plan.n)
        _, first, place = np.unique(marks, return_index=True, return_inverse=True)
        return np.array([self.epsilon(windows.of(int(user))) for user in first])[place]

    def epsilon(self, windows: Counter[Window]) -> float:
        key = frozenset(windows.items())
        if key not in self._known:
            delta = self._plan.noise.delta
            composed = shuffle.composed_epsilon(self._response, windows, delta)
            self._known[key] = min(composed, _local(self._response, sum(windows.values()), delta))
        return self._known[key]

    def matrix(self) -> Floats:
        result = np.stack([self.column([v]) for v in range(self._plan.n)], axis=1)
        for _ in range(0 if self._ring else _REFINED):  # tighten the worst pair until it stays the worst
            u, v = (int(i) for i in np.unravel_index(int(np.argmax(result)), result.shape))
            tighter = min(self.epsilon(self.windows([v]).of(u)), float(result[u, v]))
            if tighter >= result[u, v]:
                break
            result[u, v] = tighter
        return np.asarray(result, dtype=np.float64)


@lru_cache(maxsize=4096)
def _local(response: Response, answers: int, delta: float) -> float:
    return shuffle.local_epsilon(answers, response.n_buckets, response.gamma, delta)
