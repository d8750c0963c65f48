"""Runs from Python: whatever tables are given become what the plan reads, and errors name what was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import network_dp as ndp
from coordinator_free_launcher import api
from coordinator_free_launcher.identity.finalise import finalise
from coordinator_free_launcher.local.given import by_name, write_tables
from coordinator_free_launcher.local.launch import Outcome
from coordinator_free_launcher.local.run import Judgement, LocalRun
from coordinator_free_launcher.results import Estimate, Histogram, Model
from network_dp.errors import UserError
from network_dp.plan import Plan
from network_dp.simplex import on_simplex
from node.tasks import load_table


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Plan, dict[str, Any]]]:
    """Plans and tables that would have been run; the result is the average of each column, or a model of ones."""
    runs = []

    def run_locally(plan: Plan, folder: Path, *, data: dict[str, Path], **_: Any) -> LocalRun:
        tables = {name: load_table(file, plan.task.reading).values for name, file in data.items()}
        runs.append((plan, tables))
        found = np.mean([table.mean(axis=0) for table in tables.values()], axis=0).tolist()
        result = {"value": found, "mean": found, "sum_over_users": (np.array(found) * plan.n).tolist()}
        if plan.task.classifies:
            result = {"value": [1.0] * plan.task.dimension, "weights": [1.0], "intercept": 1.0}
        return LocalRun(folder, finalise(plan), Outcome({}, result), None, Judgement("PASS"))

    monkeypatch.setattr(api, "run_locally", run_locally)
    return runs


@pytest.mark.parametrize(
    "table",
    [
        [1.0, 3.0],
        np.array([1, 3]),
        pd.Series([1, 3]),
        pd.Series([1, 3], name=7),
        pd.Series([1, 3], index=["a", "b"]),
        pd.DataFrame({0: [1, 3]}),
    ],
    ids=lambda table: type(table).__name__,
)
def test_one_number_per_row_in_any_form(table: Any, seen: Any, tmp_path: Path) -> None:
    found = ndp.mean({"anna": table, "bert": 2.0, "carl": [2]}, lower=0, upper=4, epsilon=2, folder=tmp_path)
    assert isinstance(found, Estimate) and found.value == 2.0
    plan, tables = seen[0]
    assert tables["anna"].tolist() == [[1], [3]] and tables["bert"].tolist() == [[2]]
    assert plan.names == ("anna", "bert", "carl") and plan.task.lower == 0.0 and plan.noise.epsilon == 2.0


def test_frames_by_column_and_texts(seen: Any) -> None:
    frames = [pd.DataFrame({"age": [20 + i], "city": ["Rome" if i else "Bonn"]}) for i in range(4)]
    assert ndp.sum(frames, column="age", lower=0, upper=99, epsilon=1).value == 86.0
    cities = ndp.histogram(frames, column="city", categories=["Bonn", "Rome"], epsilon=1)
    assert isinstance(cities, Histogram) and cities.names == ["Bonn", "Rome"]
    assert [table.tolist() for table in seen[1][1].values()] == [[[0]], [[1]], [[1]], [[1]]]
    ndp.histogram([["Bonn"], ["Rome"], ["Rome"]], categories=["Bonn", "Rome"], epsilon=1)
    assert [table.tolist() for table in seen[2][1].values()] == [[[0]], [[1]], [[1]]]
    ages = ndp.histogram(frames, column="age", edges=np.array([0, 21, 99]), epsilon=1)
    assert ages.names == ["0 to 21", "21 to 99"] and ages.plan.walk.topology == "ring"


def test_a_model_scores_labels_as_the_users_have_them(seen: Any) -> None:
    frames = [pd.DataFrame({"x": [1.0, 9.0], "y": ["no", "yes"]}) for _ in range(3)]
    keys = {"features": ["x"], "label": "y", "labels": ["no", "yes"], "ranges": [(0, 10)]}
    model = ndp.logistic_regression(frames, epsilon=3, **keys)
    assert isinstance(model, Model) and model.plan.walk.topology == "complete"
    assert seen[0][1]["user-0"].tolist() == [[1.0, -1.0], [9.0, 1.0]]
    test = pd.DataFrame({"y": ["no", "yes", "no"], "x": [0.0, 10.0, 9.0]})
    assert model.predict(test).tolist() == [1.0, 1.0, 1.0]  # 0 is -1 on its scale, and the intercept is 1
    assert model.score(test, test["y"]) == pytest.approx(1 / 3)
    pairs = ndp.logistic_regression([(np.eye(2), [0, 1])] * 3, epsilon=3)
    assert pairs.plan.task.features == 2 and seen[1][1]["user-2"].tolist() == [[1, 0, 0], [0, 1, 1]]


def test_a_plan_in_a_file_with_a_folder_of_tables(seen: Any, tmp_path: Path) -> None:
    users = "".join(f'[[users]]\nname = "u{i}"\naddress = "h:{i + 1}"\n' for i in range(3))
    text = f'[walk]\ntopology = "ring"\nrounds = 1\n[task]\nkind = "mean"\n[noise]\nsigma = 1.0\n{users}'
    (tmp_path / "plan.toml").write_text(text)
    for i in range(3):
        (tmp_path / f"u{i}.csv").write_text(f"0.{i}\n")
    assert ndp.run(str(tmp_path / "plan.toml"), data=str(tmp_path)).value == pytest.approx(0.1)
    assert ndp.run(tmp_path / "plan.toml", data={"u0": [0.5], "u1": [0.5], "u2": [0.5]}).value == 0.5


def test_a_result_is_short_to_read_and_has_a_picture(seen: Any) -> None:
    found = ndp.mean([[1.0], [2.0], [3.0]], lower=0, upper=4, epsilon=2)
    assert repr(found).startswith("mean 2 ± ") and "epsilon 2, " in repr(found) and len(repr(found)) < 80
    html = found._repr_html_()
    assert html.startswith("<table>") and "PASS" in html and len(html) < 500
    assert len(found.plot().patches) == 1


def test_errors_name_what_was_given_and_never_a_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for call, said in (
        (lambda: ndp.mean([["7"], ["x"], ["8"]], lower=0, upper=9, epsilon=1), "data of user-1"),
        (lambda: ndp.mean([[70], [71], [72]], lower=0, upper=1, epsilon=1), "allow_clipping=True"),
        (lambda: ndp.mean([[1], [1], [1]], lower=0, upper=1, epsilon=1, banana=2), "banana"),
        (lambda: ndp.mean({"Anna B": [1], "b": [1]}, lower=0, upper=1, epsilon=1), "lower-case"),
        (lambda: ndp.mean([[1]], lower=0, upper=1, epsilon=1), "at least 2"),
        (lambda: ndp.histogram([[1], [1], [1]], epsilon=1), "categories, edges and buckets"),
    ):
        with pytest.raises(UserError) as caught:
            call()
        assert said in str(caught.value) and "/tmp" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_files_are_used_where_they_lie(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    assert write_tables({"a": str(own)}, tmp_path, named=False) == {"a": own}
    assert list(by_name({0: 1, 7: 2})) == ["user-0", "user-7"]


def test_the_nearest_shares() -> None:
    assert on_simplex(np.array([0.5, 0.5])).tolist() == [0.5, 0.5]
    assert on_simplex(np.array([0.9, -0.3, 0.2])) == pytest.approx([0.85, 0.0, 0.15])
    assert on_simplex(np.array([5.0, -1.0])).tolist() == [1.0, 0.0]
