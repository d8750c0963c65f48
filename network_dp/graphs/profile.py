"""The path-averaged Gaussian profile of SGD on a graph: tighter than the Renyi moment, for short walks.

delta(epsilon) <= E delta_G(epsilon; (Delta/sigma) sqrt(S^)) as in `profile`, with S^ the disjoint windows of
`graph_walk`, each rounded UP to a grid. The law of S^ comes from the same renewal, one distribution per state and time
in place of one number (THEORY.md#graph-promise): nothing is subtracted, so that its error is relative. What lies beyond
the grid counts as delta = 1.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from network_dp.accounting import gaussian
from network_dp.accounting.rounding import UNIT
from network_dp.errors import require, require_share
from network_dp.graph_walk import Exposed, check_law, prepare

Floats = NDArray[np.float64]

STEPS_MAX: Final = 2_000
_STEP: Final = 1 / 40  # grid of exposures
_LEVELS: Final = 40 * 64  # exposures below 64
_UPWARDS: Final = 1 + 1e-9  # beyond the rounding of the profile


def epsilon(
    transition: ArrayLike,
    start: ArrayLike,
    target: int,
    observers: Collection[int],
    n_steps: int,
    sigma: float,
    sensitivity: float,
    delta: float,
    released: bool = False,
) -> float:
    """Epsilon at `delta` of what the observers see of the target's SGD steps; sensitivity is 2 L."""
    require(n_steps <= STEPS_MAX, f"the profile is computed for at most {STEPS_MAX} steps, got {n_steps}")
    require(sigma > 0 and sensitivity >= 0, f"need sigma > 0 and sensitivity >= 0, got {sigma} and {sensitivity}")
    require_share("delta", delta)
    exposed = prepare("sgd", transition, start, target, observers, n_steps, released)
    mus = np.sqrt(np.arange(_LEVELS) * _STEP) * sensitivity / sigma
    return _epsilon(exposure_law(exposed), mus, delta, exposed.margin)


def local_epsilon(
    transition: ArrayLike,
    start: ArrayLike,
    target: int,
    n_steps: int,
    sigma: float,
    sensitivity: float,
    delta: float,
) -> float:
    """The same against somebody who sees every message: the exposure is the number of visits (THEORY.md#epsilon)."""
    p, first = check_law(transition, start)
    require(n_steps <= STEPS_MAX, f"the profile is computed for at most {STEPS_MAX} steps, got {n_steps}")
    counts = np.zeros((n_steps + 1, len(p)))
    counts[0] = first
    for step in range(n_steps):
        counts[1 : step + 2, target], counts[0, target] = counts[: step + 1, target].copy(), 0.0
        counts[: step + 2] = counts[: step + 2] @ p if step < n_steps - 1 else counts[: step + 2]
    mus = np.sqrt(np.arange(n_steps + 1)) * sensitivity / sigma
    return _epsilon(counts.sum(axis=1), mus, delta, 1.01 * UNIT * (n_steps + 1) * (len(p) + 3))


def _epsilon(law: Floats, mus: Floats, delta: float, margin: float) -> float:
    """Where E delta_G falls to `delta`; `margin` is the relative error of the law."""
    law = law * (1 + margin)
    beyond = max(1 - float(law.sum()), 0.0) + 2 * margin
    if beyond >= delta:
        return math.inf

    def excess(value: float) -> float:
        return float(law @ gaussian.deltas(mus, value)) * _UPWARDS + beyond - delta

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 0.0, high, rtol=1e-9, xtol=1e-12)) * (1 + 1e-8)


def exposure_law(exposed: Exposed) -> Floats:
    """P(S^ = k grid steps), k = 0 .. `_LEVELS` - 1."""
    idle, shift = exposed.pieces.moves
    moves, unseen, n_steps = idle + shift, exposed.pieces.unseen, exposed.n_steps
    ends = exposed.pieces.ends[0] + exposed.pieces.ends[1]
    n_states = moves.shape[2]
    u = n_states - 1
    level = np.ceil(1 / (np.maximum(np.arange(n_steps + 2), 1) * _STEP)).astype(np.int64)
    values = np.zeros((n_steps + 1, n_states, _LEVELS))
    for t in range(n_steps):
        for x in range(n_states):
            if x == u:
                _add_windows(values[t, u], values[:t], moves[: t + 1, u], level)
            else:
                values[t, x] = np.tensordot(moves[t:0:-1, x], values[:t], axes=([0, 1], [0, 1]))
            if exposed.released:
                values[t, x, level[t + 1] if x == u else 0] += ends[t, x]
            elif x != u:
                values[t, x, 0] += unseen[t, x]
    last = np.tensordot(moves[n_steps:0:-1, n_states], values[:n_steps], axes=([0, 1], [0, 1]))
    last[0] += ends[n_steps, n_states] if exposed.released else unseen[n_steps, n_states]
    return np.asarray(last, dtype=np.float64)


def _add_windows(total: Floats, values: Floats, moves: Floats, level: NDArray[np.int64]) -> None:
    """A window of L steps moves every exposure up by its own; what passes the grid is left out, and counted so."""
    t = len(values)
    for steps in range(1, t + 1):
        up = int(level[steps])
        total[up:] += moves[steps] @ values[t - steps, :, : _LEVELS - up]
