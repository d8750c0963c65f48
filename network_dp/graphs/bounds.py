"""The worst pair of a graph of thousands of users, by bounds (THEORY.md#graph-growth); single pairs by themselves.

At any b the largest moment of all pairs bounds the epsilon of each of them. Which b is best is found on the pairs of a
few observers, those next to the users with the fewest and the most peers; then all pairs are computed at that b.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from network_dp import graph_walk
from network_dp.accounting import gaussian
from network_dp.accounting.bounds import GREATEST_MU, GRID, LEAST_MU, order_above_one
from network_dp.accounting.moments import Task
from network_dp.accounting.search import descend, least
from network_dp.errors import require, require_target, require_whole
from network_dp.graph_walk import HIGHEST, LOWEST
from network_dp.graphs.circle import applies
from network_dp.graphs.growth import Growth
from network_dp.graphs.pairs import Pair, check_distance, distances

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]  # observers done, observers in all

USERS_MAX = 2_500  # some 35 matrices are held in memory
_ENDS = 4  # users with the fewest peers, and with the most, whose peers are the observers that are tried
_STEP = 3  # of the grid of b


class Bounds:
    """A walk of T steps whose path is known: a bound of what the worst pair loses, and at every distance."""

    def __init__(
        self, task: Task, transition: ArrayLike, start: ArrayLike, n_steps: int, released: bool = False
    ) -> None:
        self._law = graph_walk.check_law(transition, start)
        n = len(self._law[0])
        require(n <= USERS_MAX, f"worst pairs of at most {USERS_MAX} users are bounded, got {n}: ask for single pairs")
        require(applies(*self._law), "a worst pair is bounded for reversible walks from their stationary law only")
        require_whole("n_steps", n_steps, 1)
        self._walk = task, n_steps, released
        self.distances = distances(self._law[0])
        require(bool(self.distances.max() < n), "the graph is not connected: there are pairs that never meet")
        self._largest: dict[int, list[tuple[float, int, int]]] = {}  # by b: per distance the moment and its pair

    @cached_property
    def _growth(self) -> Growth:
        task, n_steps, released = self._walk
        return Growth(task, *self._law, n_steps, released)

    def pair(self, target: int, observer: int, sigma: float, sensitivity: float, delta: float) -> float:
        """epsilon(target -> observer) at `delta`, by itself and not by bounds: minutes for thousands of users."""
        task, n_steps, released = self._walk
        return graph_walk.prepare(task, *self._law, target, [observer], n_steps, released).epsilon(
            sigma, sensitivity, delta
        )

    def worst(
        self, sigma: float, sensitivity: float, delta: float, distance: int = 1, progress: Progress | None = None
    ) -> Pair:
        """The pair with the largest bound, of those at least `distance` hops apart: no other loses more."""
        check_distance(distance, self.distances)
        mu = self._mu(sigma, sensitivity)
        _, index = self._tried(mu, delta, distance)
        found = self._at(index, mu, delta, distance, progress)
        while found.epsilon == math.inf and index > LOWEST:
            index -= _STEP
            found = self._at(index, mu, delta, distance, progress)
        return found

    def by_distance(self, sigma: float, sensitivity: float, delta: float) -> list[float]:
        """What no pair 1, 2, .. hops apart loses more than."""
        worst = self.worst(sigma, sensitivity, delta)
        require(worst.epsilon < math.inf, f"sigma = {sigma:g} is too small: no pair has a finite bound")
        mu = self._mu(sigma, sensitivity)
        return [
            min(self._epsilon(index, moments[d - 1][0], mu, delta) for index, moments in self._largest.items())
            for d in range(1, int(self.distances.max()) + 1)
        ]

    def sigma(self, epsilon: float, sensitivity: float, delta: float, distance: int = 1) -> float:
        """Noise, rounded up, with which no pair that far apart loses more than `epsilon`."""
        require_target(epsilon, delta, sensitivity)
        check_distance(distance, self.distances)
        start = gaussian.sigma(epsilon, delta, sensitivity)
        guess = least(lambda sigma: self._tried(self._mu(sigma, sensitivity), delta, distance)[0], epsilon, start)
        self.worst(guess, sensitivity, delta, distance)

        def at_known(sigma: float) -> float:
            mu = self._mu(sigma, sensitivity)
            return min(self._at(index, mu, delta, distance).epsilon for index in self._largest)

        return least(at_known, epsilon, guess)

    def _mu(self, sigma: float, sensitivity: float) -> float:
        require(sigma > 0 and sensitivity > 0, f"sigma and sensitivity must be positive, got {sigma} and {sensitivity}")
        require(
            LEAST_MU <= sensitivity / sigma <= GREATEST_MU,
            f"sigma = {sigma} is out of proportion to sensitivity = {sensitivity}",
        )
        return sensitivity / sigma

    def _epsilon(self, index: int, log_moment: float, mu: float, delta: float) -> float:
        if log_moment == math.inf:
            return math.inf
        return gaussian.moment_to_epsilon(min(order_above_one(index, mu), 1 / delta), log_moment, delta)

    def _at(self, index: int, mu: float, delta: float, distance: int, progress: Progress | None = None) -> Pair:
        """All pairs at one b."""
        if index not in self._largest:
            self._largest[index] = self._moments(index, range(len(self.distances)), progress)
        moment, target, observer = max(self._largest[index][distance - 1 :])
        return Pair(target, observer, self._epsilon(index, moment, mu, delta))

    def _moments(
        self, index: int, observers: Iterable[int], progress: Progress | None = None
    ) -> list[tuple[float, int, int]]:
        """The largest moment at every distance, with its target and observer."""
        growth, b = self._growth, math.exp(index * GRID)
        growth.fit(b)
        longest = int(self.distances.max())

        def row(observer: int) -> list[tuple[float, int, int]]:
            moments = growth.log_moments(growth.pieces(observer), b)
            assert not np.isnan(np.delete(moments, observer)).any(), "a comparison would lose it"
            best = []
            for d in range(1, longest + 1):
                here = np.flatnonzero(self.distances[observer] == d)
                place = int(here[np.argmax(moments[here])]) if len(here) else observer
                best.append((float(moments[place]) if len(here) else 0.0, place, observer))
            return best

        found = [(0.0, 0, 0)] * longest
        with ThreadPoolExecutor(max_workers=2) as pool:  # numpy lets the other work while it computes
            for done, best in enumerate(pool.map(row, observers), 1):
                found = [max(pair) for pair in zip(found, best, strict=True)]
                if progress is not None:
                    progress(done, len(self.distances))
        return found

    # --- a few observers

    @cached_property
    def _observers(self) -> list[int]:
        degree = (self.distances == 1).sum(axis=1)
        order = np.argsort(degree, kind="stable")
        ends = [*order[:_ENDS].tolist(), *order[-_ENDS:].tolist()]
        return sorted({int(np.argmax(self.distances[u] == 1)) for u in ends} | set(ends))

    @cached_property
    def _few(self) -> dict[int, list[tuple[float, int, int]]]:
        return {}

    def _tried(self, mu: float, delta: float, distance: int) -> tuple[float, int]:
        """The least epsilon over b of the pairs of a few observers, and where on the grid it is."""

        def at(index: int) -> float:
            if index not in self._few:
                self._few[index] = self._moments(index, self._observers)
            return self._epsilon(index, max(self._few[index][distance - 1 :])[0], mu, delta)

        index = descend(at, 0, LOWEST, HIGHEST)
        return at(index), index
