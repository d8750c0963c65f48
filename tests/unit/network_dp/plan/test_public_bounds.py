"""A result that no data within the public bounds can have is remarked on."""

from __future__ import annotations

from typing import Any

import pytest

from network_dp.plan import Plan
from network_dp.plan_reader import from_dict


def plan_of(task: dict[str, Any], **noise: Any) -> Plan:
    users = [{"name": f"u{i}", "address": f"h:{i + 1}"} for i in range(3)]
    walk = {"topology": "complete", "steps": 9}
    return from_dict({"walk": walk, "task": task, "noise": {"sigma": 1.0, **noise}, "users": users})


MEAN = plan_of({"kind": "mean"})
VECTOR = plan_of({"kind": "sum", "dimension": 3, "lower": -1.0})
NORM = plan_of({"kind": "sum", "dimension": 2, "norm": 2.0})
SHARES = plan_of({"kind": "histogram", "buckets": 3}, mechanism="gaussian")


@pytest.mark.parametrize(
    ("plan", "means", "said"),
    [
        (MEAN, [2.864], "the mean lies outside the public bounds [0, 1] (furthest: 2.864)"),
        (MEAN, [-1e-9], "the mean lies outside the public bounds [0, 1] (furthest: -1e-09)"),
        (VECTOR, [0.0, -3.0, 1.5], "2 of 3 means lie outside the public bounds [-1, 1] (furthest: -3)"),
        (NORM, [2.0, 2.0], "the mean has norm 2.828, above the public bound 2"),
        (SHARES, [-0.25, 0.5, 0.75], "1 of 3 shares lie outside the public bounds [0, 1] (furthest: -0.25)"),
    ],
)
def test_outside(plan: Plan, means: list[float], said: str) -> None:
    assert plan.task.remark(means) == f"{said}: only noise can take it there"


@pytest.mark.parametrize(
    ("plan", "means"),
    [(MEAN, [0.0]), (MEAN, [1.0]), (VECTOR, [-1.0, 0.0, 1.0]), (NORM, [0.0, 2.0]), (SHARES, [0.0, 0.0, 1.0])],
)
def test_inside(plan: Plan, means: list[float]) -> None:
    assert plan.task.remark(means) is None
