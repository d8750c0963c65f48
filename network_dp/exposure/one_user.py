"""Exposure of one user u to every single observer: one row of the matrix, in a few passes over the walk.

An observer's cycle lasts from one of its visits to the next. With N(t) contributions of u before step t, the cycle that
ends at step e and began after step e' holds c = N(e) - N(e' + 1) of them: all cycles of all observers are one array.

* sum: c^2 / m.
* SGD: the greatest convex minorant of u's contributions i .. j in the cycle, where only the last one's width depends on
  the observer. What pooling has made of i .. j-1 is therefore the same for all observers, and tabulated once for all
  users: the last piece, and the energy of all. A cycle then adds its last step and merges backwards while slopes
  decrease, which few do more than twice. Cycles with more contributions than the table holds are pooled one by one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from network_dp.exposure.paths import Bools, Floats, Ints, Path

_DEPTH = 16  # neighbouring contributions that the table covers; in a uniform walk one cycle in 2^17 holds more


class ExposureRows:
    """Rows of the exposure of a path."""

    def __init__(self, path: Path) -> None:
        self._path = path
        n_steps, n = len(path.walk), path.n_users
        self._who, end = path.walk, np.arange(n_steps)
        if path.released:  # everybody sees the last token
            self._who, end = np.append(path.walk, np.arange(n)), np.append(end, np.full(n, n_steps))
        order = np.argsort(self._who, kind="stable")
        following = self._who[order][1:] == self._who[order][:-1]
        self._start = np.zeros(len(end), dtype=np.int64)
        self._start[order[1:][following]] = end[order[:-1][following]] + 1
        self._end = path.clock[end]
        noise = self._end - path.clock[self._start]
        self._bare = np.flatnonzero(noise == 0)  # nothing but the data, if there is any
        with np.errstate(divide="ignore"):
            self._weight = np.where(noise > 0, 1 / noise, 0.0)
        self._first = np.searchsorted(path.user, np.arange(n + 1))  # contributions of u: first[u] .. first[u + 1]
        self._pieces = _Pieces(path) if path.task == "sgd" else None

    def of(self, u: int) -> Floats:
        """S[u, v] for every v; 0 for v = u."""
        path = self._path
        mine = path.step[self._first[u] : self._first[u + 1]]
        if len(mine) == 0:
            return np.zeros(path.n_users)
        gaps = np.empty(len(mine) + 1, dtype=np.int64)
        gaps[0], gaps[1:-1], gaps[-1] = mine[0] + 1, mine[1:] - mine[:-1], len(path.walk) - mine[-1]
        before = np.repeat(np.arange(len(mine) + 1, dtype=np.int32), gaps)  # contributions of u before each step, and T
        after = before[:-1]
        if path.released:
            after = np.append(after, np.full(path.n_users, before[-1]))
        first = before.take(self._start)
        row = self._sum(after - first) if self._pieces is None else self._sgd(self._pieces, u, first, after)
        row[u] = 0.0
        return row

    def _sum(self, count: NDArray[np.int32]) -> Floats:
        energy = np.multiply(count, count, dtype=np.float64)
        energy *= self._weight
        energy[self._bare[count[self._bare] > 0]] = np.inf
        return self._per_observer(self._who, energy)

    def _sgd(self, pieces: _Pieces, u: int, first: NDArray[np.int32], after: NDArray[np.int32]) -> Floats:
        cycle = np.flatnonzero(after > first)
        base = self._first[u]
        energy = pieces.energy(first[cycle] + base, after[cycle] + base, self._end[cycle])
        return self._per_observer(self._who[cycle], energy)

    def _per_observer(self, who: Ints, energy: Floats) -> Floats:
        return np.asarray(np.bincount(who, energy, minlength=self._path.n_users), dtype=np.float64)


class _Pieces:
    """Pooled pieces of the contributions i .. i + d of one user, for all i and d < _DEPTH: at place d * size + i."""

    def __init__(self, path: Path) -> None:
        self._time, self._height = np.append(path.start, np.inf), path.height_before
        self._size = len(path.start)
        self._begin = np.zeros(_DEPTH * self._size, dtype=np.int64)  # first contribution of the last piece
        self._slope = np.zeros(_DEPTH * self._size)  # of the last piece
        self._energy = np.zeros(_DEPTH * self._size)  # of all pieces
        first = np.arange(self._size)
        with np.errstate(all="ignore"):  # what reaches beyond a user's last contribution is nonsense that nobody uses
            for depth in range(_DEPTH):
                after = np.minimum(first + depth + 1, self._size)
                row = slice(depth * self._size, (depth + 1) * self._size)
                self._begin[row], self._slope[row], self._energy[row] = self._close(first, after, self._time[after])

    def energy(self, first: Ints, after: Ints, end: Floats) -> Floats:
        """Of cycles with the contributions first .. after - 1 that end when the clock shows `end`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            deep = np.flatnonzero(after - first > _DEPTH + 1)
            if len(deep) == 0:
                return self._close(first, after, end)[2]
            energy = self._close(np.where(after - first > _DEPTH + 1, after - 1, first), after, end)[2]
            energy[deep] = self._pool(first[deep], after[deep], end[deep])
        return energy

    def _close(self, first: Ints, after: Ints, end: Floats) -> tuple[Ints, Floats, Floats]:
        """Add the last contribution, which lasts until `end`, and merge it backwards while slopes decrease.

        Gives the first contribution and the slope of the last piece, and the energy of all.
        """
        begin = after - 1
        width, rise = end - self._time.take(begin), self._height.take(after) - self._height.take(begin)
        open_ = np.flatnonzero(begin > first)
        while len(open_):
            place = self._place(first[open_], begin[open_])
            merges = self._slope.take(place) * width[open_] > rise[open_]
            open_, left = open_[merges], self._begin.take(place[merges])
            begin[open_] = left
            width[open_] = end[open_] - self._time.take(left)
            rise[open_] = self._height.take(after[open_]) - self._height.take(left)
            open_ = open_[left > first[open_]]
        slope = rise / width
        energy = rise * slope
        more = np.flatnonzero(begin > first)
        energy[more] += self._energy.take(self._place(first[more], begin[more]))
        return begin, slope, energy

    def _place(self, first: Ints, begin: Ints) -> Ints:
        """Where the table has the pieces of the contributions first .. begin - 1."""
        return (begin - 1 - first) * self._size + first

    def _pool(self, first: Ints, after: Ints, end: Floats) -> Floats:
        many = after - first
        cycle = np.repeat(np.arange(len(first)), many)
        step = np.arange(len(cycle)) - np.repeat(np.cumsum(many) - many, many) + first[cycle]
        last = np.diff(cycle, append=len(first)) != 0
        right = np.where(last, end[cycle], self._time[step + 1])
        return pooled_energy(
            self._time[step], right, self._height[step], self._height[step + 1], last, cycle, len(first)
        )


def pooled_energy(
    left: Floats, right: Floats, below: Floats, above: Floats, last: Bools, group: Ints, n_groups: int
) -> Floats:
    """Sum of height^2 / width over the pieces of the greatest convex minorant of each cycle's staircase, per group.

    Contributions in order of time, `last` where a cycle ends. Pooling adjacent violators: two neighbours whose slopes
    decrease always lie on the same piece, so every maximal run of violators may be merged at once.
    """
    total = np.zeros(n_groups)
    while len(group):
        slope = (above - below) / (right - left)
        stop = last.copy()
        stop[:-1] |= slope[1:] >= slope[:-1]
        # Only cycles in which something merges can change again; the others are settled now.
        cycle: Ints = np.cumsum(last) - last
        changing = np.zeros(cycle[-1] + 1, dtype=np.bool_)
        changing[cycle[~stop]] = True
        open_ = changing[cycle]
        settled = ~open_
        total += np.bincount(group[settled], ((above - below) * slope)[settled], minlength=n_groups)
        stops = np.flatnonzero(open_ & stop)
        start = np.empty_like(stop)
        start[0], start[1:] = True, stop[:-1]
        starts = np.flatnonzero(open_ & start)
        left, below = left[starts], below[starts]
        right, above, group, last = right[stops], above[stops], group[stops], last[stops]
    return total
