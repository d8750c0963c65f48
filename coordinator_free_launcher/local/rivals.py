"""What to compare a demo's run with: simulated runs of the same plan, and local DP on the same data and epsilon.

Under local DP every user answers once, alone, by the mechanism that serves it best: Laplace or Gaussian noise on its
value, randomised response for its bucket, Gaussian noise on its gradient at the start (the model is then their sum).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coordinator_free_launcher.local.demo_data import DemoData, accuracy, training_rows
from network_dp.accounting import gaussian
from network_dp.plan import HistogramTask, Plan, SgdTask, SumTask
from network_dp.promise import aim

Array = NDArray[np.float64]
SIMULATED: Final = 200
WALKS: Final = 200
_SEED: Final = 7


def local_dp(plan: Plan, made: DemoData, epsilon: float) -> float | None:
    """Root mean square error of a number of the estimate, or a model's mean accuracy; None: no rival is known."""
    rival = _RIVALS.get(type(plan.task))
    return None if rival is None else rival(plan, made, epsilon, np.random.default_rng(_SEED))


def _sigma(plan: Plan, epsilon: float) -> float:
    return gaussian.sigma(epsilon, aim(plan), plan.sensitivity)


def _values(plan: Plan, made: DemoData, epsilon: float, dice: np.random.Generator) -> float:
    """The error is the noise alone, whatever the values are."""
    shape = (SIMULATED, plan.n)
    if plan.task.pure_local_std(epsilon) < _sigma(plan, epsilon):
        noise = dice.laplace(scale=plan.task.width / epsilon, size=shape)
    else:
        noise = dice.normal(scale=_sigma(plan, epsilon), size=shape)
    return float(np.sqrt((noise.mean(axis=1) ** 2).mean()))


def _buckets(plan: Plan, made: DemoData, epsilon: float, dice: np.random.Generator) -> float:
    """Randomised responses, debiased."""
    size = plan.task.dimension
    gamma = size / (math.expm1(epsilon) + size)
    true = np.array([int(rows[0, 0]) for rows in made.rows])
    shares = np.bincount(true, minlength=size) / plan.n
    said = np.where(dice.random((SIMULATED, plan.n)) < gamma, dice.integers(size, size=(SIMULATED, plan.n)), true)
    counts = np.stack([(said == bucket).mean(axis=1) for bucket in range(size)], axis=1)
    return float(np.sqrt((((counts - gamma / size) / (1 - gamma) - shares) ** 2).mean()))


def _model(plan: Plan, made: DemoData, epsilon: float, dice: np.random.Generator) -> float:
    assert isinstance(plan.task, SgdTask)
    truth = made.truth
    signed = [training_rows(t[:, :-1], intercept=plan.task.intercept) * t[:, -1:] for t in made.rows]
    moves = np.stack([rows.mean(axis=0) / 2.0 for rows in signed]).mean(axis=0)
    spread = _sigma(plan, epsilon) / math.sqrt(plan.n)
    tests, labels = np.array(truth.test_features), np.array(truth.test_labels)
    models = moves + spread * dice.standard_normal((SIMULATED, len(moves)))
    return float(np.mean([accuracy(model, tests, labels) for model in models]))


def simulated_accuracies(plan: Plan, made: DemoData) -> Array:
    """Of many simulated walks of a plan whose noise is known: what the model of one run reaches is a matter of luck."""
    from simulator import sgd, walks
    from simulator.datasets import Problem
    from simulator.noise import NumpySource

    task = plan.task
    assert isinstance(task, SgdTask)
    least = min(map(len, made.rows))  # of a table whose rows do not divide evenly, some users have one more
    tables = [(training_rows(rows[:least, :-1], intercept=task.intercept), rows[:least, -1]) for rows in made.rows]
    truth = made.truth
    test = training_rows(np.array(truth.test_features), intercept=task.intercept), np.array(truth.test_labels)
    problem = Problem(
        "demo", np.stack([rows for rows, _ in tables]), np.stack([labels for _, labels in tables]), test, test
    )
    dice = np.random.default_rng(_SEED)
    every_step = np.ones((WALKS, plan.total_steps), dtype=np.bool_)
    paths = np.stack([walks.uniform(plan.n, plan.total_steps, dice) for _ in range(WALKS)])
    batch = sgd.Batch(paths, every_step, every_step, np.full(WALKS, task.step_size))
    (models,) = sgd.train(task, problem, batch, plan.mechanism.size, NumpySource(dice), np.array([plan.total_steps]))
    return sgd.accuracy(models, *test)


_RIVALS: Final[Mapping[type, Callable[[Plan, DemoData, float, np.random.Generator], float]]] = {
    SumTask: _values,
    HistogramTask: _buckets,
    SgdTask: _model,
}
