"""Walks of the token as arrays: many steps, or many runs, at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def uniform(n_users: int, n_steps: int, generator: np.random.Generator) -> Ints:
    """The complete graph: every holder uniform over all users, the sender included."""
    return generator.integers(0, n_users, n_steps)


def ring(n_users: int, n_rounds: int) -> Ints:
    return np.tile(np.arange(n_users), n_rounds)


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
