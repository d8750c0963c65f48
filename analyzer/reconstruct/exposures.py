"""S_uv or eps_uv of every pair, from the walk that really happened (THEORY.md#after-a-run).

* Gaussian sums: exact, on any path (``observations``).
* SGD: an upper bound, ``network_dp.exposure.matrix``. Where the run forked, the token at the fork is given to every
  observer for free; the pieces between are then independent and their exposures add up (each costs at most 1).
* Laplace ring: every observation of c contributions of u costs c Delta_1 / scale; those that share noise go together
  (``network_dp.exposure.pure``).
* Randomised response: ``responses``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Final

import numpy as np

from analyzer.checks.integrity import Run
from analyzer.read.tables import NOBODY, START, Bools, Floats, Ints
from analyzer.reconstruct.observations import Observations
from analyzer.reconstruct.responses import Responses
from network_dp import exposure
from network_dp.accounting import gaussian
from network_dp.plan import Plan
from network_dp.promise import aim, laplace_epsilon

_SETS_TRIED: Final = 3000
_FINE: Final = 512


class UnmeasurableError(ValueError):
    """These logs do not allow a number; the message says why."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the walk whose first token everybody is taken to know."""

    rows: Ints
    released: bool
    off_branch: bool = False  # abandoned: not a part of the accepted branch


def mu_per_root(plan: Plan) -> float:
    """mu of exposure 1: Delta / sigma."""
    assert plan.noise.sigma is not None
    return plan.sensitivity / plan.noise.sigma


def to_epsilon(plan: Plan, exposures: Floats) -> Floats:
    """eps at the plan's delta for many exposures (a fine table in between: relative error below 1e-4)."""
    mus = np.sqrt(exposures) * mu_per_root(plan)
    inside = np.isfinite(mus) & (mus > 0)
    if np.unique(mus[inside]).size <= _FINE:
        return gaussian.epsilons(mus, aim(plan))
    knots = np.geomspace(float(mus[inside].min()), float(mus[inside].max()), _FINE)
    result = np.where(np.isinf(mus), np.inf, 0.0)
    result[inside] = np.interp(mus[inside], knots, gaussian.epsilons(knots, aim(plan)))
    return result


def one_epsilon(plan: Plan, value: float) -> float:
    """eps at the plan's delta of one exposure, to full precision."""
    return gaussian.epsilon(math.sqrt(value) * mu_per_root(plan), aim(plan))


def walking_rows(run: Run) -> Ints:
    """The accepted branch without the step 0 that only drew the first holder."""
    rows = run.lineage.accepted
    visits = run.lineage.received[rows]
    cause = np.where(visits >= 0, run.logs.visits["cause"][np.maximum(visits, 0)], NOBODY)
    step = np.where(visits >= 0, run.logs.visits["step"][np.maximum(visits, 0)], NOBODY)
    return np.asarray(rows[~((cause == START) & (step == 0))], dtype=np.int64)


class Measure:
    """Exposure of everybody to one observer, or to all of them, on this run's path."""

    def __init__(self, run: Run) -> None:
        if not run.lineage.complete:
            raise UnmeasurableError("the walk is not known from start to finish")
        self._run, self.plan = run, run.plan
        self.observations = Observations(run)
        self.is_sgd = not run.plan.task.additive
        self.mechanism = run.plan.mechanism
        self.pieces = self._cut()
        self._responses: Responses | None = None
        if not self.mechanism.additive:
            self._responses = Responses(run.plan, self.observations)

    # ---- sums ------------------------------------------------------------------------------------------------------

    def column(self, members: Sequence[int]) -> Floats:
        """Exposure of every user to the set of ``members`` (Laplace: contributions seen; responses: eps itself)."""
        if self._responses is not None:
            return self._responses.column(members)
        if self.is_sgd:
            return self._sgd(members)[:, members[0]]
        observer: Bools = np.zeros(self.plan.n, dtype=np.bool_)
        observer[list(members)] = True
        return self.observations.column(observer, laplace=self.mechanism.pure)

    def epsilon(self, seen: Floats) -> Floats:
        """eps of a whole matrix."""
        if self.mechanism.pure:
            return seen * laplace_epsilon(self.plan, 1.0)
        if not self.mechanism.additive:
            return seen
        return to_epsilon(self.plan, seen)

    def one_epsilon(self, value: float) -> float:
        if self.mechanism.pure:
            return laplace_epsilon(self.plan, value) if value else 0.0
        if not self.mechanism.additive:
            return value
        return one_epsilon(self.plan, value)

    def matrix(self) -> Floats:
        """S[u, v] of every pair (Laplace and responses: as ``column``)."""
        if self._responses is not None:
            return self._responses.matrix()
        if self.is_sgd:
            return self._sgd(None)
        return np.stack([self.column([v]) for v in range(self.plan.n)], axis=1)

    # ---- SGD -------------------------------------------------------------------------------------------------------

    def _sgd(self, members: Sequence[int] | None) -> Floats:
        total = np.zeros((self.plan.n, self.plan.n))
        for piece in self.pieces:
            if len(piece.rows):
                walk, contributing, sizes, noisy = self._steps(piece)
                if not self.plan.task.contracts:
                    total += self._all_seen(walk[contributing], members)
                    continue
                total += exposure.matrix(walk, self.plan.n, "sgd", piece.released, members, contributing, sizes, noisy)
        return total

    def _all_seen(self, contributors: Ints, members: Sequence[int] | None) -> Floats:
        """Without contraction nothing amplifies: everybody counts as having seen every contribution by itself."""
        n = self.plan.n
        seen = np.repeat(np.bincount(contributors, minlength=n)[:, None], n, axis=1).astype(np.float64)
        np.fill_diagonal(seen, 0.0)
        if members is not None:
            seen[list(members)] = 0.0
        return seen

    def _steps(self, piece: Piece) -> tuple[Ints, Bools, Floats | None, Bools]:
        """Holder, contributing?, step size (None: constant), noisy? of every step of a piece."""
        sents = self._run.lineage.sents[piece.rows]
        sizes = self.plan.task.step_sizes(self._own_steps(piece.rows))
        return sents["user"].astype(np.int64), sents["real"], sizes, sents["units"] > 0

    def _own_steps(self, rows: Ints) -> Ints:
        visits = self._run.lineage.received[rows]
        known = self._run.logs.visits["step"][np.maximum(visits, 0)]
        return np.asarray(np.where(visits >= 0, known, self._run.lineage.sents["step"][rows] - 1), dtype=np.int64)

    def _cut(self) -> list[Piece]:
        """The branch, cut wherever a token left it, and the abandoned stretches."""
        lineage, position = self._run.lineage, self._run.increments.position
        parent, chain = lineage.parent, lineage.accepted
        cuts = {int(place) for place in self.observations.lost}
        off_branch: dict[int, list[int]] = {}
        for row in np.flatnonzero(~lineage.on_branch).tolist():
            above = int(parent[row])
            place = int(position[above]) if above >= 0 else NOBODY
            if place >= 0 and self._is_twin(row, int(chain[min(place + 1, len(chain) - 1)])):
                cuts.add(place + 1)
                continue
            if place >= 0:
                cuts.add(place)
            off_branch.setdefault(above, []).append(row)
        walking = set(walking_rows(self._run).tolist())
        released = self.plan.walk.release == "all"
        edges = [-1, *sorted(cuts), len(chain) - 1]
        pieces = []
        for low, high in pairwise(edges):
            rows = np.array([row for row in chain[low + 1 : high + 1].tolist() if row in walking], dtype=np.int64)
            pieces.append(Piece(rows, released or high < len(chain) - 1))
        return pieces + _stretches(off_branch, position)

    def _is_twin(self, row: int, other: int) -> bool:
        """Did the same visit send both (refused first, then sent elsewhere)? They hold the same token."""
        sents = self._run.lineage.sents
        if sents["user"][row] != sents["user"][other] or sents["visit"][row] != sents["visit"][other]:
            return False
        same = sents["real"][row] == sents["real"][other] and sents["units"][row] == sents["units"][other]
        if self.is_sgd and not same:
            raise UnmeasurableError("a step of SGD left twice with different content under one noise")
        return True

    # ---- colluding sets ----------------------------------------------------------------------------------------------

    def worst_set(self, size: int, worst_pair: tuple[int, int]) -> tuple[tuple[int, ...], int, float, bool]:
        """(members, user, exposure, exact): the set of ``size`` users that saw most of one other user.

        All sets are tried when they are few; else the worst pair's observer is joined by whoever adds most.
        """
        n = self.plan.n
        if self.is_sgd and self.plan.task.contracts and len(self.pieces) == 1 and size == 2 and n <= _SETS_TRIED // 10:
            return self._worst_sgd_pair()
        if math.comb(n, size) <= _SETS_TRIED:
            best: tuple[tuple[int, ...], int, float] = ((), 0, -1.0)
            for members in combinations(range(n), size):
                column = self.column(members)
                user = int(np.argmax(column))
                if column[user] > best[2]:
                    best = (members, user, float(column[user]))
            return (*best, True)
        user, first = worst_pair
        chosen, value = [first], 0.0
        while len(chosen) < size:
            rest = [v for v in self._neighbours(user) if v not in chosen]
            scored = [(float(self.column([*chosen, v])[user]), -v) for v in rest]
            value, found = max(scored)
            chosen.append(-found)
        return tuple(sorted(chosen)), user, value, False

    def _worst_sgd_pair(self) -> tuple[tuple[int, ...], int, float, bool]:
        (piece,) = self.pieces
        walk, contributing, sizes, noisy = self._steps(piece)
        found = exposure.worst_colluders(walk, self.plan.n, "sgd", 2, piece.released, contributing, sizes, noisy)
        user = int(np.argmax(found.exposure))
        return found.members[user], user, float(found.exposure[user]), found.exact

    def _neighbours(self, user: int) -> list[int]:
        """Others, those that got the token from ``user`` or gave it to it first; at most 200 are tried."""
        sents = self._run.lineage.sents
        got = sents["to"][(sents["user"] == user) & (sents["to"] >= 0)]
        gave = sents["user"][sents["to"] == user]
        near = np.bincount(np.concatenate([got, gave]), minlength=self.plan.n)
        order = np.argsort(-near, kind="stable")
        return [int(v) for v in order if v != user][:200]


def _stretches(off_branch: dict[int, list[int]], position: Ints) -> list[Piece]:
    """Abandoned rows as straight pieces, each seen at its end."""
    pieces = []
    for above, children in off_branch.items():
        hangs_on_branch = above < 0 or int(position[above]) >= 0
        if len(children) == 1 and not hangs_on_branch:
            continue  # it continues the piece of the row above
        for child in children:
            rows = [child]
            while len(below := off_branch.get(rows[-1], [])) == 1:
                rows.append(below[0])
            pieces.append(Piece(np.array(rows, dtype=np.int64), released=True, off_branch=True))
    return pieces
