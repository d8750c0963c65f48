"""Tasks: what the token means. (payload, local data, noise) -> contribution, without I/O, clock or state."""

from __future__ import annotations

import importlib
from typing import cast

from network_dp.plan import CustomTask, HistogramTask, Plan, PlanError, SgdTask, SumTask
from node.tasks.additive import AdditiveTask
from node.tasks.base import LocalData, Noise, Payload, PayloadError, Tally, Task, TaskError
from node.tasks.data import DataError, Table, load_table, table_of
from node.tasks.fixed_point import check_grid, headroom
from node.tasks.histogram import GaussianHistogram, ResponseHistogram
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
    match plan.task:
        case SumTask() as spec:
            return Sum(plan, spec)
        case HistogramTask() as spec:
            return ResponseHistogram(plan, spec) if plan.noise.mechanism == "rr" else GaussianHistogram(plan, spec)
        case SgdTask() as spec:
            return Sgd(plan, spec)
        case CustomTask() as spec:
            return _custom(plan, spec)


def _custom(plan: Plan, spec: CustomTask) -> Task:
    module, _, name = spec.factory.partition(":")
    try:
        factory = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise PlanError(f'task.factory = "{spec.factory}": cannot be imported here: {error}') from error
    task = cast(Task, factory(plan))
    if task.dimension != spec.dimension:
        raise PlanError(f"task.dimension = {spec.dimension}: the factory made a task of dimension {task.dimension}")
    return task
