"""Along every branch: how much noise and how many contributions were added between two observations of the same user.

For a sent token x and the user v it went to, v's ``anchor`` is the last token v itself sent on the way to x. What v
learns from x is the increment between the two: contributions and noise of others only, because v's own last addition
is in the anchor. W and W_r (THEORY.md#ring-ledger) are ``units_after`` at x and at r's anchor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyzer.read.tables import Bools, Ints
from analyzer.reconstruct.lineage import LOST, ROOT, Lineage


@dataclass(frozen=True, slots=True)
class Increments:
    """Running counts of every sent row (``LOST`` rows start at zero and are marked unknown)."""

    units_after: Ints
    contributions_after: Ints
    ghosts_after: Ints  # tokens of users whose logs are missing
    anchor: Ints  # row, ROOT, or LOST
    position: Ints  # place on the accepted branch, -1 off it
    last_position: Ints  # per user: its last place on the accepted branch, -1 if it has none

    def increment(self, rows: Ints, values: Ints) -> Ints:
        """What was added since the anchor, for ``values`` = units_after or contributions_after."""
        anchors = self.anchor[rows]
        before = np.where(anchors >= 0, values[np.maximum(anchors, 0)], 0)
        return np.asarray(values[rows] - before, dtype=np.int64)


class _Branches:
    """Finds, for rows off the accepted branch, the last token a user sent on the way to them."""

    def __init__(self, lineage: Lineage, position: Ints, last_before: dict[int, list[int]]) -> None:
        self._parent: list[int] = lineage.parent.tolist()
        self._user: list[int] = lineage.sents["user"].tolist()
        self._position: list[int] = position.tolist()
        self._chain: list[int] = lineage.accepted.tolist()
        self._places = last_before

    def anchor(self, row: int, user: int) -> int:
        while row >= 0 and self._position[row] < 0:
            if self._user[row] == user:
                return row
            row = self._parent[row]
        if row < 0:
            return row
        places = self._places.get(user, [])
        index = int(np.searchsorted(places, self._position[row], side="right")) - 1
        if index >= 0:
            return self._chain[places[index]]
        return ROOT if self._parent[self._chain[0]] == ROOT else LOST


def build(lineage: Lineage, n_users: int) -> Increments:
    """Counts along the accepted branch first, then along everything that hangs off it."""
    sents, chain = lineage.sents, lineage.accepted
    units, real = sents["units"].astype(np.int64), sents["real"].astype(np.int64)
    size = len(sents)
    position = np.full(size, -1, dtype=np.int64)
    position[chain] = np.arange(len(chain))
    units_after, contributions_after = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    units_after[chain], contributions_after[chain] = np.cumsum(units[chain]), np.cumsum(real[chain])
    ghost = (np.arange(size) >= size - lineage.n_ghosts).astype(np.int64)
    ghosts_after = np.zeros(size, dtype=np.int64)
    ghosts_after[chain] = np.cumsum(ghost[chain])
    anchor = np.full(size, LOST, dtype=np.int64)
    last = [ROOT if lineage.complete else LOST] * n_users
    places: dict[int, list[int]] = {}
    users: list[int] = sents["user"].tolist()
    receivers: list[int] = sents["to"].tolist()
    for place, row in enumerate(chain.tolist()):
        last[users[row]] = row
        places.setdefault(users[row], []).append(place)
        anchor[row] = last[receivers[row]] if receivers[row] >= 0 else LOST
    branches = _Branches(lineage, position, places)
    parent: list[int] = lineage.parent.tolist()
    for row in _parents_first(parent, position):
        above = parent[row]
        if above >= 0:
            units_after[row] = units_after[above]
            contributions_after[row] = contributions_after[above]
            ghosts_after[row] = ghosts_after[above]
        units_after[row] += units[row]
        contributions_after[row] += real[row]
        ghosts_after[row] += ghost[row]
        if receivers[row] >= 0:
            anchor[row] = branches.anchor(row, receivers[row])
    last_position = np.full(n_users, -1, dtype=np.int64)
    for user, held in places.items():
        last_position[user] = held[-1]
    return Increments(units_after, contributions_after, ghosts_after, anchor, position, last_position)


def _parents_first(parent: list[int], position: Ints) -> list[int]:
    """Rows off the accepted branch, every one after its parent."""
    order: list[int] = []
    done: Bools = position >= 0
    for start in np.flatnonzero(~done).tolist():
        path = []
        row = start
        while row >= 0 and not done[row]:
            done[row] = True
            path.append(row)
            row = parent[row]
        order.extend(reversed(path))
    return order
