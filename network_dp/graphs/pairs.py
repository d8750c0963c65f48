"""epsilon(u -> v) of all pairs before a walk on a graph, its worst pair, and the noise that keeps a promise to pairs.

Pairs that the walk cannot tell apart share one computation. The classes are the stable colours of ordered pairs (the
two-dimensional Weisfeiler-Leman refinement of P and of the start): colour matrices span an algebra that holds P, so
(P^m)_uv, (P^m)_uu, (P^m)_vv and the law of the first visits depend on the colour of (u, v) only, and with them every
first-passage kernel and every moment (THEORY.md#graph-pairs). A hypercube of 2^d users has d classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from network_dp import graph_walk
from network_dp.accounting import gaussian
from network_dp.accounting.bounds import GREATEST_MU, GRID, LEAST_MU, order_above_one
from network_dp.accounting.moments import Task
from network_dp.accounting.search import least
from network_dp.errors import UnreachableError, require, require_target, require_whole
from network_dp.graph_walk import LOWEST
from network_dp.graphs.circle import Circle, Pieces, applies
from network_dp.graphs.sets import Kind, kinds

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

USERS_MAX = 512
CLASSES_MAX = 150  # more are computed all at once
REFINED = 12  # pairs that are computed by themselves in search of the worst
_COARSE = 3  # grid steps of b between moments of all pairs
_STEP_UP = 1.002

Progress = Callable[[int, int], None]  # pairs done, pairs in all


@dataclass(frozen=True)
class Pair:
    """What `target` risks from `observer`."""

    target: int
    observer: int
    epsilon: float


class Promise:
    """A walk of T steps whose path is known: epsilon of single pairs, of all, and of the worst, for any noise.

    Few classes of pairs: each by `graph_walk`. Many: all pairs of an observer at once, by `graphs.circle`, which rounds
    up by about a hundredth; the worst pair is then computed again by itself.
    """

    def __init__(
        self, task: Task, transition: ArrayLike, start: ArrayLike, n_steps: int, released: bool = False
    ) -> None:
        self._law = graph_walk.check_law(transition, start)
        require(task in ("sum", "sgd"), f'task must be "sum" or "sgd", got {task!r}')
        require_whole("n_steps", n_steps, 1)
        n = len(self._law[0])
        require(n <= USERS_MAX, f"all pairs of at most {USERS_MAX} users are computed, got {n}: ask for single pairs")
        self._task, self._n_steps, self._released = task, n_steps, released
        self.classes = pair_classes(*self._law)
        self.distances = distances(self._law[0])
        require(bool(self.distances.max() < n), "the graph is not connected: there are pairs that never meet")
        self._prepared: dict[int, graph_walk.Exposed] = {}
        self._circle: tuple[Circle, list[dict[int, dict[int, Floats]]]] | None = None

    @property
    def by_classes(self) -> bool:
        """Is every pair computed by itself, as one of few classes?"""
        return int(self.classes.max()) < CLASSES_MAX or not applies(*self._law)

    def representatives(self, distance: int = 1) -> list[tuple[int, int]]:
        """One pair (target, observer) of every class, of those at least `distance` hops apart."""
        check_distance(distance, self.distances)
        _, first = np.unique(self.classes, return_index=True)
        pairs = [divmod(int(i), len(self.classes)) for i in first]
        # equal colours have equal distances: the support of P^m is the same
        return [(u, v) for u, v in pairs if u != v and self.distances[u, v] >= distance]

    def pair(self, target: int, observer: int, sigma: float, sensitivity: float, delta: float) -> float:
        """epsilon(target -> observer) at `delta`, by itself."""
        return self.prepared(target, observer).epsilon(sigma, sensitivity, delta)

    def prepared(self, target: int, observer: int) -> graph_walk.Exposed:
        """Moments of one pair; computed once for all pairs of its class."""
        colour = int(self.classes[target, observer])
        if colour not in self._prepared:
            self._prepared[colour] = graph_walk.prepare(
                self._task, *self._law, target, [observer], self._n_steps, self._released
            )
        return self._prepared[colour]

    def matrix(self, sigma: float, sensitivity: float, delta: float, progress: Progress | None = None) -> Floats:
        """epsilon[u, v] of all pairs, 0 on the diagonal."""
        if not self.by_classes and sigma > 0 and sensitivity > 0:
            return self._by_circle(sigma, sensitivity, delta, progress)
        by_class = np.zeros(int(self.classes.max()) + 1)
        pairs = self.representatives()
        for done, (u, v) in enumerate(pairs, 1):
            by_class[self.classes[u, v]] = self.pair(u, v, sigma, sensitivity, delta)
            if progress is not None:
                progress(done, len(pairs))
        return by_class[self.classes]

    def to_colluders(
        self,
        observers: Collection[int],
        sigma: float,
        sensitivity: float,
        delta: float,
        progress: Progress | None = None,
    ) -> Floats:
        """epsilon[u] of every user against these observers together, 0 for themselves."""
        found = np.zeros(len(self.classes))
        for u in range(len(found)):
            if u not in observers:
                found[u] = self.to_set(u, observers, sigma, sensitivity, delta)
            if progress is not None:
                progress(u + 1, len(found))
        return found

    def worst_set(
        self, size: int, sigma: float, sensitivity: float, delta: float, distance: int = 1
    ) -> tuple[float, Kind] | None:
        """What anybody loses to any so many users together, and who; None where too many sets differ."""
        check_distance(distance, self.distances)
        found = kinds(self.classes, self.distances, size, distance, self._n_steps)
        if found is None:
            return None
        return max((self.to_set(*kind, sigma, sensitivity, delta), kind) for kind in found)

    def to_set(self, target: int, observers: Collection[int], sigma: float, sensitivity: float, delta: float) -> float:
        """What one user loses to these together."""
        exposed = graph_walk.prepare(self._task, *self._law, target, observers, self._n_steps, self._released)
        return exposed.epsilon(sigma, sensitivity, delta)

    def worst(self, sigma: float, sensitivity: float, delta: float, distance: int = 1) -> Pair:
        """The pair that loses most, of those at least `distance` hops apart; nearer users are trusted."""
        check_distance(distance, self.distances)
        values = np.where(self.distances >= distance, self.matrix(sigma, sensitivity, delta), -1.0)
        for _ in range(REFINED):
            u, v = divmod(int(values.argmax()), len(values))
            if self.by_classes:
                break
            better = min(self.pair(u, v, sigma, sensitivity, delta), float(values[u, v]))
            values[u, v] = better
            if better >= values.max():
                break
        u, v = divmod(int(values.argmax()), len(values))
        return Pair(u, v, float(values[u, v]))

    def sigma(self, epsilon: float, sensitivity: float, delta: float, distance: int = 1) -> float:
        """Least sigma, to 0.01 % and rounded up, with which no pair that far apart loses more than `epsilon`.

        `delta` is that of continuous noise; for noise on the wire give `promise.aim` of the plan (THEORY.md#grid).
        """
        require_target(epsilon, delta, sensitivity)
        check_distance(distance, self.distances)
        u, v = divmod(int(np.argmax(self.distances == distance)), len(self.distances))
        # a pair like others first, then the worst of all with its noise, and others only if they then lose more
        found = least(partial(self._at, u, v, sensitivity, delta), epsilon, gaussian.sigma(epsilon, delta, sensitivity))
        worst, first = self.worst(found, sensitivity, delta, distance), True
        while first or worst.epsilon > epsilon:
            needed = least(partial(self._at, worst.target, worst.observer, sensitivity, delta), epsilon, found)
            # pairs that were not computed by themselves are bounded a little higher
            found = needed if first else max(found * _STEP_UP, needed)
            worst, first = self.worst(found, sensitivity, delta, distance), False
        return found

    def _at(self, target: int, observer: int, sensitivity: float, delta: float, sigma: float) -> float:
        return self.pair(target, observer, sigma, sensitivity, delta)

    # --- all pairs at once

    def _by_circle(self, sigma: float, sensitivity: float, delta: float, progress: Progress | None) -> Floats:
        mu = sensitivity / sigma
        require(LEAST_MU <= mu <= GREATEST_MU, f"sigma = {sigma} is out of proportion to sensitivity = {sensitivity}")
        guess = self._guess(sigma, sensitivity, delta)
        n = len(self.distances)
        rows = []
        with ThreadPoolExecutor(max_workers=2) as pool:  # numpy lets the other work while it computes
            for row in pool.map(lambda observer: self._row(observer, guess, mu, delta), range(n)):
                rows.append(row)
                if progress is not None:
                    progress(len(rows), n)
        return np.stack(rows, axis=1)

    def _guess(self, sigma: float, sensitivity: float, delta: float) -> int:
        """Where on the grid of b the best order lies for neighbours; makes the circle that suits their moments."""
        degree = (self.distances == 1).sum(axis=1)
        best, most = [], 0.0
        for u in {int(degree.argmin()), int(degree.argmax())}:
            exposed = self.prepared(u, int(np.argmax(self.distances[u] == 1)))
            best.append(exposed.best_index(sigma, sensitivity, delta))
            most = max(most, exposed.known[best[-1]])
        if self._circle is None:
            circle = Circle(self._task, *self._law, self._n_steps, self._released, most + 4.0)
            self._circle = circle, [{} for _ in range(len(degree))]
        return max(best) // _COARSE * _COARSE

    def _row(self, observer: int, guess: int, mu: float, delta: float) -> Floats:
        """epsilon of all users to one observer."""
        assert self._circle is not None
        circle, known = self._circle[0], self._circle[1][observer]
        row = np.zeros(len(self.distances))
        for targets in circle.batches(observer):
            lot = _Lot(circle, observer, targets, known.setdefault(int(targets[0]), {}), mu, delta)
            row[targets], guess = lot.least(guess)
        return row


def _open(values: Floats) -> bool:
    return bool(np.any(np.isinf(values)))


@dataclass
class _Lot:
    """Targets of one observer that are computed together; `known` are their moments on the grid of b."""

    circle: Circle
    observer: int
    targets: Ints
    known: dict[int, Floats]
    mu: float
    delta: float
    pieces: Pieces | None = None

    def least(self, guess: int) -> tuple[Floats, int]:
        """The least epsilon of each over a coarse grid of b, from the guess outwards; and a guess for the next lot."""
        best, middle = self._at(guess), [guess]
        for step in (-_COARSE, _COARSE):
            index = guess + step
            # infinite moments lie to the right
            while bool(np.any((found := self._at(index)) < best)) or (step < 0 and index > LOWEST and _open(best)):
                middle.append(index)
                best, index = np.minimum(best, found), index + step
        return best, sorted(middle)[len(middle) // 2]

    def _at(self, index: int) -> Floats:
        if index not in self.known:
            self.pieces = self.pieces or self.circle.pieces(self.observer, self.targets)
            self.known[index] = self.circle.log_moments(self.pieces, math.exp(index * GRID))
        above_one = min(order_above_one(index, self.mu), 1 / self.delta)
        values = np.full(len(self.targets), np.inf)
        inside = np.isfinite(self.known[index])
        values[inside] = [gaussian.moment_to_epsilon(above_one, x, self.delta) for x in self.known[index][inside]]
        return values


def pair_classes(transition: Floats, start: Floats) -> Ints:
    """colour[u, v]: ordered pairs of equal colour have equal moments. Stable colours, by random fingerprints.

    A round colours (u, v) by its old colour and the multiset over w of the colours of (u, w) and (w, v), told apart by
    two random sums modulo 2^64: that two different multisets ever agree has a probability below n^4 2^-110.
    """
    n = len(start)
    diagonal = np.where(np.eye(n, dtype=np.bool_), start[:, None], -1.0)
    colours = _numbered([transition, transition.T, diagonal])
    random = np.random.default_rng(0)
    while True:
        count = int(colours.max()) + 1
        sums = []
        for _ in range(2):
            left, right = random.integers(0, 2**64, (2, count), dtype=np.uint64, endpoint=False)
            sums.append(left[colours] @ right[colours])
        finer = _numbered([colours, *sums])
        if int(finer.max()) + 1 == count:
            return finer
        colours = finer


def _numbered(parts: Sequence[NDArray[np.generic]]) -> Ints:
    """Equal tuples get equal numbers."""
    colours = np.zeros(parts[0].shape, dtype=np.int64)
    for part in parts:
        _, ranks = np.unique(part, return_inverse=True)
        both = colours * (int(ranks.max()) + 1) + ranks.reshape(part.shape)
        colours = np.unique(both, return_inverse=True)[1].reshape(part.shape)
    return colours


def distances(transition: Floats) -> Ints:
    """Hops between every two users; the number of users where no way leads."""
    hops = shortest_path(csr_array(transition > 0), directed=False, unweighted=True)
    return np.where(np.isfinite(hops), hops, len(transition)).astype(np.int64)


def check_distance(distance: int, hops: Ints) -> None:
    """Are there users so many hops apart?"""
    require_whole("distance", distance, 1)
    longest = hops.max()
    if distance > longest:
        raise UnreachableError(f"no two users are {distance} hops apart: the longest way is {longest}")
