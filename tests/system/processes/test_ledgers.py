"""Real users with ledgers: charged before the first token, once per run, and refused when their budget is spent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator_free_launcher.identity.provision import provision
from coordinator_free_launcher.local.run import judge
from network_dp import ledger
from network_dp.plan import Plan
from tests.system.harness import PATIENT, make_plan
from tests.system.processes.watch import call, call_node

pytestmark = pytest.mark.process


def _provisioned(plan: Plan, folder: Path, ledgers: Path) -> Path:
    """One run of the plan: fresh keys make it another run than the one before."""
    files = {}
    for i, name in enumerate(plan.names):
        files[name] = folder.parent / f"{name}.csv"
        files[name].write_text(f"{i / 4}\n")
    return provision(plan, folder, files, ledgers=ledgers)


def _book(ledgers: Path, name: str) -> ledger.Ledger:
    return ledger.read(ledgers / name / ledger.FILE)


def test_runs_are_charged_once_and_a_spent_budget_stops_the_next(tmp_path: Path) -> None:
    plan = make_plan(3, topology="ring", rounds=2, task={"kind": "mean"}, noise={"sigma": 4.0}, timing=PATIENT)
    ledgers, who = tmp_path / "kept", plan.names[1]
    first = _provisioned(plan, tmp_path / "first", ledgers)

    # a node that was not charged refuses to begin, whoever starts it
    refused = call_node(first / "users" / who)
    assert refused.returncode == 2 and "not charged" in refused.stderr
    assert not (first / "users" / who / "state" / "view.jsonl").exists()

    assert call("launch", first).returncode == 0
    assert call("launch", first).returncode == 0  # again: it is over, and charged once
    judge(first)
    for name in plan.names:
        book = _book(ledgers, name)
        assert [charge.mu2 for charge in book.charges] == [pytest.approx(3 / 16, rel=1e-3)]  # K + 1 = 3, sigma = 4
        walked = book.walked(book.charges[0].run)
        assert walked is not None and walked.epsilon is not None

    path = ledgers / who / ledger.FILE
    assert call("budget", "set", "--epsilon", "2.5", "--ledger", path).returncode == 0
    second = _provisioned(plan, tmp_path / "second", ledgers)
    stopped = call("launch", second)
    assert stopped.returncode == 2
    shown = json.loads(call("budget", "show", "--ledger", path, "--json").stdout)
    assert f"{shown['total_epsilon']:.4g}" in stopped.stderr and "2.5" in stopped.stderr and who in stopped.stderr
    assert [row["run"] for row in shown["runs"]] == [_book(ledgers, who).charges[0].run]
    for name in plan.names:  # nobody began, nobody was charged
        assert not (second / "users" / name / "state" / "view.jsonl").exists()
        assert len(_book(ledgers, name).charges) == 1

    assert call("budget", "set", "--epsilon", "9", "--ledger", path).returncode == 0
    assert call("launch", second).returncode == 0
    assert len(_book(ledgers, who).charges) == 2


def test_a_node_alone_and_a_container_charge_themselves_first(tmp_path: Path) -> None:
    plan = make_plan(3, topology="ring", rounds=2, task={"kind": "mean"}, noise={"sigma": 4.0}, timing=PATIENT)
    ledgers, who = tmp_path / "kept", plan.names[0]
    run = _provisioned(plan, tmp_path / "run", ledgers)
    path, bundle = ledgers / who / ledger.FILE, run / "users" / who
    assert call("budget", "set", "--epsilon", "0.1", "--ledger", path).returncode == 0
    entry = [sys.executable, "-m", "coordinator_free_launcher.engines.container", str(bundle)]
    for stopped in (call("node", bundle), subprocess.run(entry, capture_output=True, text=True, check=False)):
        assert stopped.returncode == 2 and "budget of 0.1" in stopped.stderr
    (bundle / "charge.json").unlink()
    assert "no charge" in call("node", bundle).stderr
    assert not (bundle / "state" / "view.jsonl").exists()
