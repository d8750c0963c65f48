"""What users of a graph lose to several others that pool what they see (THEORY.md#graph-sets).

Kernels of E = O + {u} depend on the colours of the pairs in E only, as those of single pairs do (`pairs`). So sets
whose pairs have the same colours, in some order, share one computation; a hypercube of 16 has 13 kinds of a user and
two others. Where there are too many kinds, only a bound against everybody else together is offered.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Kind = tuple[int, tuple[int, ...]]  # a target and its observers

MOST_LISTED: Final = 60_000  # sets that are looked at
MOST_STEPS: Final = 30_000  # of walks, over all kinds whose loss is computed: some 10 s


def kinds(classes: Ints, distances: Ints, size: int, distance: int, n_steps: int) -> list[Kind] | None:
    """One target and set of ``size`` others (all there are, if fewer), at least ``distance`` hops from it, of every
    kind; None: there are too many for walks of so many steps.

    Stable colours say that targets of one colour see the same pairs of others, and no more: of larger sets every target
    has its own."""
    _, alike = np.unique(classes.diagonal(), return_index=True)
    targets = alike if size <= 2 else np.arange(len(classes))
    far = {int(u): np.flatnonzero(distances[u] >= distance).tolist() for u in targets}
    if sum(math.comb(len(others), min(size, len(others))) for others in far.values()) > MOST_LISTED:
        return None
    found: dict[tuple[int, ...], Kind] = {}
    for u, others in far.items():
        for chosen in combinations(others, min(size, len(others))):
            if chosen:
                found.setdefault(_colours(classes, u, chosen), (u, chosen))
        if len(found) * n_steps > MOST_STEPS:
            return None
    return list(found.values())


def _colours(classes: Ints, target: int, observers: tuple[int, ...]) -> tuple[int, ...]:
    """Of all pairs in the set, its members in an order that hardly depends on their numbers."""

    def key(v: int) -> tuple[int, ...]:
        return int(classes[target, v]), *sorted(classes[v, list(observers)].tolist())

    members = [target, *sorted(observers, key=key)]
    return tuple(classes[np.ix_(members, members)].ravel().tolist())
