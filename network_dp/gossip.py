"""What a user learns from noisy gossip averaging: the exact exposure of its joint view (THEORY.md#gossip).

Everybody starts with its value plus one Gaussian noise, x0_u = x_u + N(0, sigma^2); in each round users send their
number to their peers and average, x <- W x. In T rounds v receives (W^t x0)_w from its peers w, t < T, and knows its
own. Replacing u's value shifts x0 by e_u under independent noises: the exposure of u is the squared length of e_u's
projection on the space of the rows that v received, its own column left out. Rounds cannot be added up: all of them
show the SAME noises.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from network_dp.errors import require, require_whole

Floats = NDArray[np.float64]


def joint_exposure(peers: Sequence[Sequence[int]], n_rounds: int, observer: int) -> Floats:
    """S_u of every user after T rounds with Metropolis weights; 0 for the observer itself.

    The space of the rows is found in exact fractions: its dimension is what decides, and floats cannot tell it. On a
    graph where it is everything, S_u = 1: v knows x0_u to the last digit.
    """
    require_whole("n_rounds", n_rounds)
    require_whole("observer", observer)
    require(observer < len(peers), f"observer must be a user index from 0 to {len(peers) - 1}, got {observer}")
    space = _space(peers, n_rounds, observer)
    exposure = np.zeros(len(peers))
    if not space:
        return exposure
    basis = np.array([[float(x) for x in row] for row in space])
    orthogonal = np.linalg.qr(basis.T)[0]
    others = np.delete(np.arange(len(peers)), observer)
    exposure[others] = np.minimum(np.sum(orthogonal**2, axis=1), 1.0) if len(space) < len(others) else 1.0
    return exposure


def _space(peers: Sequence[Sequence[int]], n_rounds: int, observer: int) -> list[list[Fraction]]:
    """A basis, in reduced row echelon form, of the rows of W^t, t < T, of the observer's peers without its column."""
    n = len(peers)
    weights = _metropolis(peers)
    rows = {w: [Fraction(int(x == w)) for x in range(n)] for w in peers[observer]}
    basis: dict[int, list[Fraction]] = {}
    for _ in range(n_rounds):
        before = len(basis)
        for row in rows.values():
            _insert(basis, [value for x, value in enumerate(row) if x != observer])
        if len(basis) in (before, n - 1):
            # nothing new in a round means nothing new ever after: the space is closed under W but for known numbers
            break
        rows = {w: _times(row, weights) for w, row in rows.items()}
    return [basis[pivot] for pivot in sorted(basis)]


def _metropolis(peers: Sequence[Sequence[int]]) -> list[dict[int, Fraction]]:
    weights = []
    for x, row in enumerate(peers):
        each = {y: Fraction(1, 1 + max(len(row), len(peers[y]))) for y in row}
        each[x] = 1 - sum(each.values(), Fraction(0))
        weights.append(each)
    return weights


def _times(row: list[Fraction], weights: list[dict[int, Fraction]]) -> list[Fraction]:
    result = [Fraction(0)] * len(row)
    for x, value in enumerate(row):
        if value:
            for y, weight in weights[x].items():
                result[y] += value * weight
    return result


def _insert(basis: dict[int, list[Fraction]], row: list[Fraction]) -> None:
    """Add a row to a basis of which each has a 1 where all others have 0, and keep it so."""
    for place, known in basis.items():
        row = _cleared(row, place, known)
    pivot = next((place for place, value in enumerate(row) if value), None)
    if pivot is None:
        return
    lead = row[pivot]
    row = [value / lead for value in row]
    for place in basis:
        basis[place] = _cleared(basis[place], pivot, row)
    basis[pivot] = row


def _cleared(row: list[Fraction], place: int, known: list[Fraction]) -> list[Fraction]:
    factor = row[place]
    return [a - factor * b for a, b in zip(row, known, strict=True)] if factor else row
