"""Starting, stopping, failing, going on: no token is lost, nothing is left behind, exit codes say what happened."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from analyzer.run import analyze
from coordinator_free_launcher.identity.bundle import user_folder
from coordinator_free_launcher.local.launch import Launch, LaunchError, Outcome, launch
from coordinator_free_launcher.local.node_pool import NodePool
from network_dp.plan import Plan
from node.protocols import exits
from node.storage.journal import MAGIC
from tests.system.harness import PATIENT, bundles, make_plan
from tests.system.processes.watch import (
    call,
    call_node,
    check_nothing_is_left,
    network_dp,
    parent_of,
    processes_of,
    wait_for,
    wait_until_ended,
)
from tests.system.walked import Ran, check_chain, check_conserved, check_ended_well

pytestmark = pytest.mark.process

MEAN = {"kind": "mean"}
GAUSSIAN = {"sigma": 0.5}
HALFWAY = 100  # early: whoever reacts to it must find the walk still under way


def _provisioned(tmp_path: Path, *, steps: int = 8000, n: int = 3) -> tuple[Plan, Path]:
    plan = make_plan(n, topology="complete", steps=steps, task=MEAN, noise=GAUSSIAN, timing=PATIENT)
    return plan, bundles(plan, tmp_path, {name: [[i / 4]] for i, name in enumerate(plan.names)})


def _steps_in(run: Path) -> int:
    """How far a run is, by its view logs alone."""
    return sum(log.read_text().count('"kind":"visit"') for log in run.glob("users/*/state/view.jsonl"))


def _check(ran: Ran) -> None:
    check_ended_well(ran)
    check_chain(ran)
    check_conserved(ran)


def test_a_run_that_was_stopped_in_the_middle_goes_on_and_is_conserved(tmp_path: Path) -> None:
    plan, run = _provisioned(tmp_path)
    attempt = Launch(run, detach=False)
    try:
        attempt.start_all(lambda progress: None)
        while attempt.step < HALFWAY:
            attempt.listen(1.0)
        for pid in attempt.pool.pids.values():
            os.kill(pid, signal.SIGTERM)
        stopped = attempt.wait(lambda progress: None)
    finally:
        attempt.pool.close()
    assert stopped.codes == dict.fromkeys(plan.names, exits.STOPPED)
    assert stopped.result is None
    check_nothing_is_left(plan, run)
    again = Ran(run, launch(run))
    _check(again)
    check_nothing_is_left(plan, run)
    _check_restarts(again)


def _check_restarts(ran: Ran) -> None:
    """Every user logged both of its starts, with nothing but their number and time; the analyzer dates the second."""
    for records in ran.views.values():
        starts = [record.fields for record in records if record.kind == "start"]
        assert [fields["life"] for fields in starts] == [1, 2]
        assert all(fields.keys() == {"life", "time"} for fields in starts)
        assert records[1].kind == "start", "right behind the header"
    events = analyze([ran.folder]).run.logs.events
    seconds = [[r.fields["time"] for r in records if r.kind == "start"][1] for records in ran.views.values()]
    assert [event.time for event in events if event.kind == "restart"] == seconds


def test_ctrl_c_stops_everybody_and_the_next_launch_goes_on(tmp_path: Path) -> None:
    plan, run = _provisioned(tmp_path)
    with subprocess.Popen(network_dp("launch", run), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as launcher:
        wait_for(lambda: _steps_in(run) > HALFWAY, "the walk")
        launcher.send_signal(signal.SIGINT)
        said = launcher.communicate(timeout=60)[0].decode()
    assert launcher.returncode == 130, said
    assert "network-dp launch" in said and "Traceback" not in said
    check_nothing_is_left(plan, run)
    again = call("launch", run, "--json")
    assert again.returncode == 0, again.stderr
    _check(Ran(run, Outcome(json.loads(again.stdout)["codes"])))


def test_a_detached_run_outlives_its_launcher_and_the_parent_of_its_users(tmp_path: Path) -> None:
    plan, run = _provisioned(tmp_path)
    left = call("launch", run, "--detach", "--json")
    assert left.returncode == 0, left.stderr
    pids = json.loads(left.stdout)
    assert sorted(pids) == sorted(plan.names)
    (parent,) = {parent_of(pid) for pid in pids.values()}
    os.kill(parent, signal.SIGKILL)
    wait_until_ended([parent, *pids.values()])
    _check(Ran(run, Outcome(dict.fromkeys(plan.names, 0))))
    check_nothing_is_left(plan, run)


def test_a_lost_disk_rejoins_a_detached_run(tmp_path: Path) -> None:
    plan, run = _provisioned(tmp_path, steps=1000)
    (user_folder(run, "user-0") / "state" / "born").unlink()
    left = call("launch", run, "--only", "user-0", "--detach", "--rejoin", "--json")
    assert left.returncode == 0, left.stderr
    pid = json.loads(left.stdout)["user-0"]
    parent = parent_of(pid)
    os.kill(pid, signal.SIGTERM)
    wait_until_ended([pid, parent])
    check_nothing_is_left(plan, run)


def test_status_tells_who_runs_and_who_has_a_result(tmp_path: Path) -> None:
    _, run = _provisioned(tmp_path, steps=10)

    def status() -> set[str]:
        return {row["status"] for row in json.loads(call("status", run, "--json").stdout)}

    assert status() == {"never started"}
    assert launch(run, only=None).ok
    assert status() == {"finished"}
    again = call("launch", run)
    assert again.returncode == 0 and "finished" in again.stdout


def test_when_the_parent_of_attached_users_dies_they_are_not_left_behind(tmp_path: Path) -> None:
    plan, run = _provisioned(tmp_path, steps=100_000)
    attempt = Launch(run, detach=False)
    attempt.start_all(lambda progress: None)
    pids = list(attempt.pool.pids.values())
    os.kill(parent_of(pids[0]), signal.SIGKILL)
    with pytest.raises(LaunchError, match="the parent of the users ended"):
        attempt.wait(lambda progress: None)
    attempt.pool.close()
    wait_until_ended(pids, patience_s=30.0)
    check_nothing_is_left(plan, run)


def test_users_asked_to_stop_while_they_are_being_started_all_end(tmp_path: Path) -> None:
    plan, run = _provisioned(tmp_path, steps=100_000, n=8)
    attempt = Launch(run, detach=False)
    for name in plan.names:
        attempt.start(name)
    attempt.pool.close(patience_s=60.0)
    assert processes_of(run) == []


def test_a_user_with_bad_data_fails_the_launch_with_its_last_lines_and_no_value(tmp_path: Path) -> None:
    plan, run = _provisioned(tmp_path)
    (user_folder(run, "user-1") / "data.csv").write_text("0.25\ncanary-4711\n")
    with pytest.raises(LaunchError) as caught:
        launch(run)
    assert "user-1 ended with code 2" in str(caught.value)
    assert "row 2, column 1" in str(caught.value)
    assert "4711" not in str(caught.value)
    check_nothing_is_left(plan, run)
    said = call("launch", run)
    assert said.returncode == 2
    assert "row 2, column 1" in said.stderr and "4711" not in said.stdout + said.stderr


def test_exit_codes_of_one_user(tmp_path: Path) -> None:
    _, run = _provisioned(tmp_path)
    bundle = user_folder(run, "user-0")

    def ends_with(code: int, *words: str) -> None:
        ended = call_node(bundle)
        assert ended.returncode == code, ended.stderr
        assert all(word in ended.stderr for word in words) and "Traceback" not in ended.stderr

    (bundle / "state" / "journal").write_bytes(MAGIC + b"\xff" * 40)
    ends_with(exits.CORRUPT, "damaged at byte 8", "--rejoin")
    (bundle / "state" / "born").unlink()
    ends_with(exits.OLD_DISK, "not the disk", "--rejoin")
    (bundle / "key.pem").chmod(0o644)
    ends_with(exits.BAD_INPUT, "key.pem is readable by others")


def test_a_custom_task_that_cannot_be_imported_is_bad_input_in_one_sentence(tmp_path: Path) -> None:
    task = {"kind": "custom", "factory": "no_such_module:task", "sensitivity": 1.0}
    plan = make_plan(3, topology="ring", rounds=1, task=task, noise=GAUSSIAN, timing=PATIENT)
    run = bundles(plan, tmp_path, {name: [[0.5]] for name in plan.names})
    ended = call_node(user_folder(run, "user-0"))
    assert ended.returncode == exits.BAD_INPUT
    assert 'task.factory = "no_such_module:task"' in ended.stderr and "Traceback" not in ended.stderr


def test_a_user_that_runs_already_is_not_started_twice(tmp_path: Path) -> None:
    plan, run = _provisioned(tmp_path, steps=100_000)
    attempt = Launch(run, detach=False)
    try:
        attempt.start_all(lambda progress: None)
        second = call_node(user_folder(run, "user-1"))
        assert second.returncode == exits.LOCKED and "runs already" in second.stderr
        assert {row["status"] for row in json.loads(call("status", run, "--json").stdout)} == {"running"}
    finally:
        attempt.pool.close()
    check_nothing_is_left(plan, run)
    assert processes_of(run) == []


@pytest.mark.timeout(120)
def test_commands_and_news_may_both_be_more_than_a_pipe_holds(tmp_path: Path) -> None:
    """Users that end at once, because there is no bundle: only the conversation with their parent matters."""
    _, run = _provisioned(tmp_path)
    pool = NodePool(run)
    for end in (pool._in, pool._out):
        fcntl.fcntl(end.fileno(), fcntl.F_SETPIPE_SZ, 4096)
    for _ in range(150):
        pool.start(tmp_path / "nobody" / "user-0")
    ended = 0
    while ended < 150:
        ended += sum(news.kind == "exit" for news in pool.news(10.0))
    pool.close()
    assert pool.pids == {}
