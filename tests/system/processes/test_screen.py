"""What a person at a terminal is told of a real run: who is missing, which process is whose, and that it stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.system.harness import PATIENT, bundles, make_plan
from tests.system.processes.watch import call, check_nothing_is_left, network_dp, wait_for

pytestmark = pytest.mark.process


def title(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def rows(run: Path) -> dict[str, dict[str, object]]:
    return {row["user"]: row for row in json.loads(call("status", run, "--json").stdout)}


def test_a_stalled_launch_says_for_whom_it_waits_and_stops_at_once(tmp_path: Path) -> None:
    """Three users, paced, two of them killed: the rest of the screen's promises on one run."""
    plan = make_plan(3, topology="complete", steps=400, task={"kind": "mean"}, noise={"sigma": 0.5}, timing=PATIENT)
    run = bundles(plan, tmp_path, {name: [[0.5]] for name in plan.names})
    told = tmp_path / "screen"
    with (
        told.open("w") as screen,
        subprocess.Popen(network_dp("launch", run, "--pace", "20/s"), stdout=screen, stderr=screen) as launcher,
    ):
        logs = [run / "users" / name / "state" / "view.jsonl" for name in plan.names]
        wait_for(lambda: all(log.exists() and '"visit"' in log.read_text() for log in logs), "everybody's first visit")
        before = rows(run)
        assert {row["status"] for row in before.values()} == {"running"}
        for name, row in before.items():
            assert title(int(str(row["pid"]))) == f"network-dp {name} {run}"
        for name in ("user-1", "user-2"):
            os.kill(int(str(before[name]["pid"])), signal.SIGKILL)
        wait_for(lambda: "waiting for user-1, user-2 (" in told.read_text(), "the sentence")
        after = rows(run)
        assert [after[name]["status"] for name in plan.names] == ["running", "killed", "killed"]
        began = time.monotonic()
        launcher.send_signal(signal.SIGINT)
        assert launcher.wait(60) == 130 and time.monotonic() - began < 20
    text = told.read_text()
    assert f"try: network-dp doctor {run}" in text and text.count("Stopped.") == 1 and "Traceback" not in text
    check_nothing_is_left(plan, run)


def test_ctrl_c_ends_a_demo_between_and_within_its_runs(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    with subprocess.Popen(
        network_dp("demo", "--out", out, "--pace", "2/s"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:
        wait_for(lambda: any(out.glob("*/users/*/state/result.json")) or any(out.glob("*/users/*/state/lock")), "a run")
        demo.send_signal(signal.SIGINT)
        said = demo.communicate(timeout=60)[0]
    assert demo.returncode == 130 and "Stopped." in said and "None" not in said and "Traceback" not in said
    assert len(list(out.glob("*/plan.toml"))) == 1, "no other run began"
