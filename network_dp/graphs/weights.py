"""The law of a walk on a graph of peers: Metropolis or simple weights, and where they lead in the long run.

An adjacency matrix is symmetric, with nothing on the diagonal (THEORY.md#graphs). No scipy: users draw by these laws.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from network_dp.errors import require

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Weights = Literal["metropolis", "simple"]


def check_adjacency(adjacency: ArrayLike) -> Bools:
    """The matrix of who is whose peer: mutual, nobody one's own, nobody without any."""
    given = np.asarray(adjacency)
    square = given.ndim == 2 and given.shape[0] == given.shape[1] and len(given) >= 2
    require(square, f"adjacency must be a square matrix over at least 2 users, got shape {given.shape}")
    peers = np.asarray(given != 0, dtype=np.bool_)
    one_way = np.argwhere(peers & ~peers.T)
    require(len(one_way) == 0, f"peers must be mutual, got {_pair(one_way)} without its reverse")
    loops = np.flatnonzero(peers.diagonal())
    require(len(loops) == 0, f"nobody is its own peer, got user {loops[0] if len(loops) else ''}")
    lonely = np.flatnonzero(~peers.any(axis=1))
    require(len(lonely) == 0, f"everybody needs a peer, got none for user {lonely[0] if len(lonely) else ''}")
    return peers


def _pair(found: NDArray[np.int64]) -> str:
    return f"{found[0][0]} -> {found[0][1]}" if len(found) else ""


def metropolis(adjacency: ArrayLike) -> Floats:
    """P_xy = 1/(1 + max(d_x, d_y)) for peers, the rest at x: symmetric, so everybody is visited alike."""
    peers = check_adjacency(adjacency)
    degree = peers.sum(axis=1)
    p = np.where(peers, 1.0 / (1.0 + np.maximum(degree[:, None], degree[None, :])), 0.0)
    for x in range(len(p)):  # exactly, then rounded once: what is left over may be small
        shares = (Fraction(1, 1 + max(int(degree[x]), int(degree[y]))) for y in np.flatnonzero(peers[x]))
        p[x, x] = float(1 - sum(shares, Fraction(0)))
    return p


def simple(adjacency: ArrayLike) -> Floats:
    """P_xy = 1/d_x for peers: visits by degree, so that a mean must be weighted by 1/pi."""
    peers = check_adjacency(adjacency)
    return np.where(peers, 1.0 / peers.sum(axis=1)[:, None], 0.0)


#: As plans name them.
WEIGHTS = {"metropolis": metropolis, "simple": simple}


def stationary(adjacency: ArrayLike, weights: Weights = "metropolis") -> Floats:
    """The law pi with pi P = pi: uniform for Metropolis weights, by degree for the simple walk."""
    require(weights in WEIGHTS, f'weights must be "metropolis" or "simple", got {weights!r}')
    degree = check_adjacency(adjacency).sum(axis=1).astype(np.float64)
    return np.full(len(degree), 1 / len(degree)) if weights == "metropolis" else degree / degree.sum()
