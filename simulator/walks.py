"""Walks of the token as arrays: many steps, or many runs, at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from network_dp.topology import Topology

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def uniform(n_users: int, n_steps: int, generator: np.random.Generator) -> Ints:
    """The complete graph: every holder uniform over all users, the sender included."""
    return generator.integers(0, n_users, n_steps)


def ring(n_users: int, n_rounds: int) -> Ints:
    return np.tile(np.arange(n_users), n_rounds)


def of(topology: Topology, generator: np.random.Generator) -> Ints:
    """One undisturbed walk: who has turns in an order has them in the plan's, else the next is drawn."""
    if topology.rounds is not None:
        return ring(topology.n_users, topology.rounds)
    if topology.uniform:
        return uniform(topology.n_users, topology.total_steps, generator)
    return drawn(topology, generator)


def drawn(topology: Topology, generator: np.random.Generator) -> Ints:
    """Any law of the next holder, with everybody alive."""
    everybody, walk, holder = range(topology.n_users), [], topology.starter
    for step in range(topology.total_steps):
        users, _, weights = topology.next(holder, step, everybody)
        law = None if weights is None else np.array(weights, dtype=np.float64) / sum(weights)
        holder = int(generator.choice(users, p=law))
        walk.append(holder)
    return np.array(walk, dtype=np.int64)


def visit_numbers(walk: Ints) -> Ints:
    """How often the holder of each step has held the token so far, this step included (from 1)."""
    order = np.argsort(walk, kind="stable")
    position = np.arange(len(walk))
    first = np.ones(len(walk), dtype=np.bool_)
    first[1:] = walk[order][1:] != walk[order][:-1]
    numbers = np.empty(len(walk), dtype=np.int64)
    numbers[order] = position - np.maximum.accumulate(np.where(first, position, 0)) + 1
    return numbers


def within_cap(walk: Ints, cap: int | None) -> Bools:
    """Where the holder still contributes: its first `cap` visits."""
    return np.ones(len(walk), dtype=np.bool_) if cap is None else visit_numbers(walk) <= cap
