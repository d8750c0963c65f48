"""One way of training, tuned and run: objective and test accuracy along the walk, over many runs at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator import sgd, walks
from simulator.budgets import Method
from simulator.datasets import Problem
from simulator.noise import NumpySource

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: 2/beta is 8 for the logistic loss on unit rows; every step size here is a contraction (THEORY.md#sgd).
STEP_SIZES = np.geomspace(1e-4, 4.0, 14)
TUNING_RUNS = 8


@dataclass(frozen=True)
class Setup:
    """How to train. Past its `cap` of contributions a user adds noise only, or forwards if `forward_past_cap`."""

    method: Method | str
    sigma: float
    n_steps: int
    cap: int | None = None
    forward_past_cap: bool = False
    reshape: Callable[[Floats], Floats] | None = None  # of noisy gradients; see `sgd.train`
    step_size: float | None = None  # None: tuned


@dataclass(frozen=True)
class Curve:
    """Objective on all training data and accuracy on the test set: arrays (checkpoints, runs)."""

    setup: Setup
    step_size: float
    steps: Ints
    objective: Floats
    accuracy: Floats


def batch(setup: Setup, n_users: int, step_sizes: Floats, generator: np.random.Generator) -> sgd.Batch:
    """One walk per step size given."""
    paths = np.stack([walks.uniform(n_users, setup.n_steps, generator) for _ in step_sizes])
    contributing = np.stack([walks.within_cap(path, setup.cap) for path in paths])
    noisy = contributing if setup.forward_past_cap else np.ones_like(contributing)
    return sgd.Batch(paths, contributing, noisy, step_sizes)


def run(setup: Setup, problem: Problem, n_runs: int, seed: np.random.SeedSequence, n_checkpoints: int = 40) -> Curve:
    """Tune the step size on the validation set, then train `n_runs` times with fresh walks and noise."""
    tuning, final = (np.random.default_rng(child) for child in seed.spawn(2))
    step_size = setup.step_size if setup.step_size is not None else tune(setup, problem, tuning)
    spec = sgd.logistic(problem.rows.shape[2])
    steps = np.unique(np.linspace(setup.n_steps / n_checkpoints, setup.n_steps, n_checkpoints).astype(np.int64))
    models = _train(setup, problem, np.full(n_runs, step_size), final, steps)
    rows = problem.rows.reshape(-1, problem.rows.shape[2])
    objective = np.stack([sgd.objective(spec, m, rows, problem.labels.ravel()) for m in models])
    return Curve(setup, step_size, steps, objective, sgd.accuracy(models, *problem.test))


def tune(setup: Setup, problem: Problem, generator: np.random.Generator) -> float:
    """The step size with the least mean loss on the validation set at the end of the walk."""
    tried = np.repeat(STEP_SIZES, TUNING_RUNS)
    models = _train(setup, problem, tried, generator, np.array([setup.n_steps]))[-1]
    spec = sgd.logistic(problem.rows.shape[2])
    losses = sgd.objective(spec, models, *problem.validation).reshape(len(STEP_SIZES), TUNING_RUNS).mean(axis=1)
    return float(STEP_SIZES[int(losses.argmin())])


def _train(setup: Setup, problem: Problem, step_sizes: Floats, generator: np.random.Generator, steps: Ints) -> Floats:
    return sgd.train(
        sgd.logistic(problem.rows.shape[2]),
        problem,
        batch(setup, problem.n_users, step_sizes, generator),
        setup.sigma,
        NumpySource(generator),
        steps,
        setup.reshape,
    )
