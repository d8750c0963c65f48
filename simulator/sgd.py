"""Projected noisy SGD (Alg. 4) for many runs at once: run r of a batch follows its own walk with its own step size.

The loss, its gradient and the exact discrete noise are those of a node (`node.tasks`, `node.noise`); only the loop
over runs is replaced by arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from network_dp.losses import loss_of
from network_dp.plan import SgdTask
from node.noise import Source, discrete_gaussian
from node.tasks.fixed_point import to_grid
from node.tasks.gradients import GRID_BITS
from simulator.datasets import Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_CHUNK = 500  # steps whose noise is drawn together


@dataclass(frozen=True)
class Batch:
    """Runs side by side: row r is a walk. `contributing` false: noise only, or nothing where `noisy` is false too."""

    walks: Ints
    contributing: Bools
    noisy: Bools
    step_sizes: Floats  # one per run


def logistic(features: int, step_size: float = 1.0) -> SgdTask:
    """The paper's task: logistic regression, constant steps, no projection; rows already hold their intercept."""
    return SgdTask("sgd", "logistic", features, False, step_size, "constant", None, 1.0, 1.0)


def train(
    spec: SgdTask,
    problem: Problem,
    batch: Batch,
    sigma: float,
    source: Source,
    checkpoints: Ints,
    reshape: Callable[[Floats], Floats] | None = None,
) -> Floats:
    """Models after the numbers of steps in `checkpoints` (increasing): shape (checkpoints, runs, dimension).

    Steps have size step_sizes[r] * spec.eta(t) / spec.step_size. `reshape` is applied to the noisy gradients (runs,
    dimension): no algorithm of ours needs it, the paper's experiments clip there.
    """
    n_runs, n_steps = batch.walks.shape
    dimension = problem.rows.shape[2]
    slope = loss_of(spec).slope
    schedule = np.array([spec.eta(t) / spec.step_size for t in range(1, n_steps + 1)])
    model = np.zeros((n_runs, dimension))
    models = np.empty((len(checkpoints), n_runs, dimension))
    next_checkpoint = 0
    for t in range(n_steps):
        if t % _CHUNK == 0:
            noise = _noise(sigma, (min(_CHUNK, n_steps - t), n_runs, dimension), source)
        user = batch.walks[:, t]
        rows = problem.rows[user]
        slopes = slope(np.einsum("rkd,rd->rk", rows, model), problem.labels[user])
        gradient = _on_grid(np.einsum("rk,rkd->rd", slopes, rows) / rows.shape[1], sigma)
        update = gradient * batch.contributing[:, t, None] + noise[t % _CHUNK] * batch.noisy[:, t, None]
        if reshape is not None:
            update = reshape(update)
        model = _projected(model - (schedule[t] * batch.step_sizes)[:, None] * update, spec.radius)
        while next_checkpoint < len(checkpoints) and checkpoints[next_checkpoint] == t + 1:
            models[next_checkpoint] = model
            next_checkpoint += 1
    return models


def _grid(sigma: float) -> float:
    """The grid of a node's gradients: a power of two, about 2^-40 sigma."""
    return math.ldexp(0.5, math.frexp(sigma)[1] - GRID_BITS)


def _noise(sigma: float, shape: tuple[int, ...], source: Source) -> Floats:
    if sigma == 0:
        return np.zeros(shape)
    grid = _grid(sigma)
    return discrete_gaussian(Fraction(sigma) / Fraction(grid), shape, source).astype(np.float64) * grid


def _on_grid(gradient: Floats, sigma: float) -> Floats:
    if sigma == 0:
        return gradient
    grid = _grid(sigma)
    return to_grid(gradient, grid).astype(np.float64) * grid


def _projected(model: Floats, radius: float | None) -> Floats:
    if radius is None:
        return model
    length = np.linalg.norm(model, axis=1, keepdims=True)
    return np.asarray(model * np.minimum(1.0, radius / np.maximum(length, 1e-300)))


def objective(spec: SgdTask, models: Floats, rows: Floats, labels: Floats) -> Floats:
    """Mean loss of each model (any leading shape, dimension last) on the rows."""
    return np.asarray(loss_of(spec).value(models @ rows.T, labels).mean(axis=-1))


def accuracy(models: Floats, rows: Floats, labels: Floats) -> Floats:
    """Share of rows on the right side of each model."""
    return np.asarray((np.where(models @ rows.T >= 0, 1.0, -1.0) == labels).mean(axis=-1))
