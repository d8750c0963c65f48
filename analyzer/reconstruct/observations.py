"""What an observer saw of everybody else, on any path: forks, re-issues, skips and refused tokens included.

A sum's exposure (THEORY.md#exposure-sum, #exposure-general). On the accepted branch its observations are disjoint
increments, each worth c^2 / (full noises of others in it). A token that left for the observer off that branch
shares noise and contributions with the increments around it; those few observations go together through c' Sigma^+ c
(``network_dp.exposure.general``). A set of colluders is one observer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analyzer.checks.integrity import Run, cover_added
from analyzer.read.tables import NOBODY, Bools, Floats, Ints
from analyzer.reconstruct.lineage import contributions_per_user
from network_dp.exposure import Observation, general, pure

Numbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Increments:
    """The disjoint increments one observer saw on the accepted branch: which users are in which, how often."""

    user: Ints
    cycle: Numbers
    count: Ints  # contributions of ``user`` in ``cycle``, at least 1
    noise: Floats  # per cycle: full noises of others
    elements: Ints  # per cycle: cover elements that others added to a histogram of responses
    number: Numbers  # per step of the branch: the cycle it lies in

    def answers(self) -> Floats:
        """Contributions per cycle."""
        return np.bincount(self.cycle, self.count, minlength=len(self.noise)).astype(np.float64)


@dataclass(slots=True)
class Piece:
    """Answers and cover elements that lie in the very same observations."""

    answers: Counter[int] = field(default_factory=Counter)  # by user
    elements: int = 0


class Observations:
    """Everything anybody saw of a run, ready to be asked for one observer after the other."""

    def __init__(self, run: Run) -> None:
        lineage, plan = run.lineage, run.plan
        self._n, self._full = plan.n, plan.unit_count
        self._sents, self._parent = lineage.sents, lineage.parent
        self._chain, self._position = lineage.accepted, run.increments.position
        chain = lineage.accepted
        self._user = lineage.sents["user"][chain].astype(np.int64)
        self._to = lineage.sents["to"][chain].astype(np.int64)
        self._real = lineage.sents["real"][chain].astype(np.float64)
        units = lineage.sents["units"][chain].astype(np.int64)
        self._noise_before = np.concatenate([[0], np.cumsum(units)]) / plan.unit_count
        on_branch = cover_added(run)
        self._elements_before = np.concatenate([[0], np.cumsum(on_branch)])
        self._elements: Ints = lineage.sents["cover"].astype(np.int64)
        self._elements[chain] = on_branch
        giving = np.flatnonzero(self._real)
        self._giving = giving[np.argsort(self._user[giving], kind="stable")]  # contributing steps by user, then time
        self._giver = self._user[self._giving]
        self._other_giver = self._giver[1:] != self._giver[:-1]
        self._released = plan.walk.release == "all"
        follows = np.append(self._user[1:], NOBODY)
        self.lost: Ints = np.flatnonzero(
            (self._to >= 0) & (self._to != follows)
        )  # left, but the branch went on elsewhere
        self._off_branch: Ints = np.flatnonzero(~lineage.on_branch & (lineage.sents["to"] >= 0))
        # An end that did not become the result: nobody's log says who was told, so everybody is taken to have been.
        dropped = ~lineage.on_branch & (lineage.sents["to"] == NOBODY) & self._released
        self._dropped_ends: Ints = np.flatnonzero(dropped)
        self._units_of_visit = self._visits_with_several_sends()
        self._place_of_visit = self._places_of_split_visits()

    @property
    def most_extra(self) -> int:
        """What tokens seen off the accepted branch add at most to one user's S on a ring: each 1, or as many
        contributions of one user as it holds since its observer's last one. A token whose content is all in the
        branch, refused or lost, adds nothing: it only cuts a window in two."""
        off_branch = [row for row in self._off_branch.tolist() if not self._in_branch(row)]
        ends = self._dropped_ends.tolist()
        seen: dict[int, list[int]] = {user: list(ends) for user in range(self._n)} if ends else {}
        for row in off_branch:
            seen.setdefault(int(self._sents["to"][row]), []).append(row)
        return max((sum(self._new_in(row, user) for row in rows) for user, rows in seen.items()), default=0)

    def _in_branch(self, row: int) -> bool:
        """Is it an earlier send of a visit of the branch, with no more in it?"""
        user, visit, units, real = (self._sents[name][row] for name in ("user", "visit", "units", "real"))
        place = self._place_of_visit.get((int(user), int(visit)))
        if place is None:
            return False
        kept = self._sents[self._chain[place]]
        return bool(real == kept["real"] and units <= kept["units"])

    def _new_in(self, row: int, observer: int) -> int:
        """Most contributions of one user in a token since the last one the observer sent or saw on the way to it."""
        path = [row]
        while (row := int(self._parent[row])) >= 0 and self._sents["user"][row] != observer:
            if self._sents["to"][row] == observer:
                break
            path.append(row)
        return max(1, int(contributions_per_user(self._sents[path], self._n).max()))

    def _visits_with_several_sends(self) -> dict[tuple[int, int], list[int]]:
        """Visits that left more than once with different amounts of noise: (user, visit) -> amounts, ascending."""
        units: dict[tuple[int, int], set[int]] = {}
        rows = [*self._off_branch, *self._dropped_ends]
        off_branch = {(int(self._sents["user"][row]), int(self._sents["visit"][row])) for row in rows}
        if off_branch:
            for user, visit, amount in zip(
                self._sents["user"].tolist(), self._sents["visit"].tolist(), self._sents["units"].tolist(), strict=True
            ):
                if (user, visit) in off_branch:
                    units.setdefault((user, visit), set()).add(amount)
        return {key: sorted(amounts) for key, amounts in units.items()}

    def _places_of_split_visits(self) -> dict[tuple[int, int], int]:
        visits = self._sents["visit"][self._chain].tolist()
        return {
            (user, visit): place
            for place, (user, visit) in enumerate(zip(self._user.tolist(), visits, strict=True))
            if (user, visit) in self._units_of_visit
        }

    # ---- one observer --------------------------------------------------------------------------------------------

    def increments(self, observer: Bools) -> Increments:
        """Its increments on the accepted branch, the release included."""
        held = observer[self._user]
        number = np.cumsum(held, dtype=np.int32)
        places = np.flatnonzero(held)
        ends = places  # a cycle is seen when the observer holds the token next, or when the result is released
        if self._released and len(held) and not held[-1]:
            ends = np.append(places, len(held))
        starts = np.concatenate([[0], places + 1])[: len(ends)]
        noise = self._noise_before[ends] - self._noise_before[starts]
        elements = self._elements_before[ends] - self._elements_before[starts]
        cycle = number[self._giving]
        new = np.ones(len(cycle), dtype=np.bool_)
        np.not_equal(cycle[1:], cycle[:-1], out=new[1:])
        new[1:] |= self._other_giver
        first = np.flatnonzero(new)
        count = np.diff(first, append=len(cycle))
        user, cycle = self._giver[first], cycle[first]
        kept = (cycle < len(ends)) & ~observer[user]
        return Increments(user[kept], cycle[kept], count[kept], noise, elements, number)

    def pieces(self, observer: Bools, found: Increments) -> tuple[Ints, list[Piece]]:
        """The increments that tokens off the branch share something with, and all of these observations in pieces.

        Each observation is a sum of pieces, so whoever is shown every piece by itself learns at least as much; and
        pieces have nothing in common. A token that was refused and went on elsewhere just cuts an increment in two."""
        extra = self._extra_sights(observer)
        touched = np.array(sorted(self._touched(extra, found.number, len(found.noise))), dtype=np.int64)
        sights = [*self._rows_of(observer, found, touched), *extra]
        holding: dict[tuple[int, int, bool], list[tuple[int, int]]] = defaultdict(list)
        for index, rows in enumerate(sights):
            for row in rows:
                user, visit = int(self._sents["user"][row]), int(self._sents["visit"][row])
                holding[user, visit, True].append((int(self._sents["real"][row]), index))
                holding[user, visit, False].append((int(self._elements[row]), index))
        pieces: dict[frozenset[int], Piece] = defaultdict(Piece)
        for (user, _, answer), seen in holding.items():
            below = 0
            for amount in sorted({amount for amount, _ in seen if amount}):  # what left again may hold more
                piece = pieces[frozenset(index for held, index in seen if held >= amount)]
                if answer:
                    piece.answers[user] += 1
                else:
                    piece.elements += amount - below
                below = amount
        return touched, list(pieces.values())

    def _rows_of(self, observer: Bools, found: Increments, cycles: Ints) -> Iterator[list[int]]:
        """What others sent in each of these cycles of the branch."""
        low, high = (np.searchsorted(found.number, cycles + more) for more in (0, 1))
        for first, stop in zip(low.tolist(), high.tolist(), strict=True):
            yield self._chain[first:stop][~observer[self._user[first:stop]]].tolist()

    def column(self, observer: Bools, *, laplace: bool = False) -> Floats:
        """Exposure of every user to the observer: the sum of c^2 / noise, infinite where data came without noise.

        ``laplace``: how many contributions it saw, each under a noise."""
        found = self.increments(observer)
        extra = self._extra_sights(observer)
        with np.errstate(divide="ignore"):
            price = np.where(found.noise < 1, np.inf, 1.0) if laplace else 1.0 / found.noise
        together = sorted(self._touched(extra, found.number, len(price))) if extra else []
        price[together] = 0.0
        worth = (found.count if laplace else found.count**2) * price[found.cycle]
        result = np.bincount(found.user, worth, minlength=self._n).astype(np.float64)
        if extra:
            inside = self._rows_of(observer, found, np.array(together, dtype=np.int64))
            observations = [self._observation(rows) for rows in [*inside, *extra]]
            for user, exposure in (pure if laplace else general)(observations).items():
                result[user] += exposure
        result[observer] = 0.0
        return result

    def costliest(self, u: int, v: int) -> tuple[int, int, float, int]:
        """(which of u's contributions came last, how many, full noises, steps in between) of v's dearest look at u."""
        observer: Bools = np.zeros(self._n, dtype=np.bool_)
        observer[v] = True
        found = self.increments(observer)
        mine = found.user == u
        if not mine.any():
            return 0, 0, 0.0, 0
        cycles = found.cycle[mine]
        with np.errstate(divide="ignore"):
            dearest = int(cycles[np.argmax(found.count[mine] ** 2 / found.noise[cycles])])
        inside = np.flatnonzero((found.number == dearest) & ~observer[self._user])
        own = inside[(self._user[inside] == u) & (self._real[inside] > 0)]
        which = int(np.sum(self._real[: own[-1] + 1][self._user[: own[-1] + 1] == u]))
        return which, len(own), float(found.noise[dearest]), int(inside[-1] - own[-1])

    def _extra_sights(self, observer: Bools) -> list[list[int]]:
        """Rows between the observer's last own token and each token that reached it off the branch."""
        rows = [int(self._chain[place]) for place in self.lost if observer[self._to[place]]]
        rows += [int(row) for row in self._off_branch if observer[self._sents["to"][row]]]
        rows += [int(row) for row in self._dropped_ends]
        found = []
        for row in rows:
            if observer[self._sents["user"][row]]:
                continue
            path = []
            while row >= 0 and not observer[self._sents["user"][row]]:
                path.append(row)
                row = int(self._parent[row])
            found.append(path)
        return found

    def _touched(self, extra: list[list[int]], number: Numbers, size: int) -> set[int]:
        """Increments of the branch that share a noise or a contribution with an extra observation."""
        touched: set[int] = set()
        for path in extra:
            for row in path:
                place = int(self._position[row])
                if place < 0:
                    key = (int(self._sents["user"][row]), int(self._sents["visit"][row]))
                    place = self._place_of_visit.get(key, NOBODY)
                if place >= 0 and number[place] < size:
                    touched.add(int(number[place]))
        return touched

    def _observation(self, rows: list[int]) -> Observation:
        contributions: dict[int, float] = {}
        noises: dict[Hashable, float] = {}
        for row in rows:
            user, visit, units = (int(self._sents[name][row]) for name in ("user", "visit", "units"))
            if self._sents["real"][row]:
                contributions[user] = contributions.get(user, 0.0) + 1.0
            below = 0
            for amount in self._units_of_visit.get((user, visit), [units]):
                if amount <= units and amount > below:
                    noises[user, visit, below] = float(np.sqrt((amount - below) / self._full))
                    below = amount
        return Observation(contributions, noises)
