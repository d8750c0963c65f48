"""The bounds of a contribution follow the plan's rule for rows: shares only where rows are averaged."""

from __future__ import annotations

from typing import Any

import pytest

from analyzer.reconstruct.values import out_of_bounds
from network_dp.plan import Plan
from network_dp.plan_reader import from_dict

GAUSS = {"mechanism": "gaussian", "sigma": 4096.0, "grid": 0.25}
RR = {"mechanism": "rr", "gamma": 0.4}


def plan_with(noise: dict[str, Any], rows: str) -> Plan:
    users = [{"name": f"u{i}", "address": f"h:{i + 1}"} for i in range(3)]
    task = {"kind": "histogram", "buckets": 3, "rows": rows}
    return from_dict({"walk": {"topology": "complete", "steps": 9}, "task": task, "noise": noise, "users": users})


@pytest.mark.parametrize("rows", ["average", "per_visit"])
def test_one_bucket_is_always_within_the_bounds(rows: str) -> None:
    assert out_of_bounds(plan_with(GAUSS, rows), [0, 4, 0]) is None
    assert out_of_bounds(plan_with(RR, rows), [0, 1, 0]) is None


def test_shares_are_within_the_bounds_of_averaged_rows_only() -> None:
    assert out_of_bounds(plan_with(GAUSS, "average"), [1, 3, 0]) is None
    assert out_of_bounds(plan_with(GAUSS, "per_visit"), [1, 3, 0]) is not None


@pytest.mark.parametrize("wrong", [[2, 3, 0], [5, -1, 0], [0, 0, 0], [8, 0, -4]])
@pytest.mark.parametrize("rows", ["average", "per_visit"])
def test_what_a_replaced_user_could_move_by_more_than_the_sensitivity_is_outside(wrong: list[int], rows: str) -> None:
    assert out_of_bounds(plan_with(GAUSS, rows), wrong) is not None
