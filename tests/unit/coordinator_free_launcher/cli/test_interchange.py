"""``guarantee``, ``statement`` and ``budget``, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app
from network_dp.accounting import bounds

GOLDEN = Path(__file__).parents[2] / "analyzer" / "golden" / "ring"
PLAN = """[walk]
topology = "ring"
rounds = 3
[task]
kind = "mean"
[noise]
sigma = 4.0
delta = 1e-6
"""


def call(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    users = "".join(f'[[users]]\nname = "u{i}"\naddress = "127.0.0.1:{20000 + i}"\n' for i in range(4))
    (tmp_path / "plan.toml").write_text(PLAN + users)
    return tmp_path / "plan.toml"


EPSILON = bounds.ring_epsilon(3, 4.0, 1.0, 1e-6, reissues=1)


def test_a_plan_as_profile_and_distribution(plan: Path) -> None:
    found = json.loads(call("guarantee", plan).output)
    points = zip(found["profile"]["epsilon"], found["profile"]["delta"], strict=True)
    reached = min(epsilon for epsilon, delta in points if delta <= 1e-6)
    assert EPSILON <= reached <= EPSILON * 1.02
    assert found["mu"] == pytest.approx(0.5, rel=1e-3)  # sqrt(K + 1)/sigma, on the grid
    assert sum(found["pld"]["probabilities"]) + found["pld"]["infinity_mass"] == pytest.approx(1.0)


def test_renyi_orders_and_a_trade_off_curve(plan: Path, tmp_path: Path) -> None:
    found = json.loads(call("guarantee", plan, "--as", "renyi").output)
    assert found["epsilons"][found["orders"].index(2.0)] == pytest.approx(0.25, rel=1e-2)
    assert call("guarantee", plan, "--as", "fdp", "--out", tmp_path / "curve.csv").exit_code == 0
    assert (tmp_path / "curve.csv").read_text().startswith("alpha,beta\n")


def test_one_pair_of_a_finished_run() -> None:
    names = [path.name for path in sorted((GOLDEN / "users").iterdir())]
    found = json.loads(call("guarantee", GOLDEN, "--pair", f"{names[0]},{names[1]}").output)
    promise = json.loads(call("guarantee", GOLDEN).output)
    assert 0 < found["mu"] <= promise["mu"]
    assert call("guarantee", GOLDEN, "--pair", "nobody,else").exit_code == 2


def test_a_statement_answers_every_question_with_the_plans_own_numbers(plan: Path) -> None:
    found = json.loads(call("statement", plan, "--json").output)
    assert found["epsilon"] == pytest.approx(EPSILON, rel=1e-3)
    keys = "unit adjacency mechanism model collusion local composition side_channels utility evidence security"
    assert all(found[key] for key in keys.split())
    assert "resists no collusion" in found["collusion"]
    text = call("statement", GOLDEN).output
    assert text.startswith("# Privacy statement") and "checked against the plan: PASS" in text


def test_a_budget_is_set_checked_and_shown(plan: Path, tmp_path: Path) -> None:
    book = tmp_path / "own" / "ledger.json"
    free = json.loads(call("budget", "check", plan, "--ledger", book, "--json").output)
    assert free["fits"] and free["budget"] is None and free["after"] == pytest.approx(EPSILON, rel=1e-3)
    assert call("budget", "set", "--epsilon", 1.0, "--ledger", book).exit_code == 0
    tight = call("budget", "check", plan, "--ledger", book)
    assert tight.exit_code == 1 and "would not start" in tight.output and "budget of 1" in tight.output
    shown = json.loads(call("budget", "show", "--ledger", book, "--json").output)
    assert shown["budget"] == {"epsilon": 1.0, "delta": 1e-6} and shown["runs"] == [] and shown["total_epsilon"] == 0
    assert call("budget", "set", "--epsilon", 9.0, "--ledger", book).exit_code == 0
    assert call("budget", "check", plan, "--ledger", book).exit_code == 0


def test_ledgers_are_found_by_name(plan: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert "there is none yet" in call("budget", "show").output
    for name in ("ann", "bob"):
        assert call("budget", "set", "--epsilon", 2.0, "--user", name).exit_code == 0
    assert "ann, bob" in call("budget", "show").output
    assert json.loads(call("budget", "show", "--user", "ann", "--json").output)["budget"]["epsilon"] == 2.0
