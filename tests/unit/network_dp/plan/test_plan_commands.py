"""``plan new`` writes what ``plan check`` accepts, for every topology and task."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app
from coordinator_free_launcher.identity.finalise import finalise
from network_dp import printed
from network_dp.accounting import bounds
from network_dp.plan_reader import dump, parse

KINDS = ("sum", "mean", "histogram", "sgd")


def _invoke(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.output


@pytest.mark.parametrize("task", KINDS)
@pytest.mark.parametrize("topology", ["ring", "complete"])
def test_a_new_plan_passes_its_check(topology: str, task: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    code, said = _invoke(
        "plan", "new", "--topology", topology, "--task", task, "--users", 6, "--epsilon", 1, "--out", file
    )
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
    for word in ("valid", "4 users, 12 steps", "sigma", "network epsilon", "local epsilon", "expected error"):
        assert word in said, said
    assert not any(word in said for word in ("as printed", "path were hidden", "│ - "))  # decide nothing


BOUNDS = {
    "sum": ("--task", "sum"),
    "mean": ("--task", "mean"),
    "sgd": ("--task", "sgd", "--lipschitz", 1),
    "histogram": ("--task", "histogram", "--buckets", 8),
}
TABLES = [("ring", task) for task in KINDS if task != "sgd"] + [("complete", task) for task in KINDS]


@pytest.mark.parametrize(("topology", "task"), TABLES)
def test_check_shows_the_table_of_the_bounds_command(topology: str, task: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    walk = ("--topology", topology, "--users", 8, *(("--rounds", 3) if topology == "ring" else ("--steps", 24)))
    responding = ("--mechanism", "rr") if task == "histogram" else ()
    _invoke("plan", "new", "--task", task, *walk, *responding, "--out", file)
    # the command speaks of as many users as it is told, a plan of those that must be alive
    file.write_text(file.read_text().replace("[walk]", "[walk]\nmin_live = 8"))
    plan = finalise(parse(file.read_text()))
    file.write_text(dump(plan))  # found once: to find the noise again would be most of this test's time
    noise = ("--gamma", plan.noise.gamma) if task == "histogram" else ("--sigma", plan.noise.sigma)
    about = ("--sensitivity", plan.sensitivity, "--delta", plan.noise.delta, "--released", "--json")
    expected = json.loads(_invoke("bounds", *BOUNDS[task], *walk, *noise, *about)[1])
    found = json.loads(_invoke("plan", "check", file, "--json")[1])
    assert [key for key in found if key in expected] == list(expected)
    for key in set(expected) - {"expected_std"}:  # a plan knows more about its error: the spread of values, the ball
        value = expected[key]["value"]
        assert found[key] == (pytest.approx(value, rel=1e-3) if isinstance(value, float) else value), key


def test_what_the_paper_printed_is_shown_and_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "plan.toml"
    _invoke("plan", "new", "--task", "sum", "--users", 6, "--out", file)
    before = json.loads(_invoke("plan", "check", file, "--json")[1])
    monkeypatch.setattr(printed, "advanced_composition", lambda *_: 123.0)
    after = json.loads(_invoke("plan", "check", file, "--json")[1])
    assert before["printed_epsilon"] != 123.0 == after["printed_epsilon"]
    assert {**before, "printed_epsilon": None} == {**after, "printed_epsilon": None}


def test_local_epsilon_of_a_walk_pays_for_its_visits(tmp_path: Path) -> None:
    """Half of delta for meeting a user more often than counted, half for what it then shows."""
    file = tmp_path / "plan.toml"
    _invoke("plan", "new", "--topology", "complete", "--task", "sum", "--users", 6, "--steps", 60, "--out", file)
    plan = finalise(parse(file.read_text()))
    most = bounds.visits(plan.walk.min_live, 60, plan.noise.delta / 2)
    assert plan.noise.sigma is not None
    paid = bounds.local_epsilon(most, plan.noise.sigma, plan.sensitivity, plan.noise.delta / 2)
    found = json.loads(_invoke("plan", "check", file, "--json")[1])
    assert found["local_epsilon"] == pytest.approx(paid, rel=1e-4)


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


def test_check_shows_known_and_hidden_side_by_side(tmp_path: Path) -> None:
    hidden, masked = tmp_path / "hidden.toml", tmp_path / "masked.toml"
    _invoke("plan", "new", "--task", "mean", "--path", "hidden", "--users", 8, "--steps", 60, "--out", hidden)
    lines = hidden.read_text().replace('path = "hidden"', 'protocol = "masked_sum"').splitlines()
    masked.write_text("\n".join(line for line in lines if not line.startswith("steps")))
    found = json.loads(_invoke("plan", "check", hidden, "--json")[1])
    assert found["network_epsilon"] < found["known_epsilon"] and "printed_epsilon" not in found
    alone = json.loads(_invoke("plan", "check", masked, "--json")[1])
    assert not {"known_epsilon", "hidden_epsilon", "printed_epsilon"} & alone.keys()
    beside = next(one["value"] for one in found["alternatives"] if one["name"] == "masked sum")
    assert alone["expected_std"] == pytest.approx(beside, rel=1e-3)
