"""What a plan on a graph of peers promises before it runs (THEORY.md#graph-promise): its worst pair, far enough apart.

Every user alive: a peer that is down bends the law of its neighbours' draws, and then only the number after the run
counts. A cap on contributions lowers what is seen, and a visit that counts for less than 1 does too: neither is used.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from network_dp.accounting import bounds
from network_dp.accounting.moments import Task
from network_dp.accounting.number_cache import kept
from network_dp.graphs.bounds import Bounds
from network_dp.graphs.pairs import USERS_MAX, Promise
from network_dp.graphs.visits import most_visits
from network_dp.plan import Plan
from network_dp.promise import aim, noise_at_every_step
from network_dp.topology import Graph

_TILTS: Final = tuple(float(b) for b in np.geomspace(0.1, 30.0, 7))
_MOST_CLASSES: Final = 200  # of pairs whose law is computed for a limit of single paths


@lru_cache(maxsize=4)
def _promise(task: Task, graph: Graph, released: bool) -> Promise | Bounds:
    kind = Promise if graph.n_users <= USERS_MAX else Bounds
    return kind(task, graph.transition(), graph.stationary(), graph.n_steps, released)


def promise_of(plan: Plan) -> Promise | Bounds:
    """Of all pairs, of thousands of users by bounds; what was computed once serves every noise."""
    return _promise(*_walk(plan))


def worst_pair(plan: Plan, distance: int) -> float:
    """What no pair so far apart loses more than."""
    assert plan.noise.sigma is not None
    return _worst_pair(*_walk(plan), plan.noise.sigma, plan.sensitivity, aim(plan), distance)


def worst_set(plan: Plan, size: int, distance: int) -> float:
    """What nobody loses more than to any so many users together; infinite where too many sets differ."""
    assert plan.noise.sigma is not None
    return _worst_set(*_walk(plan), size, plan.noise.sigma, plan.sensitivity, aim(plan), distance)


def least_sigma(plan: Plan, epsilon: float, distance: int) -> float:
    """Noise with which no pair so far apart loses more than epsilon."""
    return _least_sigma(*_walk(plan), epsilon, plan.sensitivity, aim(plan), distance)


def _walk(plan: Plan) -> tuple[Task, Graph, bool]:
    assert isinstance(plan.topology, Graph)
    return plan.task.accounting, plan.topology, plan.walk.release == "all"


@kept
def _worst_pair(
    task: Task, graph: Graph, released: bool, sigma: float, sensitivity: float, delta: float, distance: int
) -> float:
    return _promise(task, graph, released).worst(sigma, sensitivity, delta, distance).epsilon


@kept
def _worst_set(
    task: Task, graph: Graph, released: bool, size: int, sigma: float, sensitivity: float, delta: float, distance: int
) -> float:
    promise = _promise(task, graph, released)
    found = None if isinstance(promise, Bounds) else promise.worst_set(size, sigma, sensitivity, delta, distance)
    return math.inf if found is None else found[0]


@kept
def _least_sigma(
    task: Task, graph: Graph, released: bool, epsilon: float, sensitivity: float, delta: float, distance: int
) -> float:
    return _promise(task, graph, released).sigma(epsilon, sensitivity, delta, distance)


def against_all(plan: Plan) -> float:
    """What nobody loses more than to all others together: every visit is seen, as many as there are but for a
    probability of half of delta."""
    assert plan.noise.sigma is not None and isinstance(plan.topology, Graph)
    half = aim(plan) / 2
    count = math.floor(most_visits(plan.topology, [plan.total_steps], (), half))
    return bounds.exposure_epsilon(count, plan.noise.sigma, plan.sensitivity, half)


def pairs_in_words(plan: Plan) -> str:
    """Between whom the promise holds; empty where it holds between any two."""
    distance = plan.noise.distance
    if distance is None:
        return ""
    far = f"{distance} hops apart or more; nearer ones are trusted" if distance > 1 else "anywhere in the graph"
    return f"The promise is for the worst pair of users {far}, while all users are alive."


def exposure_limit(plan: Plan, chance: float) -> float:
    """s with P(S_uv > s for any pair) <= ``chance`` while all are alive (Markov on the moments); infinite where the
    graph has too many different pairs to compute that."""
    return _limit(*_walk(plan), chance)


@lru_cache(maxsize=16)
@kept
def _limit(task: Task, graph: Graph, released: bool, chance: float) -> float:
    promise = _promise(task, graph, released)
    if isinstance(promise, Bounds) or len(pairs := promise.representatives()) > _MOST_CLASSES:
        return math.inf
    counts = np.bincount(promise.classes.reshape(-1))
    best = math.inf
    for b in _TILTS:
        terms = [math.log(counts[promise.classes[u, v]]) + promise.prepared(u, v).log_moment(b) for u, v in pairs]
        top = max(terms)
        total = top + math.log(math.fsum(math.exp(term - top) for term in terms))
        best = min(best, (total - math.log(chance)) / b)
    return best


def promised_matrix(plan: Plan) -> NDArray[np.float64] | None:
    """eps(u -> v) of all pairs before the run; None where it is not promised, or where that would take long."""
    sigma = plan.noise.sigma
    if sigma is None or not noise_at_every_step(plan):
        return None
    promise = promise_of(plan)
    if isinstance(promise, Bounds) or len(promise.representatives()) > _MOST_CLASSES:
        return None
    return promise.matrix(sigma, plan.sensitivity, aim(plan))
