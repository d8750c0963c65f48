"""The public bounds of a plan in words, and a remark on results that no data within them can have."""

from __future__ import annotations

import math
from collections.abc import Sequence

from network_dp.plan import CustomTask, HistogramTask, Plan, SgdTask, SumTask


def in_words(plan: Plan) -> str:
    """What every value of a user is clipped to."""
    match plan.task:
        case SumTask(norm=None) as task:
            return f"[{task.lower:g}, {task.upper:g}]"
        case SumTask() as task:
            return f"L2 norm {task.norm:g}"
        case HistogramTask() as task:
            return f"buckets 0 to {task.buckets - 1}"
        case SgdTask() as task:
            return f"labels [{-task.label_bound:g}, {task.label_bound:g}]"
        case CustomTask():
            return "the bounds of the task"


def remark(plan: Plan, means: Sequence[float]) -> str | None:
    """On an estimate per contribution (mean or shares) that lies outside what contributions can be; None if inside."""
    match plan.task:
        case SumTask(norm=None) as task:
            return _outside(means, task.lower, task.upper, "means" if len(means) > 1 else "mean")
        case SumTask() as task:
            length = math.hypot(*means)
            if task.norm is None or length <= task.norm:
                return None
            return f"the mean has norm {length:.4g}, above the public bound {task.norm:g}: only noise can take it there"
        case HistogramTask():
            return _outside(means, 0.0, 1.0, "shares")
        case _:
            return None


def _outside(means: Sequence[float], low: float, high: float, what: str) -> str | None:
    beyond = [x for x in means if not low <= x <= high]
    if not beyond:
        return None
    furthest = max(beyond, key=lambda x: max(low - x, x - high))
    which = "the mean lies" if what == "mean" else f"{len(beyond)} of {len(means)} {what} lie"
    where = f"outside the public bounds [{low:g}, {high:g}] (furthest: {furthest:.4g})"
    return f"{which} {where}: only noise can take it there"
