"""Users in containers: they find each other, agree, exit, and see nothing of each other."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]

RING = {"topology": "ring", "rounds": 5}
COMPLETE = {"topology": "complete", "steps": 60}
LONG = {"topology": "ring", "rounds": 50_000, "durability": "process"}
SGD = {"kind": "sgd", "features": 5, "step_size": 1.0}
HISTOGRAM = {"kind": "histogram", "buckets": 4}

CASES = {
    "ring mean": {"walk": RING},
    "complete histogram": {"walk": COMPLETE, "task": HISTOGRAM, "noise": {"gamma": 0.5}},
    "complete sgd": {"walk": COMPLETE, "task": SGD, "noise": {"sigma": 1.0}},
    "hidden sgd": {"walk": {**COMPLETE, "path": "hidden"}, "task": SGD, "noise": {"sigma": 1.0}},
}
MORE_CASES = {
    "ring spread sum": {"walk": RING, "task": {"kind": "sum"}, "noise": {"sigma": 1.0, "spread": True}},
    "ring laplace": {"walk": RING, "noise": {"mechanism": "laplace", "scale": 1.0}},
    "ring histogram": {"walk": RING, "task": HISTOGRAM, "noise": {"gamma": 0.5}},
    "gaussian histogram": {"walk": COMPLETE, "task": HISTOGRAM, "noise": {"mechanism": "gaussian", "sigma": 1.0}},
    "complete sum": {"walk": COMPLETE, "task": {"kind": "sum", "dimension": 3}},
}

Judge = Callable[[Path], subprocess.CompletedProcess[str]]


def walk_and_judge(make_project: Any, plan: Any, verdict: Judge, tmp_path: Path) -> None:
    """Up, walk, everybody ends with 0; the logs on the disks pass the analyzer, and so do those handed over."""
    project = make_project(plan)
    project.up()
    project.wait_users()
    judged = verdict(project.fetch(tmp_path / "disks"))
    assert judged.returncode == 0, judged.stdout + judged.stderr
    report = project.analyze()
    assert report.returncode == 0, report.stdout + report.stderr
    assert (project.folder / "out/report.html").stat().st_size > 1000
    result = json.loads((project.folder / "out/result.json").read_text())
    assert result["task"] == plan.task.kind


def test_the_demo_of_a_fresh_clone_ends_with_a_result_and_a_report(make_project: Any) -> None:
    """One command, in the foreground, as the README says it: every container ends with 0, the analyzer with PASS."""
    project = make_project.of_repository()
    said = project.compose("up", timeout_s=300.0)
    assert "Result of compose-demo" in said
    assert set(project.states().values()) == {("exited", 0)}, said
    assert (project.folder / "out/report.html").stat().st_size > 1000
    assert json.loads((project.folder / "out/result.json").read_text())["contributions"] == 8


@pytest.mark.parametrize("case", CASES)
def test_eight_users_finish_and_pass(
    make_project: Any, make_plan: Any, verdict: Judge, tmp_path: Path, case: str
) -> None:
    walk_and_judge(make_project, make_plan(8, **CASES[case]), verdict, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("case", MORE_CASES)
def test_every_task_finishes_and_passes(
    make_project: Any, make_plan: Any, verdict: Judge, tmp_path: Path, case: str
) -> None:
    walk_and_judge(make_project, make_plan(8, **MORE_CASES[case]), verdict, tmp_path)


def test_a_star_whose_leaves_cannot_reach_each_other_finishes_and_passes(
    make_project: Any, make_plan: Any, verdict: Judge, tmp_path: Path
) -> None:
    """One network for each edge: leaves vote, and get the result, by way of the centre alone."""
    users = [
        {"name": f"user-{i}", "address": f"user-{i}:7000", "peers": [f"user-{j}" for j in ([0] if i else range(1, 5))]}
        for i in range(5)
    ]
    project = make_project(make_plan(walk={"topology": "graph", "steps": 200}, users=users))
    project.up()
    joined = {name: _networks_of(container) for name, container in project.containers().items() if "user" in name}
    assert all(len(joined["user-0"] & joined[f"user-{i}"]) == 1 for i in range(1, 5))
    assert not joined["user-1"] & joined["user-2"]
    project.wait_users()
    judged = verdict(project.fetch(tmp_path / "disks"))
    assert judged.returncode == 0, judged.stdout + judged.stderr


def _networks_of(container: str) -> set[str]:
    look = ["docker", "inspect", "-f", "{{json .NetworkSettings.Networks}}", container]
    return set(json.loads(subprocess.run(look, capture_output=True, text=True, timeout=60, check=True).stdout))


def test_sixteen_users_finish_and_pass(make_project: Any, make_plan: Any, verdict: Judge, tmp_path: Path) -> None:
    walk_and_judge(make_project, make_plan(16, walk={"topology": "complete", "steps": 200}), verdict, tmp_path)


@pytest.mark.full
def test_fifty_users_finish_and_pass(make_project: Any, make_plan: Any, verdict: Judge, tmp_path: Path) -> None:
    plan = make_plan(50, timing={"preset": "lan"})
    walk_and_judge(make_project, plan, verdict, tmp_path)


@pytest.mark.full
def test_compose_1_29_runs_the_same_file(make_project: Any, make_plan: Any, verdict: Judge, tmp_path: Path) -> None:
    try:
        subprocess.run(["docker-compose", "version"], capture_output=True, check=True, timeout=20)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no docker-compose here")
    project = make_project(make_plan(4), binary=("docker-compose",))
    project.up()
    project.wait_users()
    assert verdict(project.fetch(tmp_path / "disks")).returncode == 0


LOOK = """
import os, pathlib, socket, json
def writable(folder):
    try:
        (pathlib.Path(folder) / 'probe').write_text('x')
        (pathlib.Path(folder) / 'probe').unlink()
        return True
    except OSError:
        return False
def outside():
    try:
        socket.create_connection(('192.0.2.1', 443), timeout=2).close()
        return 'reached'
    except OSError as error:
        return type(error).__name__ + str(error.errno)
status = dict(line.split(':', 1) for line in open('/proc/self/status').read().splitlines())
keys = [os.path.join(d, f) for d, _, fs in os.walk('/') if not d.startswith(('/proc', '/sys')) for f in fs
        if f in ('key.pem', 'ca.key', 'data.csv', 'truth.json')]
limits = [pathlib.Path('/sys/fs/cgroup/memory/memory.limit_in_bytes'), pathlib.Path('/sys/fs/cgroup/memory.max')]
mounts = {line.split()[1] for line in open('/proc/mounts')}
print(json.dumps({
    'uid': os.getuid(), 'cap_eff': int(status['CapEff'], 16), 'cap_bnd': int(status['CapBnd'], 16),
    'no_new_privs': int(status['NoNewPrivs']), 'keys': sorted(keys), 'outside': outside(),
    'root_writable': any(writable(f) for f in ('/', '/opt/network-dp', '/etc', '/usr')),
    'name': [l for l in open('/bundle/node.toml') if l.startswith('name')][0],
    'memory': next(path.read_text() for path in limits if path.exists()),
    'mounts': sorted(mounts & {'/bundle', '/handover', '/vault', '/deliver', '/public', '/views', '/out'}),
}))
"""


@pytest.fixture
def walking(make_project: Any, make_plan: Any) -> Any:
    project = make_project(make_plan(4, walk=LONG))
    project.up()
    return project


def test_a_container_sees_only_its_own_user_and_can_do_little(walking: Any) -> None:
    ids = walking.containers()
    looked = subprocess.run(
        ["docker", "exec", ids["user-2"], "python", "-c", LOOK], capture_output=True, text=True, timeout=60, check=True
    )
    seen = json.loads(looked.stdout)
    assert seen["name"].strip() == 'name = "user-2"'
    assert seen["keys"] == ["/bundle/data.csv", "/bundle/key.pem"]
    assert seen["mounts"] == ["/bundle", "/handover"]
    assert (seen["uid"], seen["cap_eff"], seen["cap_bnd"], seen["no_new_privs"]) == (65532, 0, 0, 1)
    assert not seen["root_writable"]
    assert seen["outside"] != "reached"
    assert int(seen["memory"]) == 256 * 2**20


def test_a_users_page_is_served_from_its_own_disk_alone(make_project: Any, make_plan: Any, until: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    project = make_project(make_plan(3, walk=LONG), pages_from=port)
    project.up()
    project.compose("up", "-d", "--no-build", "user-0-page")
    said: list[str] = []

    def served() -> bool:
        said[:] = re.findall(rf"http://127\.0\.0\.1:{port}/\S+/", project.compose("logs", "user-0-page"))
        return bool(said)

    until("an address in the log", served, 60.0)
    with httpx.stream("GET", said[0] + "events", timeout=60.0) as answer:
        lines = (json.loads(text.removeprefix("data: ")) for text in answer.iter_lines() if text)
        picture = next(found for found in lines if found.get("visits"))
    assert (picture["user"], picture["running"], picture["values"]) == ("user-0", True, None)
    ids = project.containers()
    assert not _networks_of(ids["user-0-page"]) & _networks_of(ids["user-1"])


def test_the_health_service_makes_a_container_healthy(walking: Any, until: Any) -> None:
    ids = walking.containers()
    command = ["docker", "inspect", "-f", "{{.State.Health.Status}}", ids["user-3"]]
    until("healthy", lambda: subprocess.check_output(command, text=True, timeout=20) == "healthy\n", 60.0)
    asked = subprocess.run(
        ["docker", "exec", ids["user-3"], "network-dp", "health", "/bundle"], capture_output=True, text=True, timeout=60
    )
    assert (asked.returncode, asked.stdout.strip()) == (0, "SERVING")
