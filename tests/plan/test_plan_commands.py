"""``plan new`` writes what ``plan check`` accepts, for every topology and task."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator_free_launcher.cli import app
from network_dp.plan_reader import parse

KINDS = ("sum", "mean", "histogram", "sgd")


def _invoke(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.output


@pytest.mark.parametrize("task", KINDS)
@pytest.mark.parametrize("topology", ["ring", "complete"])
def test_a_new_plan_passes_its_check(topology: str, task: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    code, said = _invoke("plan", "new", "--topology", topology, "--task", task, "--users", 6, "--out", file)
    assert code == 0, said
    assert "#" in file.read_text()
    code, said = _invoke("plan", "check", file, "--json")
    assert code == 0, said
    facts = json.loads(said)
    assert facts["task"] == task and facts["release"] == "all" and len(facts["plan_hash"]) == 64
    if (topology, task) != ("ring", "sgd"):
        assert facts["network_epsilon"] <= 1.0 + 1e-9


@pytest.mark.parametrize(("task", "mechanism"), [("sum", "laplace"), ("histogram", "gaussian")])
def test_a_new_plan_with_another_mechanism_passes_its_check(task: str, mechanism: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    words = ("--topology", "ring", "--task", task, "--mechanism", mechanism, "--users", 5, "--out", file)
    assert _invoke("plan", "new", *words)[0] == 0
    code, said = _invoke("plan", "check", file)
    assert code == 0, said
    assert parse(file.read_text()).noise.mechanism == mechanism


def test_check_shows_what_will_happen(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    _invoke("plan", "new", "--topology", "ring", "--task", "mean", "--users", 4, "--rounds", 3, "--out", file)
    code, said = _invoke("plan", "check", file)
    assert code == 0
    for word in ("valid", "4 users, 12 steps", "sigma", "network_epsilon", "local_epsilon", "expected_std"):
        assert word in said, said


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text("mine")
    code, said = _invoke("plan", "new", "--out", file)
    assert code == 2 and "exists" in said
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--topology", "star"), ("walk.topology", "star", "complete")),
        (("--task", "median"), ("task", "median", "histogram")),
        (("--topology", "ring", "--users", "2"), ("at least 3 users",)),
        (("--task", "mean", "--mechanism", "rr"), ("noise.mechanism", "rr")),
        (("--epsilon", "-1"), ("noise.epsilon", "-1")),
        (("--port", "65533", "--users", "9"), ("65536", "65535")),
    ],
)
def test_an_impossible_wish_is_refused_with_code_2(words: tuple[str, ...], told: tuple[str, ...]) -> None:
    code, said = _invoke("plan", "new", *words)
    assert code == 2
    assert "error: " in said and all(word in said for word in told), said
