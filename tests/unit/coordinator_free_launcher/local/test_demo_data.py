"""Made-up data fits the plan, and the truth is the truth about it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free_launcher.local.demo_data import DemoTruth, accuracy, demo_data
from network_dp.plan import PlanError
from node.tasks.data import load_table

COMPLETE = {"topology": "complete", "steps": 100}
SGD = {"kind": "sgd", "features": 30, "step_size": 1.0}


def test_values_lie_within_the_bounds_and_are_written_exactly(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan(4, task={"kind": "sum", "lower": -2.0, "upper": 3.0, "dimension": 2})
    made = demo_data(plan)
    files = made.write(plan, tmp_path)
    read = np.array([np.loadtxt(files[name], delimiter=",") for name in plan.names])
    assert read.tolist() == [rows[0].tolist() for rows in made.rows]
    assert read.min() >= -2.0
    assert read.max() <= 3.0
    assert made.truth.sum == pytest.approx(read.sum(axis=0).tolist())


def test_vectors_stay_within_their_norm(make_plan: Any) -> None:
    rows = demo_data(make_plan(50, task={"kind": "mean", "dimension": 3, "norm": 2.0})).rows
    assert max(np.linalg.norm(row) for row in rows) <= 2.0


def test_buckets_are_counted(make_plan: Any) -> None:
    made = demo_data(make_plan(40, walk=COMPLETE, task={"kind": "histogram", "buckets": 5}, noise={"gamma": 0.3}))
    buckets = [int(rows[0, 0]) for rows in made.rows]
    assert made.truth.histogram == [buckets.count(bucket) for bucket in range(5)]


def test_breast_cancer_is_split_over_the_users_and_learnable(make_plan: Any) -> None:
    made = demo_data(make_plan(50, walk=COMPLETE, task=SGD))
    assert len(made.rows) == 50
    assert made.truth.test_labels is not None
    assert sum(len(rows) for rows in made.rows) + len(made.truth.test_labels) == 569
    assert all(set(rows[:, -1]) <= {-1.0, 1.0} for rows in made.rows)
    assert made.truth.test_accuracy is not None
    assert made.truth.test_accuracy > 0.95


def test_without_scikit_learn_rows_are_generated(make_plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    made = demo_data(make_plan(50, walk=COMPLETE, task=SGD))
    assert {rows.shape for rows in made.rows} <= {(8, 31), (9, 31)}
    assert made.truth.test_accuracy is not None
    assert made.truth.test_accuracy > 0.7


def test_accuracy_is_the_share_of_right_signs() -> None:
    features, labels = np.array([[1.0], [2.0], [-3.0], [4.0]]), np.array([1.0, 1.0, -1.0, -1.0])
    assert accuracy(np.array([1.0]), features, labels) == 0.75
    assert accuracy(np.array([0.0, -1.0]), features, labels) == 0.5


def test_the_truth_survives_its_file(make_plan: Any, tmp_path: Path) -> None:
    truth = demo_data(make_plan(50, walk=COMPLETE, task=SGD)).truth
    truth.write(tmp_path / "truth.json")
    assert DemoTruth.read(tmp_path / "truth.json") == truth


def test_a_task_of_ones_own_has_no_demo_data(make_plan: Any) -> None:
    with pytest.raises(PlanError, match="no demo data"):
        demo_data(make_plan(task={"kind": "custom", "factory": "a:b", "sensitivity": 1.0}))


NAMED = {
    "texts": {"kind": "histogram", "columns": ["city"], "categories": ["Bonn", "Rome, Italy"]},
    "ranges": {"kind": "histogram", "columns": ["age"], "edges": [18, 30, 90]},
    "numbers": {"kind": "mean", "columns": ["age"], "lower": 18.0, "upper": 90.0},
    "model": {
        "kind": "sgd",
        "columns": ["age", "hours"],
        "label": "fit",
        "labels": ["no", "yes"],
        "ranges": [[18, 90], [0, 20]],
    },
}


@pytest.mark.parametrize("task", NAMED.values(), ids=NAMED)
def test_tables_are_typed_as_the_plan_reads_them(task: Any, make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan(6, walk=COMPLETE, task=task, noise={"mechanism": "gaussian", "sigma": 1.0})
    made = demo_data(plan)
    files = made.write(plan, tmp_path)
    for name, rows in zip(plan.names, made.rows, strict=True):
        read = load_table(files[name], plan.task.reading).values
        if plan.task.kind == "sgd":
            assert set(read[:, -1]) <= {-1.0, 1.0} and read[:, 0].min() >= 18.0 and read[:, 1].max() <= 20.0
        else:
            assert read.tolist() == rows.tolist()
