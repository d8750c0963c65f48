"""eps of every pair when histograms are made by randomised response (theory.md 5).

Complete graph: u's c answers among the m answers of one of v's cycles are c windows with floor((m-c)/c) others each.
Every pair gets the Renyi bound, whose windows simply add up; the pairs it calls worst are then composed exactly as
privacy-loss distributions (``network_dp.shuffle``). Both are upper bounds. Ring: the bound of ``shuffle.ring_epsilon``
with the smallest full window that really occurred. A forked run: local DP of all answers given, the bound that always
holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from analyzer.lineage import Bools
from analyzer.sights import Increments, Sights
from analyzer.tables import Floats
from network_dp import gaussian, shuffle
from network_dp.plan import HistogramTask, Plan
from network_dp.randomised_response import Response, log_moments, round_down

_ORDERS: Final = (1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 22.0, 40.0)
_REFINED: Final = 6


class UnknownResponsesError(ValueError):
    """No bound is known for what these logs show."""


def response_of(plan: Plan) -> Response:
    assert isinstance(plan.task, HistogramTask) and plan.noise.gamma is not None
    return Response(plan.task.buckets, plan.noise.gamma)


class Responses:
    """eps of everybody towards one observer, from the cycles on the actual path."""

    def __init__(self, plan: Plan, sights: Sights) -> None:
        self._plan, self._sights = plan, sights
        self._response = response_of(plan)

    def _increments(self, members: Sequence[int]) -> Increments:
        observer: Bools = np.zeros(self._plan.n, dtype=np.bool_)
        observer[list(members)] = True
        return self._sights.increments(observer)

    def column(self, members: Sequence[int]) -> Floats:
        """Bound on eps of every user towards the set: Renyi over its cycles; local DP where the run forked."""
        if not self._sights.straight:
            result = self._all_alone()
            result[list(members)] = 0.0
            return result
        seen = self._increments(members)
        answers = seen.answers()[seen.cycle]
        others = np.array([round_down(int(x)) for x in (answers - seen.count) // seen.count], dtype=np.int64)
        distinct, place = np.unique(others, return_inverse=True)
        log_moment = np.zeros((self._plan.n, len(_ORDERS)))
        if len(distinct):
            table = log_moments(self._response, np.array(_ORDERS), distinct)
            np.add.at(log_moment, seen.user, seen.count[:, None] * table.T[place])
        result = np.array([self._convert(row) for row in log_moment])
        result[list(members)] = 0.0
        return result

    def _convert(self, log_moment: Floats) -> float:
        delta = self._plan.noise.delta
        bounds = [
            gaussian.rdp_to_epsilon(order, float(moment) / (order - 1), delta)
            for order, moment in zip(_ORDERS, log_moment, strict=True)
        ]
        return min(bounds) if log_moment.any() else 0.0

    def exact(self, user: int, members: Sequence[int]) -> float:
        """eps of one user towards the set, its windows composed as privacy-loss distributions."""
        seen = self._increments(members)
        mine, answers = seen.user == user, seen.answers()
        cycles = [(int(answers[i]), int(c)) for i, c in zip(seen.cycle[mine], seen.count[mine], strict=True)]
        size, gamma = self._response.n_buckets, self._response.gamma
        return shuffle.cycles_epsilon(cycles, size, gamma, self._plan.noise.delta)

    def matrix(self) -> Floats:
        n = self._plan.n
        if not self._sights.straight:
            return np.repeat(self._all_alone()[:, None], n, axis=1) * (1 - np.eye(n))
        if self._plan.walk.topology == "ring":
            return np.full((n, n), self._ring()) * (1 - np.eye(n))
        result = np.stack([self.column([v]) for v in range(n)], axis=1)
        for _ in range(_REFINED):  # tighten the worst pair until it stays the worst
            u, v = (int(i) for i in np.unravel_index(int(np.argmax(result)), result.shape))
            tighter = min(self.exact(u, [v]), float(result[u, v]))
            if tighter >= result[u, v]:
                break
            result[u, v] = tighter
        return np.asarray(result, dtype=np.float64)

    def _all_alone(self) -> Floats:
        """Tokens beside the branch share answers with those on it; each answer is private by itself all the same."""
        size, gamma, delta = self._response.n_buckets, self._response.gamma, self._plan.noise.delta
        counts = self._sights.answers_given
        known = {k: shuffle.local_epsilon(k, size, gamma, delta) for k in set(counts.tolist())}
        return np.array([known[k] for k in counts.tolist()], dtype=np.float64)

    def _ring(self) -> float:
        """The least cover of any answer in a full window, and most answers of one user seen by another.

        Of every pair one window may be short, covered by elements of its own: v's first, or the release.
        """
        least, most = self._plan.n - 2, 1
        for v in range(self._plan.n):
            seen = self._increments([v])
            if len(seen.user):
                most = max(most, int(np.bincount(seen.user, seen.count).max()))
                least = min([least, *self._full_windows(seen)])
        if least < 1:
            raise UnknownResponsesError("too few answers in a round of the ring")
        size, gamma = self._response.n_buckets, self._response.gamma
        return shuffle.ring_epsilon(least + 2, most, size, gamma, self._plan.noise.delta)

    def _full_windows(self, seen: Increments) -> list[int]:
        """Others around each answer, but for the one short window of every pair; skipped users make them fewer."""
        others = ((seen.answers()[seen.cycle] - seen.count) // seen.count).astype(np.int64)
        last = len(seen.noise) - 1 if self._plan.walk.release == "all" else 0
        full: list[int] = []
        short: dict[int, int] = {}
        for user, cycle, count, cover in zip(seen.user, seen.cycle, seen.count, others, strict=True):
            if count > 1 or cycle not in (0, last):
                full.append(int(cover))
            elif user in short:  # v was skipped, so both ends hold an answer of u: the longer one is no short window
                full.append(max(int(cover), short[user]))
            else:
                short[user] = int(cover)
        return full
