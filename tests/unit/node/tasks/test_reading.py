"""Columns by name, texts and ranges: every user's table is read as the plan says, and refused without quoting it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network_dp.plan import PlanError
from network_dp.plan_reader import dump, from_dict, parse
from network_dp.reading import Reading
from node.tasks import DataError, load_table, make_task

PEOPLE = "name,age,city,smoker\nanna,31,Berlin,no\nbert,64.5, Paris ,yes\n"
LINES = '{"name": "anna", "age": 31, "city": "Berlin"}\n{"name": "bert", "age": 64.5, "city": "Paris"}\n'
CITIES = (("Paris", 0.0), ("Berlin", 1.0))
HISTOGRAM = {"kind": "histogram", "columns": ["city"], "categories": ["Paris", "Berlin"]}
SGD = {"kind": "sgd", "columns": ["age"], "label": "smoker", "labels": ["no", "yes"]}


def plan_of(task: dict[str, Any]) -> Any:
    users = [{"name": f"u{i}", "address": f"127.0.0.1:{20000 + i}"} for i in range(3)]
    walk = {"topology": "complete", "steps": 40}
    return from_dict(
        {"walk": walk, "task": task, "noise": {"mechanism": "gaussian", "sigma": 1.0, "grid": 2.0**-12}, "users": users}
    )


def written(folder: Path, text: str, suffix: str = ".csv") -> Path:
    path = folder / f"me{suffix}"
    path.write_text(text)
    return path


@pytest.mark.parametrize(("text", "suffix"), [(PEOPLE, ".csv"), (LINES, ".jsonl")])
@pytest.mark.parametrize(
    ("reading", "values"),
    [
        (Reading(("age",)), [[31], [64.5]]),
        (Reading(("age", "city"), CITIES), [[31, 1], [64.5, 0]]),
        (Reading(("city",), CITIES), [[1], [0]]),
        (Reading(("age",), edges=(0, 18, 64.5)), [[1], [1]]),
        (Reading(("age",), edges=(32, 40, 50)), [[-1], [2]]),
    ],
)
def test_columns_are_found_by_name(
    reading: Reading, values: list[list[float]], text: str, suffix: str, tmp_path: Path
) -> None:
    assert load_table(written(tmp_path, text, suffix), reading).values.tolist() == values


def test_texts_without_a_header_are_rows_and_with_one_are_not(tmp_path: Path) -> None:
    for text in ("Berlin\nParis\n", "where\nBerlin\nParis\n"):
        assert load_table(written(tmp_path, text), Reading(None, CITIES)).values.tolist() == [[1], [0]]


def test_an_array_has_the_plans_columns_in_the_plans_order(tmp_path: Path) -> None:
    np.save(tmp_path / "me.npy", np.array([[31, 1], [64, 2]]))
    reading = Reading(("age", "smoker"), (("1", -1.0), ("2", 1.0)))
    assert load_table(tmp_path / "me.npy", reading).values.tolist() == [[31, -1], [64, 1]]


@pytest.mark.parametrize(
    ("reading", "said"),
    [
        (Reading(("income",)), 'me.csv: has no column with the name "income" that the plan gives'),
        (Reading(("city",), (("Rome", 0.0),)), "me.csv, row 2, column 3: is none of the texts that the plan names"),
        (Reading(("city", "age")), "me.csv, row 2, column 3: is not a number"),
    ],
)
def test_a_refusal_names_the_file_and_quotes_the_plan_only(reading: Reading, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load_table(written(tmp_path, PEOPLE), reading)
    told = str(caught.value).replace(str(tmp_path), "")  # the folder is pytest's: its number may hold any digits
    assert said in told
    assert not any(value in told for value in ("anna", "Berlin", "31", "smoker"))


def test_a_plan_with_names_reads_back_and_its_task_takes_the_table(tmp_path: Path) -> None:
    for task, rows in ((HISTOGRAM, [[0.5, 0.5]]), (SGD, None)):
        plan = plan_of(task)
        assert parse(dump(plan)).hash == plan.hash
        data = make_task(plan).prepare(load_table(written(tmp_path, PEOPLE), plan.task.reading))
        assert rows is None or (data.rows / data.rows.sum()).tolist() == rows
    assert data.labels is not None and data.labels.tolist() == [-1, 1]


def test_features_are_brought_to_one_scale_and_what_lies_outside_is_counted(tmp_path: Path) -> None:
    plan = plan_of({**SGD, "ranges": [[20.0, 40.0]]})
    data = make_task(plan).prepare(load_table(written(tmp_path, PEOPLE), plan.task.reading))
    assert data.rows[:, 0] / data.rows[:, 1] == pytest.approx([0.1, 1.0])  # beside the constant of the intercept
    assert (data.clipped, data.checked) == (1, 2)


def test_names_bind_the_users_and_plans_without_them_are_as_before() -> None:
    plain = plan_of({"kind": "histogram", "buckets": 2})
    assert plan_of(HISTOGRAM).hash != plain.hash
    assert plain.hash == plan_of({"kind": "histogram", "buckets": 2, "rows": "average"}).hash
    ages = [plan_of({"kind": "histogram", "edges": edges}) for edges in ([0, 18, 65], [0, 17, 65])]
    assert ages[0].hash != ages[1].hash
    assert list(ages[0].task.names()) == ["0 to 18", "18 to 65"]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"kind": "mean", "columns": []}, "task.columns = []: must be a list of 1 to"),
        ({"kind": "mean", "columns": ["a", "a"]}, "different texts"),
        ({"kind": "mean", "columns": ["a"], "dimension": 2}, "task.dimension = 2: task.columns names 1"),
        ({"kind": "histogram", "categories": ["a", "b"], "edges": [0, 1, 2]}, "categories or edges, not both"),
        ({"kind": "histogram", "edges": [0, 2, 1]}, "each above the one before"),
        ({"kind": "histogram", "edges": [0, 1, float("nan")]}, "task.edges"),
        ({"kind": "histogram", "edges": [0, 1, 10**400]}, "task.edges"),
        ({"kind": "histogram", "categories": ["a", "b"], "buckets": 3}, "task.categories names 2"),
        ({"kind": "sgd", "features": 2, "ranges": [[0, 1]]}, "one per feature: 2"),
        ({"kind": "sgd", "features": 1, "ranges": [[1, 1]]}, "low below high"),
        ({"kind": "sgd", "features": 1, "ranges": [[0, True]]}, "low below high"),
        ({"kind": "sgd", "columns": ["a"]}, "name both the features and the label"),
        ({"kind": "sgd", "columns": ["a"], "label": "a"}, "is also a feature"),
        ({"kind": "sgd", "features": 1, "labels": ["no"]}, "task.labels"),
    ],
)
def test_names_that_cannot_be_meant_are_refused(task: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan_of(task)
    assert said in str(caught.value)
