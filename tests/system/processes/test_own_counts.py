"""How much of its data a user clipped is shown to that user, and to nobody else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analyzer.read.export import export
from tests.system.harness import PATIENT, make_plan
from tests.system.processes.watch import call
from tests.system.walked import run

pytestmark = pytest.mark.process


def test_a_users_own_screen_and_result_show_its_own_count(tmp_path: Path) -> None:
    plan = make_plan(3, topology="ring", rounds=2, task={"kind": "mean"}, noise={"sigma": 0.5}, timing=PATIENT)
    rows = {"user-0": [[0.5]], "user-1": [[0.25], [77.0], [-8.0]], "user-2": [[1.0]]}
    ran = run(plan, tmp_path, rows)
    assert ran.outcome.ok and "own" not in (ran.outcome.result or {"own": 1})
    assert {name: result["own"]["clipped"] for name, result in ran.results.items()} == {
        "user-0": 0,
        "user-1": 2,
        "user-2": 0,
    }
    logs = {name: (ran.state(name) / "node.log").read_text() for name in plan.names}
    assert "2 of 3 values lie outside the public bounds [0, 1]" in logs["user-1"]
    assert not [name for name in ("user-0", "user-2") if "public bounds" in logs[name]]
    screen = call("launch", ran.folder).stdout
    assert "user-1: 2 of 3 own values were clipped to the public bounds" in screen
    assert "user-0: " not in screen
    others = [path for path in ran.folder.rglob("*") if path.is_file() and "user-1" not in path.parts]
    assert not [path for path in others if b'"clipped":2' in path.read_bytes().replace(b" ", b"")]
    export(ran.state("user-1") / "view.jsonl", tmp_path / "shown.jsonl")
    assert "clipped" not in (tmp_path / "shown.jsonl").read_text()
    contributions = {visit.left["contribution"][0] for visit in ran.steps if visit.user == "user-1"}
    assert contributions == {round((0.25 + 1.0 + 0.0) / 3 / (ran.plan.noise.grid or 1.0))}
    assert json.loads(call("launch", ran.folder, "--json").stdout)["result"].get("own") is None
