"""How a user adds a task of its own: this one file is all it takes.

The task: mean and second moment of one number in [0, 1], in one run, so that a variance can be told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from network_dp.plan import Plan, PlanError
from node.noise import SeededSource
from node.tasks import AdditiveTask, LocalData, Payload, Table, Tally, TaskError, make_task, table_of


class MeanAndVariance(AdditiveTask):
    """Each contribution is (x, x^2), x in [0, 1]: two of them are at most sqrt(2) apart."""

    def prepare(self, table: Table) -> LocalData:
        table.expect_columns(1, "one number from 0 to 1")
        x = np.clip(table.values, 0, 1)
        return self.grid_rows(np.hstack([x, x**2]), clipped=int((x != table.values).sum()))

    def finish(self, payload: Payload, tally: Tally) -> Mapping[str, Any]:
        mean, square = self.values_of(payload) / max(tally.contributions, 1)
        return {"value": [float(mean), float(square - mean**2)], "contributions": tally.contributions}


def mean_and_variance(plan: Plan) -> MeanAndVariance:
    return MeanAndVariance(plan, dimension=2)


CUSTOM = {"kind": "custom", "factory": f"{__name__}:mean_and_variance", "dimension": 2, "sensitivity": 1.4142136}
MakePlan = Callable[..., Plan]
NOISE = {"sigma": 0.5, "grid": 2.0**-20}


def test_a_task_of_ones_own_runs_like_any_other(make_plan: MakePlan) -> None:
    task = make_task(make_plan(CUSTOM, NOISE))
    values = np.linspace(0, 1, 2000)
    source = SeededSource(b"own")
    payload = task.initial(source)
    for step, x in enumerate(values, start=1):
        noise = task.draw(source)
        value = task.contribution(payload, task.prepare(table_of([x])), 1)
        payload = task.apply(payload, value, task.noise_sum(noise, 1, value), step)
    mean, variance = task.finish(payload, Tally(2000, 0))["value"]
    std = 0.5 / np.sqrt(2000)
    assert abs(mean - values.mean()) < 5 * std
    assert abs(variance - values.var()) < 15 * std


def test_a_task_that_forgets_to_clip_is_stopped_before_the_run(make_plan: MakePlan) -> None:
    task = make_task(make_plan(CUSTOM, NOISE))
    assert isinstance(task, AdditiveTask)
    with pytest.raises(TaskError, match="must clip"):
        task.grid_rows(np.array([[0.0, 9.0]]))


def test_a_factory_that_cannot_be_imported_is_named(make_plan: MakePlan) -> None:
    with pytest.raises(PlanError, match='"no_such_module:task": cannot be imported'):
        make_task(make_plan({**CUSTOM, "factory": "no_such_module:task"}, NOISE))


def test_a_factory_must_keep_to_the_plans_dimension(make_plan: MakePlan) -> None:
    with pytest.raises(PlanError, match="made a task of dimension 2"):
        make_task(make_plan({**CUSTOM, "dimension": 3}, NOISE))
