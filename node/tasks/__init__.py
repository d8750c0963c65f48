"""Tasks: what the token means. (payload, local data, noise) -> contribution, without I/O, clock or state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from network_dp.plan import CustomTask, HistogramTask, ModelTask, Plan, PlanError, SgdTask, SumTask
from node.tasks.additive import AdditiveTask
from node.tasks.base import LocalData, Noise, Payload, PayloadError, Tally, Task, TaskError
from node.tasks.data import DataError, Table, load_table, table_of
from node.tasks.fixed_point import check_grid, headroom
from node.tasks.histogram import GaussianHistogram, ResponseHistogram
from node.tasks.model import Model
from node.tasks.own import imported
from node.tasks.sgd import Sgd
from node.tasks.sums import Sum
from node.tasks.vectors import clip_to_norm

__all__ = [
    "AdditiveTask",
    "DataError",
    "LocalData",
    "Noise",
    "Payload",
    "PayloadError",
    "Table",
    "Tally",
    "Task",
    "TaskError",
    "check_grid",
    "clip_to_norm",
    "headroom",
    "load_table",
    "make_task",
    "table_of",
]


def make_task(plan: Plan) -> Task:
    """The task of a calibrated plan, or PlanError."""
    return _TASKS[type(plan.task)](plan, plan.task)


def _histogram(plan: Plan, spec: HistogramTask) -> Task:
    return GaussianHistogram(plan, spec) if plan.mechanism.additive else ResponseHistogram(plan, spec)


def _custom(plan: Plan, spec: CustomTask) -> Task:
    task = cast(Task, imported(spec.factory)(plan))
    if task.dimension != spec.dimension:
        raise PlanError(f"task.dimension = {spec.dimension}: the factory made a task of dimension {task.dimension}")
    return task


#: The code of every kind of task.
_TASKS: Final[Mapping[type, Callable[[Plan, Any], Task]]] = {
    SumTask: Sum,
    HistogramTask: _histogram,
    SgdTask: Sgd,
    ModelTask: Model,
    CustomTask: _custom,
}
