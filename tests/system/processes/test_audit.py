"""Real runs under attack: never above the promise; above it when a bug is planted (THEORY.md#audit)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coordinator_free_launcher.local.audit import Attacked, run
from coordinator_free_launcher.local.launch import LaunchError, launch
from coordinator_free_launcher.local.planted import Setting
from network_dp.plan_reader import load
from tests.system.harness import bundles, make_plan, row_of
from tests.system.processes.watch import call

pytestmark = pytest.mark.process


def test_no_attack_on_real_runs_beats_the_promise(tmp_path: Path) -> None:
    done = call("audit", "--real", "--users", "30", "--runs", "2", "--json", "--out", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["verdict"], said["n_canaries"]) == ("PASS", 58)
    assert load(tmp_path / "runs" / "run-0" / "plan.toml").insecure_seed is None


def test_noise_that_is_halved_in_real_runs_beats_the_promise(tmp_path: Path) -> None:
    """177 canaries miss it once in 1000 tests at this confidence; at 0.999 it takes 400 to be as sure."""
    done = run(Attacked("ring_sum", n_users=60, bug="half_noise"), tmp_path, n_runs=3, confidence=0.8)
    assert done.clopper_pearson > done.claimed
    assert not done.passed


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", ["redrawn_noise", "skipped_duty"])
def test_a_bug_in_real_runs_that_the_next_user_feels_beats_the_promise(tmp_path: Path, bug: str) -> None:
    done = run(Attacked("ring_sum", n_users=3, bug=bug), tmp_path, n_runs=60)  # type: ignore[arg-type]
    assert done.clopper_pearson > done.claimed


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_token_that_is_sent_again_and_again_shows_no_more_than_once(tmp_path: Path) -> None:
    done = run(Attacked("ring_sum", n_users=3, resends=True), tmp_path, n_runs=40)
    assert done.passed
    for path in tmp_path.glob("run-*/users/user-1/state/copies.jsonl"):
        copies = path.read_text().splitlines()
        assert len(copies) == 16 and len(set(copies)) == 1


def test_noise_that_is_redrawn_reaches_the_next_user_sixteen_times(tmp_path: Path) -> None:
    run(Attacked("ring_sum", n_users=3, bug="redrawn_noise"), tmp_path, n_runs=1)
    copies = (tmp_path / "run-0" / "users" / "user-1" / "state" / "copies.jsonl").read_text().splitlines()
    assert len(set(copies)) == 16


def test_no_bug_can_be_planted_into_a_run_that_is_not_marked_insecure(tmp_path: Path) -> None:
    plan = make_plan(3, topology="ring", rounds=1, seed=None)
    folder = bundles(plan, tmp_path, {name: [row_of(plan, i)] for i, name in enumerate(plan.names)})
    Setting("half_noise", culprit=0, observer=1, copies=0).write(folder)
    with pytest.raises(LaunchError, match="ended"):
        launch(folder, parent="coordinator_free_launcher.local.planted")
    assert "insecure runs only" in (folder / "launcher.log").read_text()
    assert not list(folder.glob("users/*/state/view.jsonl"))
