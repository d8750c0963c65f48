"""How good a model is on a table that nobody trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from network_dp.plan import Plan, PlanError
from node.tasks import LocalData, Table, load_table, make_task


@dataclass(frozen=True, slots=True)
class Score:
    """``what``: test accuracy, or the mean squared error of a regression."""

    what: str
    value: float
    rows: int

    @property
    def sentence(self) -> str:
        shown = f"{self.value:.1%}" if self.what == "test accuracy" else f"{self.value:.4g}"
        return f"{self.what}: {shown} on {self.rows} rows"


def score_file(plan: Plan, model: Sequence[float] | None, file: Path) -> Score:
    """Of a plan's model on a table like the users' own; ``PlanError`` where there is no model to test."""
    if plan.task.gradient_bound is None:
        raise PlanError(f"--test {file}: only a model (task sgd) can be tested; leave it out")
    if model is None:
        raise PlanError(f"--test {file}: the model is not here; only the last holder has it")
    return score(plan, np.array(model), load_table(file, plan.task.reading))


def check_test(plan: Plan, file: Path) -> None:
    """Refuse a table on which the model of this plan could not be tested, before anything runs."""
    score_file(plan, [0.0] * plan.task.dimension, file)


def score(plan: Plan, model: NDArray[np.float64], table: Table) -> Score:
    data = prepared(plan, table)
    assert data.labels is not None
    said = margins(model, data)
    if plan.task.classifies:
        return Score("test accuracy", float((np.where(said >= 0.0, 1.0, -1.0) == data.labels).mean()), len(said))
    return Score("mean squared error", float(((said - data.labels) ** 2).mean()), len(said))


def prepared(plan: Plan, table: Table) -> LocalData:
    """The rows as a user trains on them; a plan that is not calibrated will do."""
    known = plan if plan.noise.calibrated else replace(plan, noise=replace(plan.noise, sigma=1.0))
    return make_task(known).prepare(table)


def margins(model: NDArray[np.float64], data: LocalData) -> NDArray[np.float64]:
    return np.asarray(data.rows, dtype=np.float64) @ model
