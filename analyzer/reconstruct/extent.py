"""How far each log speaks: where a line that is not there contradicts others, and where it is only missing.

A user's visits follow each other by (epoch, step). So a log shows everything its user did up to its last visit in it,
and all there is once it holds the result; later lines may have been cut off. Of a log with a ``rejoined`` line only
what follows the first visit after it is sure to be there: a disk was lost, old or damaged before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analyzer.read.tables import Bools, Ints, Logs, Rows

_NEVER: Final = -1
_FOR_EVER: Final = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Extent:
    """Per user, the hops that its log must show: those after ``after``, up to and with ``until``."""

    rank: Ints  # per epoch: its place in time
    width: int
    after: Ints
    until: Ints

    def place(self, epochs: Ints, steps: Ints) -> Ints:
        """Hops in the order of time."""
        return np.asarray(self.rank[epochs] * self.width + steps, dtype=np.int64)

    def covers(self, users: Ints, epochs: Ints, steps: Ints) -> Bools:
        """Would the log of ``users`` show what they did on the way to these hops?"""
        place = self.place(epochs, steps)
        return np.asarray((self.after[users] < place) & (place <= self.until[users]), dtype=np.bool_)


def since_rejoining(logs: Logs, rows: Rows) -> Bools:
    """Rows of visits that began after the last ``rejoined`` line of their log; all of a log without one."""
    visits, begins = logs.visits, np.zeros(logs.plan.n, dtype=np.int64)
    begins[list(logs.rejoined)] = list(logs.rejoined.values())
    first = np.where(begins > 0, _FOR_EVER, 0)
    later = visits[visits["line"] > begins[visits["user"]]]
    np.minimum.at(first, later["user"], later["visit"])
    return np.asarray(rows["visit"] >= first[rows["user"]], dtype=np.bool_)


def build(logs: Logs) -> Extent:
    rank = np.zeros(len(logs.epochs), dtype=np.int64)
    rank[sorted(range(len(rank)), key=lambda epoch: logs.epochs[epoch])] = np.arange(len(rank))
    extent = Extent(
        rank=rank,
        width=logs.plan.total_steps + 3,
        after=np.full(logs.plan.n, _NEVER, dtype=np.int64),
        until=np.full(logs.plan.n, _NEVER, dtype=np.int64),
    )
    visits = logs.visits[since_rejoining(logs, logs.visits)]
    place = extent.place(visits["epoch"], visits["step"])
    np.maximum.at(extent.until, visits["user"], place)
    extent.until[list(logs.ended)] = _FOR_EVER
    again = np.isin(visits["user"], list(logs.rejoined))
    extent.after[list(logs.rejoined)] = _FOR_EVER
    np.minimum.at(extent.after, visits["user"][again], place[again])
    return extent
