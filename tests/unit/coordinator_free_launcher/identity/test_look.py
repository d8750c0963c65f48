"""Data is looked at before anything starts: refused under its own name, or its clipping said."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from coordinator_free_launcher.cli.app import app
from coordinator_free_launcher.identity.bundle import ProvisionError
from coordinator_free_launcher.identity.finalise import finalise
from coordinator_free_launcher.identity.look import look
from network_dp.plan_reader import dump

TASKS: Mapping[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "mean": ({"kind": "mean"}, {"sigma": 1.0}, "0.5\n2\n", "[0, 1]"),
    "norm": ({"kind": "sum", "dimension": 2, "norm": 1.0}, {"sigma": 1.0}, "0.5,0.5\n3,4\n", "L2 norm 1"),
    "histogram": (
        {"kind": "histogram", "buckets": 3},
        {"mechanism": "gaussian", "sigma": 1.0},
        "0\n9\n",
        "buckets 0 to 2",
    ),
    "ridge": (
        {"kind": "sgd", "loss": "ridge", "features": 1, "step_size": 0.1, "radius": 1.0},
        {"sigma": 1.0, "against": "local"},
        "1,0.5\n1,7\n",
        "labels [-1, 1]",
    ),
}


def files_of(folder: Path, *texts: str) -> dict[str, Path]:
    folder.mkdir(exist_ok=True)
    files = {f"user-{i}": folder / f"user-{i}.csv" for i in range(len(texts))}
    for path, text in zip(files.values(), texts, strict=True):
        path.write_text(text)
    return files


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("kind", TASKS)
def test_every_clipped_value_is_said(kind: str, make_plan: Any, tmp_path: Path) -> None:
    task, noise, text, bounds = TASKS[kind]
    plan = finalise(make_plan(task=task, noise=noise))
    inside = text.splitlines()[0] + "\n"
    (said,) = look(plan, files_of(tmp_path, text, inside, inside))
    assert said == f"1 of 4 values lie outside the public bounds {bounds} and are clipped to them (user-0: 1 of 2)"
    assert look(plan, files_of(tmp_path, inside, inside, inside)) == []


@pytest.mark.parametrize("kind", TASKS)
def test_data_of_which_most_would_be_clipped_is_refused(kind: str, make_plan: Any, tmp_path: Path) -> None:
    task, noise, text, _ = TASKS[kind]
    plan = finalise(make_plan(task=task, noise=noise))
    inside, outside = (line + "\n" for line in text.splitlines())
    files = files_of(tmp_path, outside, outside, inside * 9)
    with pytest.raises(ProvisionError, match=r"2 of 11 values lie outside .*--allow-clipping"):
        look(plan, files)
    assert len(look(plan, files, allow_clipping=True)) == 1


def test_a_user_with_many_rows_weighs_no_more_than_another(make_plan: Any, tmp_path: Path) -> None:
    assert len(look(finalise(make_plan()), files_of(tmp_path, "7\n" * 100, "0.5\n", "0.5\n"))) == 1


def test_provision_refuses_before_it_makes_anything_and_names_the_file_it_was_given(
    make_plan: Any, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(dump(make_plan()))
    for text, problem in (("0.5,x77331155\n", "column"), ("age\n33\n44\n", "--allow-clipping")):
        files_of(tmp_path / "data", "0.5\n" if problem == "column" else text, text, text)
        for command in ("provision", "run", "compose", "stack"):
            result = run(command, plan, "--data", tmp_path / "data", "--out", tmp_path / "out" / "here")
            assert result.exit_code == 2 and problem in result.output, result.output
            assert "77331155" not in result.output
            if problem == "column":
                assert str(tmp_path / "data" / "user-1.csv") in result.output
            assert not (tmp_path / "out").exists()


def test_provision_goes_on_with_a_warning_when_told(make_plan: Any, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(dump(make_plan()))
    files_of(tmp_path / "data", "33\n", "44\n", "0.5\n")
    result = run("provision", plan, "--data", tmp_path / "data", "--out", tmp_path / "out", "--allow-clipping")
    assert result.exit_code == 0
    assert "warning: 2 of 3 values lie outside the public bounds [0, 1]" in result.output
    compose = run("compose", plan, "--data", tmp_path / "data", "--out", tmp_path / "compose", "--allow-clipping")
    assert compose.exit_code == 0 and "warning: 2 of 3" in compose.output
    assert "--data, /data, --allow-clipping" in (tmp_path / "compose" / "compose.yaml").read_text()


def test_rows_that_the_walk_may_leave_out_are_said(make_plan: Any, tmp_path: Path) -> None:
    walk, task = {"topology": "complete", "steps": 30}, {"kind": "mean", "rows": "per_visit"}
    plan = finalise(make_plan(walk=walk, task=task))
    (said,) = look(plan, files_of(tmp_path, "0.5\n" * 30, "0.5\n", "0.5\n"))
    assert said.startswith("user-0: 30 rows, one per visit") and "10 visits are expected" in said
    with pytest.raises(ProvisionError, match=r"user-1.csv: has 31 rows"):
        look(plan, files_of(tmp_path, "0.5\n", "0.5\n" * 31, "0.5\n"))
