"""What several rows of one user mean: no row is left out unsaid, and no rule lets a user weigh more."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from network_dp.plan import Plan, PlanError
from network_dp.plan_reader import dump, parse
from node.noise import SeededSource
from node.tasks import DataError, LocalData, Task, TaskError, make_task, table_of
from node.tasks.rows import remark, shares

MakePlan = Callable[..., Plan]
MEAN: dict[str, Any] = {"kind": "mean", "lower": -1.0, "upper": 1.0}
HISTOGRAM: dict[str, Any] = {"kind": "histogram", "buckets": 4}
GAUSS = {"mechanism": "gaussian", "sigma": 2.0, "grid": 2.0**-16}
RR = {"mechanism": "rr", "gamma": 0.4}
PER_VISIT = {"rows": "per_visit"}
FACTORY = "tests.unit.node.tasks.test_own_task:mean_and_variance"
OWN = {
    "kind": "custom",
    "factory": FACTORY,
    "dimension": 2,
    "sensitivity": 1.5,
}


def said(task: Task, data: LocalData, visits: int) -> list[list[float]]:
    """The contributions of the first visits, in data units."""
    start = task.initial(SeededSource(b""))
    return [(task.contribution(start, data, i) * 2.0**-16).tolist() for i in range(1, visits + 1)]


def test_many_rows_are_averaged_by_default_and_every_visit_says_the_same(make_plan: MakePlan) -> None:
    """30 rows and 5 visits: all rows enter, not the first five."""
    task = make_task(make_plan(MEAN, GAUSS, topology="ring", length=5))
    data = task.prepare(table_of([0.0] * 5 + [1.0] * 25))
    assert said(task, data, 5) == [[pytest.approx(25 / 30, abs=2.0**-16)]] * 5


def test_each_row_is_clipped_before_the_average(make_plan: MakePlan) -> None:
    task = make_task(make_plan(MEAN, GAUSS))
    data = task.prepare(table_of([100.0, -0.5, 0.0, 0.5]))
    assert said(task, data, 1) == [[0.25]]
    assert (data.clipped, data.checked) == (1, 4)


@given(st.lists(st.floats(-1e308, 1e308), min_size=1, max_size=40), st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_an_average_keeps_the_bounds(values: list[float], lower: float, width: float) -> None:
    text = f"""
[walk]
topology = "complete"
steps = 9
[task]
kind = "sum"
lower = {lower!r}
upper = {lower + width!r}
[noise]
sigma = {width!r}
grid = {math.ldexp(0.5, math.frexp(width / 2**12)[1])!r}
""" + "".join(f'[[users]]\nname = "u{i}"\naddress = "h:{i + 1}"\n' for i in range(3))
    plan = parse(text)
    grid = plan.noise.grid
    assert grid is not None
    low, high = (value / grid for value in (math.floor(lower / grid) * grid, math.ceil((lower + width) / grid) * grid))
    row = make_task(plan).prepare(table_of(values)).rows
    assert row.shape == (1, 1) and low <= row[0, 0] <= high


@given(st.lists(st.lists(st.floats(-1e308, 1e308), min_size=3, max_size=3), min_size=1, max_size=9))
def test_an_average_keeps_the_norm(values: list[list[float]]) -> None:
    text = """
[walk]
topology = "complete"
steps = 9
[task]
kind = "sum"
dimension = 3
norm = 2.0
[noise]
sigma = 2.0
grid = 0.0009765625
""" + "".join(f'[[users]]\nname = "u{i}"\naddress = "h:{i + 1}"\n' for i in range(3))
    row = make_task(parse(text)).prepare(table_of(values)).rows[0]
    assert math.hypot(*row) * 2.0**-10 <= 2.0 + math.sqrt(3) * 2.0**-11


@given(st.lists(st.integers(0, 6), min_size=1, max_size=50), st.sampled_from([1, 2, 1 << 10, 1 << 50]))
def test_shares_sum_to_one_exactly_and_round_by_less_than_a_unit(buckets: list[int], one: int) -> None:
    vector = shares(np.array(buckets), 7, one)
    assert sum(vector.tolist()) == one and vector.min() >= 0
    for bucket, units in enumerate(vector.tolist()):
        assert abs(units * len(buckets) - buckets.count(bucket) * one) < len(buckets)


def test_a_gaussian_histogram_of_many_rows_contributes_their_shares(make_plan: MakePlan) -> None:
    plan = make_plan(HISTOGRAM, GAUSS)
    task = make_task(plan)
    assert said(task, task.prepare(table_of([0, 3, 3, 1])), 2) == [[0.25, 0.25, 0.0, 0.5]] * 2
    extremes = [task.prepare(table_of(rows)) for rows in ([0] * 7, [3], [1, 2, 2], [0, 1, 2, 3, 3])]
    rows = [data.rows[0] * 2.0**-16 for data in extremes]
    assert max(math.dist(a, b) for a in rows for b in rows) == pytest.approx(plan.sensitivity)


def test_a_randomised_response_of_many_rows_needs_a_rule(make_plan: MakePlan) -> None:
    with pytest.raises(DataError, match=r'data: has 2 rows.* task\.rows = "per_visit"'):
        make_task(make_plan(HISTOGRAM, RR)).prepare(table_of([1, 2]))
    assert len(make_task(make_plan({**HISTOGRAM, **PER_VISIT}, RR)).prepare(table_of([1, 2])).rows) == 2


@pytest.mark.parametrize(
    ("task", "noise"),
    [(MEAN, GAUSS), (HISTOGRAM, GAUSS), (HISTOGRAM, RR)],
    ids=["mean", "histogram", "responses"],
)
@pytest.mark.parametrize(("topology", "length"), [("ring", 5), ("complete", 5)])
def test_rows_that_no_visit_can_contribute_are_refused(
    make_plan: MakePlan, task: dict[str, Any], noise: dict[str, Any], topology: str, length: int
) -> None:
    made = make_task(make_plan({**task, **PER_VISIT}, noise, topology=topology, length=length))
    assert len(made.prepare(table_of([0.0] * 5)).rows) == 5
    with pytest.raises(DataError, match="data: has 6 rows, and this plan lets a user contribute at most 5"):
        made.prepare(table_of([0.0] * 6))


def test_a_task_of_ones_own_cannot_leave_rows_out_either(make_plan: MakePlan) -> None:
    task = make_task(make_plan(OWN, GAUSS, topology="ring", length=5))
    with pytest.raises(TaskError, match="6 rows, of which at most 5 can be contributed"):
        task.prepare(table_of([0.5] * 6))


def test_rows_that_a_random_walk_may_not_come_to_are_remarked_on(make_plan: MakePlan) -> None:
    plan = make_plan({**MEAN, **PER_VISIT}, GAUSS, n=5, length=100)
    assert "30 rows, one per visit" in (remark(plan, 30) or "") and "20 visits are expected" in (remark(plan, 30) or "")
    assert remark(plan, 1) is None
    assert remark(make_plan({**MEAN, **PER_VISIT}, GAUSS, topology="ring", length=30), 30) is None


def test_the_rule_is_part_of_the_plan_and_of_its_hash(make_plan: MakePlan) -> None:
    plan, other = make_plan(MEAN, GAUSS), make_plan({**MEAN, **PER_VISIT}, GAUSS)
    assert plan.hash != other.hash
    assert parse(dump(other)) == other
    with pytest.raises(PlanError, match=r'task\.rows = "first": must be one of "average", "per_visit"'):
        make_plan({**MEAN, "rows": "first"}, GAUSS)
