"""How often a walk among peers meets one user at most, whoever of some users is down when (THEORY.md#graphs).

Chernoff on the moment E exp(t N_u), step by step backwards. A holder whose peers may be down draws among the others in
the same proportions: whichever of them being down makes the moment largest is taken, so the bound holds for every
pattern of absences of those users, also one that depends on the walk.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from network_dp.topology import Graph

Floats = NDArray[np.float64]

_TILTS: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.1, 1.6, 2.3, 3.2)
_UPWARDS: Final = 1.0 + 1e-9  # far beyond the rounding of the sums


def most_visits(graph: Graph, lengths: Sequence[int], down: Collection[int], chance: float) -> float:
    """k with P(any user is met more than k times) <= ``chance`` in walks of these lengths, each from anywhere."""
    room = math.log(graph.n_users / chance)
    bounds = [sum(log_moment(graph, length, frozenset(down), tilt) for length in lengths) for tilt in _TILTS]
    most = min((moment + room) / tilt for moment, tilt in zip(bounds, _TILTS, strict=True))
    return min(float(sum(lengths)), most * _UPWARDS)


def log_moment(graph: Graph, length: int, down: frozenset[int], tilt: float) -> float:
    """ln of the largest E exp(t N_u) over users u and over the holder from which a walk of this length starts."""
    n, matrix = graph.n_users, graph.transition()
    met = np.ones((n, n)) + np.eye(n) * math.expm1(tilt)  # [u, y]
    value, scale = np.ones((n, n)), 0.0  # [u, x], times exp(scale)
    doubtful = [x for x in range(n) if any(peer in down for peer in graph.peers[x])]
    for _ in range(length):
        gain = met * value
        value = gain @ matrix.T
        for x in doubtful:
            value[:, x] = _worst(gain, matrix[x], np.array([user in down for user in range(n)]) & (matrix[x] > 0))
            value[:, x] = np.maximum(value[:, x], gain @ matrix[x])
        top = float(value.max())
        value, scale = value / top, scale + math.log(top)
    return scale * _UPWARDS


def _worst(gain: Floats, row: Floats, absent: NDArray[np.bool_]) -> Floats:
    """Per user u: the largest mean of ``gain`` over a row from which any of the ``absent`` may be left out."""
    places = np.flatnonzero(absent)
    order = places[np.argsort(-gain[:, places], axis=1)]  # [u, i]: whom to keep first
    weights, gains = row[order], np.take_along_axis(gain, order, axis=1)
    kept = row * ~absent
    mass = np.concatenate([np.zeros((len(gain), 1)), np.cumsum(weights, axis=1)], axis=1) + kept.sum()
    total = (
        np.concatenate([np.zeros((len(gain), 1)), np.cumsum(weights * gains, axis=1)], axis=1) + (gain @ kept)[:, None]
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(mass > 0, total / mass, -np.inf)
    return np.asarray(means.max(axis=1))
