"""A result as people read it, and a model tested on a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from coordinator_free_launcher.cli.answer import value_rows
from coordinator_free_launcher.cli.app import app
from coordinator_free_launcher.local.score import check_test, score_file
from network_dp.plan import PlanError

COMPLETE = {"topology": "complete", "steps": 100}
CITIES = {"kind": "histogram", "categories": ["Bonn", "Rome", "Oslo"]}
SGD = {"kind": "sgd", "columns": ["age"], "label": "smoker", "labels": ["no", "yes"], "ranges": [[0, 100]]}


def test_a_histogram_has_a_bar_a_name_and_an_error_for_each_bucket(make_plan: Any) -> None:
    plan = make_plan(walk=COMPLETE, task=CITIES, noise={"mechanism": "gaussian", "sigma": 1.0})
    result = {"value": [0.5, 0.25, 0.25], "counts": [2, 1, 1], "expected_std": 0.04}
    rows = dict(value_rows(plan, result))
    assert list(rows) == ["Bonn", "Rome", "Oslo", "±"]
    assert rows["Bonn"].count("█") == 2 * rows["Rome"].count("█") == 24
    assert rows["Rome"].endswith(" 25.0% ± 7.8%")


def test_a_negative_share_is_explained_and_the_nearest_shares_are_given(make_plan: Any) -> None:
    plan = make_plan(walk=COMPLETE, task=CITIES, noise={"mechanism": "gaussian", "sigma": 1.0})
    rows = dict(value_rows(plan, {"value": [0.9, -0.3, 0.2], "counts": [1, 1, 1]}))
    assert "█" not in rows["Rome"] and "-30.0%" in rows["Rome"]
    assert rows["as true shares"].startswith("85.0%, 0.0%, 15.0%") and "noise" in rows["as true shares"]


def test_one_number_has_its_error_and_a_result_elsewhere_is_said(make_plan: Any) -> None:
    assert value_rows(make_plan(), {"value": [2.0], "expected_std": 0.125}) == [("value", "2 ± 0.24 (95 %)")]
    assert value_rows(make_plan(), {"value": None}) == [("value", "kept by the last holder")]


def test_a_model_is_tested_on_a_table_like_the_users_own(make_plan: Any, tmp_path: Path) -> None:
    plan = make_plan(walk=COMPLETE, task=SGD, noise={"sigma": 1.0})
    (tmp_path / "test.csv").write_text("smoker,age\nno,10\nyes,90\nyes,20\n")
    found = score_file(plan, [1.0, 0.0], tmp_path / "test.csv")
    assert (found.what, found.value, found.rows) == ("test accuracy", pytest.approx(2 / 3), 3)
    assert found.sentence == "test accuracy: 66.7% on 3 rows"
    (tmp_path / "other.csv").write_text("smoker,weight\nno,10\n")
    with pytest.raises(ValueError, match='no column with the name "age"'):
        check_test(plan, tmp_path / "other.csv")
    with pytest.raises(PlanError, match="only a model"):
        check_test(make_plan(), tmp_path / "test.csv")


def test_a_regression_has_a_squared_error(make_plan: Any, tmp_path: Path) -> None:
    task = {"kind": "sgd", "loss": "ridge", "features": 1, "intercept": False, "radius": 1.0}
    (tmp_path / "test.csv").write_text("1,0.5\n1,1\n")
    found = score_file(make_plan(walk=COMPLETE, task=task, noise={"sigma": 1.0}), [1.0], tmp_path / "test.csv")
    assert (found.what, found.value) == ("mean squared error", 0.125)


def test_a_table_that_cannot_test_is_refused_before_anything_runs(tmp_path: Path) -> None:
    run = CliRunner().invoke
    assert run(app, ["plan", "new", "--users", "3", "--out", str(tmp_path / "plan.toml")]).exit_code == 0
    words = ["run", str(tmp_path / "plan.toml"), "--test", str(tmp_path / "absent.csv"), "--out", str(tmp_path / "run")]
    done = run(app, words)
    assert done.exit_code == 2 and "only a model" in done.output and not (tmp_path / "run").exists()


def test_plan_new_takes_users_and_columns_from_a_folder(tmp_path: Path) -> None:
    for i in (2, 10, 1):
        (tmp_path / f"user-{i}.csv").write_text(f"age,city\n{30 + i},Bonn\n")
    (tmp_path / "test.csv").write_text("age,city\n1,Rome\n")

    def new(*words: str) -> Any:
        return CliRunner().invoke(app, ["plan", "new", "--data", str(tmp_path), *words], env={"COLUMNS": "300"})

    text = new("--column", "age", "--lower", "0", "--upper", "120").output
    assert text.count("[[users]]") == 3 and text.index('"user-2"') < text.index('"user-10"')
    assert 'columns = ["age"]' in text and "upper = 120.0" in text
    for words, said in (
        ((), "has the columns age, city; choose with --column"),
        (("--column", "height"), 'no column "height"; it has age, city'),
        (("--column", "age"), "give --lower and --upper"),
        (("--column", "age", "--upper", "99", "--users", "7"), "holds the tables of 3 users"),
        (("--task", "histogram", "--column", "city", "--categories", "Oslo,Rome"), "user-1.csv, row 2, column 2"),
        (("--column", "age", "--labels", "a,b"), "--labels: not for a mean"),
    ):
        done = new(*words)
        assert done.exit_code == 2 and said in done.output, done.output
    (tmp_path / "Anna Smith.csv").write_text("1\n")
    assert "rename it" in new("--column", "age").output
