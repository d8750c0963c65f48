"""Which edge to add so that the most exposed pair of a graph is exposed least (THEORY.md#graph-pairs).

Edges at the two users of the worst pair are tried on that pair; the best few are then tried on the whole graph. It is a
search, not a proof that no other edge helps more; the numbers before and after are the promises of the two graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from network_dp import graph_walk
from network_dp.accounting.moments import Task
from network_dp.graphs.bounds import Bounds
from network_dp.graphs.generators import Peers, adjacency
from network_dp.graphs.pairs import Pair, Promise
from network_dp.graphs.weights import WEIGHTS, Floats, Weights, stationary

TRIED = 24  # edges that are tried on the worst pair
KEPT = 3  # of them on the whole graph


@dataclass(frozen=True)
class Question:
    """A walk and its noise; the promise is to users at least `distance` hops apart."""

    task: Task
    weights: Weights
    n_steps: int
    sigma: float
    sensitivity: float
    delta: float
    released: bool = False
    distance: int = 1

    def promise(self, peers: Sequence[Sequence[int]]) -> Promise:
        return Promise(self.task, *self.law(peers), self.n_steps, self.released)

    def bounds(self, peers: Sequence[Sequence[int]]) -> Bounds:
        """For thousands of users."""
        return Bounds(self.task, *self.law(peers), self.n_steps, self.released)

    def law(self, peers: Sequence[Sequence[int]]) -> tuple[Floats, Floats]:
        matrix = adjacency(peers)
        return WEIGHTS[self.weights](matrix), stationary(matrix, self.weights)

    def worst(self, promise: Promise) -> Pair:
        return promise.worst(self.sigma, self.sensitivity, self.delta, self.distance)

    def mean(self, promise: Promise) -> float:
        """What users lose on average to the one, far enough away, that sees most of them."""
        far = promise.distances >= self.distance
        return float((promise.matrix(self.sigma, self.sensitivity, self.delta) * far).max(axis=1).mean())


@dataclass(frozen=True)
class Advice:
    """An edge, and what is lost without and with it: by the worst pair, and by users on average."""

    edge: tuple[int, int]
    before: Pair
    after: Pair
    mean_before: float
    mean_after: float

    @property
    def loss(self) -> tuple[float, float]:
        """The worst pair first; graphs with many alike are told apart by the mean."""
        return round(self.after.epsilon, 6), self.mean_after


def best_edge(
    peers: Sequence[Sequence[int]], question: Question, progress: Callable[[int, int], None] | None = None
) -> Advice | None:
    """The best edge that was found, or None where none helps."""
    promise = question.promise(peers)
    before = question.worst(promise)
    candidates = _candidates(peers, promise, before)
    scored = []
    for done, edge in enumerate(candidates, 1):
        scored.append((_pair_after(with_edge(peers, edge), question, before), edge))
        if progress is not None:
            progress(done, len(candidates) + KEPT)
    mean = question.mean(promise)
    found = []
    for done, (_, edge) in enumerate(sorted(scored)[:KEPT], 1):
        with_it = question.promise(with_edge(peers, edge))
        if question.distance <= with_it.distances.max():
            found.append(Advice(edge, before, question.worst(with_it), mean, question.mean(with_it)))
        if progress is not None:
            progress(len(candidates) + done, len(candidates) + KEPT)
    best = min(found, key=lambda one: one.loss, default=None)
    return best if best is not None and best.loss < (round(before.epsilon, 6), mean) else None


def with_edge(peers: Sequence[Sequence[int]], edge: tuple[int, int]) -> Peers:
    """The peer lists with one edge more."""
    rows = [set(row) for row in peers]
    rows[edge[0]].add(edge[1])
    rows[edge[1]].add(edge[0])
    return [sorted(row) for row in rows]


def _candidates(peers: Sequence[Sequence[int]], promise: Promise, worst: Pair) -> list[tuple[int, int]]:
    """Edges at the worst pair, from near to far, at most `TRIED`, never between the two."""
    ends = (worst.target, worst.observer)
    found = [
        (min(end, other), max(end, other))
        for end in ends
        for other in np.argsort(promise.distances[end], kind="stable").tolist()
        if other not in ends and other not in peers[end]
    ]
    unique = list(dict.fromkeys(found))
    return [unique[i] for i in np.unique(np.linspace(0, len(unique) - 1, TRIED).astype(int))] if unique else []


def _pair_after(peers: Peers, question: Question, pair: Pair) -> float:
    prepared = graph_walk.prepare(
        question.task, *question.law(peers), pair.target, [pair.observer], question.n_steps, question.released
    )
    return prepared.epsilon(question.sigma, question.sensitivity, question.delta)
