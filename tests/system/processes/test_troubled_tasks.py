"""A task of one's own that raises with a value in its text: the value is in no file but its owner's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from coordinator_free_launcher.local.launch import Launch, launch
from node.protocols import exits
from tests.system.harness import PATIENT, bundles, make_plan
from tests.system.processes.troubled_tasks import DATUM
from tests.system.processes.watch import call

pytestmark = pytest.mark.process

OWNER = "user-2"
OWN_FILES = {"data.csv", "journal", "view.jsonl"}
GRID = 2.0**-20
#: gRPC's own words when a user that ends cancels a call that has just come in: places in gRPC, and nothing of ours.
CANCELLED_BY_GRPC: Final = re.compile(
    r'Traceback \(most recent call last\):\n(?: +File "src/python/grpcio/.*\n)+asyncio\.exceptions\.CancelledError\n'
)


def _run(folder: Path, factory: str) -> Path:
    plan = make_plan(
        4,
        topology="ring",
        rounds=2,
        task={
            "kind": "custom",
            "factory": f"tests.system.processes.troubled_tasks:{factory}",
            "dimension": 1,
            "sensitivity": 1.0,
        },
        noise={"sigma": 2.0, "grid": GRID},
        timing=PATIENT,
    )
    return bundles(plan, folder, {name: [[DATUM if name == OWNER else 0.25]] for name in plan.names})


def _told(run: Path) -> dict[str, str]:
    """Everything that is written anywhere, but for the owner's own files and the other users' results."""
    owner = run / "users" / OWNER
    files = [path for path in run.rglob("*") if path.is_file()]
    public = [path for path in files if not (path.name in OWN_FILES and path.is_relative_to(owner))]
    return {str(path.relative_to(run)): path.read_text(errors="replace") for path in public}


def _keeps_the_secret(run: Path) -> None:
    told = _told(run)
    assert any(name.endswith("node.log") for name in told)
    for name, text in told.items():
        assert str(DATUM) not in text and str(round(DATUM / GRID)) not in text, name
    logs = "".join(text for name, text in told.items() if name.endswith(".log"))
    assert "Traceback" not in CANCELLED_BY_GRPC.sub("", logs)


def _log(run: Path, name: str) -> str:
    return (run / "users" / name / "state" / "node.log").read_text()


def test_a_contribution_that_fails_is_left_out_and_the_walk_goes_on(tmp_path: Path) -> None:
    run = _run(tmp_path, "contribution")
    outcome = launch(run)
    assert outcome.ok, outcome
    assert "the task failed: KeyError at troubled_tasks.py" in _log(run, OWNER)
    _keeps_the_secret(run)


def test_a_contribution_that_fails_off_the_event_loop_ends_its_user(tmp_path: Path) -> None:
    run = _run(tmp_path, "slow_contribution")
    attempt = Launch(run, [f"user-{i}" for i in range(4)], detach=False)
    try:
        attempt.start_all(lambda progress: None)
        for _ in range(600):
            if OWNER in attempt.outcome.codes:
                break
            attempt.listen(0.1)
    finally:
        attempt.pool.close()
    assert attempt.outcome.codes[OWNER] == exits.BAD_INPUT
    assert "the task failed: KeyError at troubled_tasks.py" in _log(run, OWNER)
    _keeps_the_secret(run)


def test_data_over_which_a_task_stumbles_is_not_shown(tmp_path: Path) -> None:
    run = _run(tmp_path, "prepare")
    done = call("node", run / "users" / OWNER)
    assert done.returncode == exits.BAD_INPUT
    assert "the task failed: KeyError at troubled_tasks.py" in done.stderr
    assert str(DATUM) not in done.stdout + done.stderr and "Traceback" not in done.stderr


def test_a_result_that_a_task_cannot_read_is_final_all_the_same(tmp_path: Path) -> None:
    run = _run(tmp_path, "finish")
    outcome = launch(run)
    assert set(outcome.codes.values()) == {exits.BAD_INPUT}
    logs = [_log(run, f"user-{i}") for i in range(4)]
    assert all("the task failed: KeyError at troubled_tasks.py" in text and "KeyError(" not in text for text in logs)
    _keeps_the_secret(run)
