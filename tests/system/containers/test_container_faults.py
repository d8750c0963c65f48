"""Real faults of real containers: the walk survives, the sum is conserved, the analyzer passes it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]

LONG = {"topology": "ring", "rounds": 600, "durability": "process"}
Judge = Callable[[Path], subprocess.CompletedProcess[str]]


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture
def walking(make_project: Any, make_plan: Any, until: Any) -> Any:
    """Eight users in the middle of a long walk."""
    project = make_project(make_plan(8, walk=LONG))
    project.up()
    until("the walk is under way", lambda: project.progress() > 100)
    return project


def check_end(project: Any, verdict: Judge, tmp_path: Path) -> dict[str, Any]:
    """Everybody ended with 0 and one result, and the full logs pass, conservation included."""
    project.wait_users(300.0)
    disks = project.fetch(tmp_path / "disks")
    results = {(disks / name / "state/result.json").read_text() for name in project.plan.names}
    assert len(results) == 1
    judged = verdict(disks)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    return dict(json.loads(results.pop()))


def holder(project: Any, folder: Path) -> str:
    """Who has the token while everybody is frozen: the user of the highest step that was not accepted elsewhere."""
    disks = project.fetch(folder)
    best, name = -1, ""
    for user in project.plan.names:
        lines = (disks / user / "state/view.jsonl").read_text().splitlines()
        visits = [
            json.loads(line)["step"] for line in lines if line.startswith('{"kind":"visit"') and line.endswith("}")
        ]
        if visits and max(visits) > best:
            best, name = max(visits), user
    return name


def test_the_holder_is_killed_and_comes_back(walking: Any, verdict: Judge, tmp_path: Path) -> None:
    ids = walking.containers()
    everybody = [ids[name] for name in walking.plan.names]
    docker("pause", *everybody)
    victim = holder(walking, tmp_path / "frozen")
    docker("kill", ids[victim])
    docker("unpause", *(ids[name] for name in walking.plan.names if name != victim))
    docker("start", ids[victim])
    result = check_end(walking, verdict, tmp_path)
    assert result["contributions"] <= walking.plan.total_steps


def test_a_pause_longer_than_the_lease(walking: Any, verdict: Judge, tmp_path: Path, wait_s: Any) -> None:
    ids = walking.containers()
    docker("pause", ids["user-3"])
    wait_s(walking.plan.timing.lease_s * 1.5)
    docker("unpause", ids["user-3"])
    check_end(walking, verdict, tmp_path)


def test_a_cable_pulled_and_plugged_in_again(walking: Any, verdict: Judge, tmp_path: Path, wait_s: Any) -> None:
    ids = walking.containers()
    docker("network", "disconnect", f"{walking.name}_walk", ids["user-5"])
    wait_s(8.0)
    docker("network", "connect", "--alias", "user-5", f"{walking.name}_walk", ids["user-5"])
    check_end(walking, verdict, tmp_path)


def test_all_restart_at_once(walking: Any, verdict: Judge, tmp_path: Path) -> None:
    walking.compose("restart", "-t", "5", *walking.plan.names)
    check_end(walking, verdict, tmp_path)


def test_down_and_up_goes_on_where_it_stopped(walking: Any, verdict: Judge, tmp_path: Path) -> None:
    before = walking.progress()
    walking.compose("down", "-t", "5")
    walking.up()
    result = check_end(walking, verdict, tmp_path)
    # Users stop one after the other; who is gone a moment earlier than its neighbour is passed over.
    assert walking.plan.total_steps - 100 <= result["contributions"] <= walking.plan.total_steps
    assert 100 < before < walking.plan.total_steps
    lives = {name: (tmp_path / f"disks/{name}/state/lives").read_text() for name in walking.plan.names}
    assert set(lives.values()) == {".."}  # one dot a life
