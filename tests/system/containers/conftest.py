"""A Docker engine, the image, and one Compose project a test, removed afterwards.

Skipped where no engine answers, unless NETWORK_DP_REQUIRE_CONTAINERS is set (CI sets it when one does).
"""

from __future__ import annotations

import fcntl
import io
import os
import secrets
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coordinator_free_launcher.engines.compose import compose_file, container_plan
from network_dp.plan import Plan
from network_dp.plan_reader import dump, from_dict, parse

ROOT = Path(__file__).resolve().parents[3]
IMAGE = "network-dp:test"
QUICK_S = 120.0
BUILD_S = 900.0
RUN_S = 600.0


def run(
    *command: str, timeout_s: float = QUICK_S, check: bool = True, **options: Any
) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, **options)
    if check and result.returncode != 0:
        raise AssertionError(
            f"{' '.join(command)}: {result.returncode}\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
        )
    return result


def docker(*arguments: str, timeout_s: float = QUICK_S, check: bool = True) -> str:
    return run("docker", *arguments, timeout_s=timeout_s, check=check).stdout.strip()


def _until(what: str, condition: Callable[[], Any], timeout_s: float = RUN_S, every_s: float = 0.3) -> Any:
    """Engines announce nothing a test could wait for here: ask again until it is true, and no longer than allowed."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(every_s)
    return value


@pytest.fixture(scope="session")
def until() -> Callable[..., Any]:
    return _until


@pytest.fixture(scope="session")
def wait_s() -> Callable[[float], None]:
    """A fault that lasts: its length is the point of the test."""
    return time.sleep


@pytest.fixture(scope="session")
def engine() -> None:
    try:
        found = run("docker", "info", check=False, timeout_s=20.0).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        found = False
    if not found:
        if os.environ.get("NETWORK_DP_REQUIRE_CONTAINERS"):
            pytest.fail("no Docker engine answers, and NETWORK_DP_REQUIRE_CONTAINERS is set")
        pytest.skip("no Docker engine answers")


@pytest.fixture(scope="session")
def image(engine: None) -> str:
    """The image of this tree, made by one worker at a time: the next finds every layer there."""
    with (Path(tempfile.gettempdir()) / "network-dp-image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _build()
    return IMAGE


def _build() -> None:
    """Where no registry answers, from the stand-in that docker/airgap/prepare makes."""
    base_there = run("docker", "image", "inspect", "python:3.11-slim", check=False).returncode == 0
    if not base_there:
        base_there = run("docker", "pull", "-q", "python:3.11-slim", check=False, timeout_s=BUILD_S).returncode == 0
    compose_there = run("docker", "compose", "version", check=False).returncode == 0
    if not (base_there and compose_there) or (ROOT / "docker/wheelhouse").exists():
        run(str(ROOT / "docker/airgap/prepare"), timeout_s=BUILD_S)
    build = ("docker", "build", "-q", "-f", str(ROOT / "docker/Dockerfile"), "-t", IMAGE, str(ROOT))
    if run(*build, check=False, timeout_s=BUILD_S).returncode != 0:  # no package index inside a build either
        run(str(ROOT / "docker/airgap/prepare"), timeout_s=BUILD_S)
        run(*build, timeout_s=BUILD_S)


@dataclass(frozen=True)
class Project:
    """One Compose project."""

    name: str
    folder: Path
    plan: Plan
    binary: tuple[str, ...] = ("docker", "compose")
    file: Path = Path("compose.yaml")  # in the folder, unless it is absolute

    def compose(self, *arguments: str, timeout_s: float = RUN_S, check: bool = True) -> str:
        environment = os.environ | {"NETWORK_DP_IMAGE": IMAGE, "OUT": str(self.folder / "out")}
        command = (*self.binary, "-p", self.name, "-f", str(self.folder / self.file), *arguments)
        return run(*command, timeout_s=timeout_s, check=check, env=environment, cwd=self.folder).stdout

    def up(self, timeout_s: float = RUN_S) -> None:
        """Start everything and return: provisioned, users started, the analyzer waiting."""
        self.compose("up", "-d", "--no-build", *self.plan.names, timeout_s=timeout_s)

    def container(self, service: str) -> str:
        return self.compose("ps", "-a", "-q", service).strip()

    def containers(self) -> dict[str, str]:
        """Container ids by service, in one question."""
        format_ = '{{.Label "com.docker.compose.service"}} {{.ID}}'
        lines = docker("ps", "-a", "--filter", f"label=com.docker.compose.project={self.name}", "--format", format_)
        return dict(line.split() for line in lines.splitlines())

    def states(self) -> dict[str, tuple[str, int]]:
        """(status, exit code) of every container by service."""
        ids = self.containers()
        lines = docker("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", *ids.values()).splitlines()
        return {service: (line.split()[0], int(line.split()[1])) for service, line in zip(ids, lines, strict=True)}

    def users_done(self) -> bool:
        states = self.states()
        return all(states.get(name, ("", 0))[0] == "exited" for name in self.plan.names)

    def wait_users(self, timeout_s: float = RUN_S) -> None:
        _until("all users ended", self.users_done, timeout_s, every_s=1.0)
        codes = {name: state[1] for name, state in self.states().items() if name in self.plan.names}
        assert set(codes.values()) == {0}, f"{codes}\n{self.compose('logs', '--tail', '20')}"

    def analyze(self) -> subprocess.CompletedProcess[str]:
        """The analyzer service, on its own: its output and its exit code."""
        environment = os.environ | {"NETWORK_DP_IMAGE": IMAGE, "OUT": str(self.folder / "out")}
        command = (*self.binary, "-p", self.name, "-f", str(self.folder / self.file))
        return run(*command, "run", "--rm", "--no-deps", "-T", "analyze", check=False, env=environment, timeout_s=RUN_S)

    def fetch(self, folder: Path) -> Path:
        """The users' full state, from their disks: what no container but their own can see."""
        disks = [part for name in self.plan.names for part in ("-v", f"{self.name}_{name}:/disks/{name}:ro")]
        disks += ["-v", f"{self.name}_public:/disks/public:ro"]
        pack = ("--entrypoint", "python", IMAGE, "-c", PACK)
        packed = subprocess.run(
            ["docker", "run", "--rm", "-u", "0", "--network", "none", *disks, *pack],
            capture_output=True,
            check=True,
            timeout=RUN_S,
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="fully_trusted")
        return folder

    def progress(self) -> int:
        """The highest step any user has logged."""
        steps = [0]
        for name in self.plan.names[:2]:
            tail = docker("exec", self.containers()[name], "python", "-c", TAIL, check=False)
            steps += [int(part) for part in tail.split()]
        return max(steps)


PACK = """
import sys, tarfile
with tarfile.open(fileobj=sys.stdout.buffer, mode='w|') as archive:
    archive.add('/disks', '.')
"""

TAIL = """
import json, pathlib
lines = pathlib.Path('/bundle/state/view.jsonl').read_bytes().splitlines()[-20:]
for line in lines[:-1]:
    print(json.loads(line).get('step', 0))
"""


class MakeProject:
    """Makes Compose projects for one test, and removes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[Project] = []

    def _add(self, plan: Plan, **options: Any) -> Project:
        folder = self._folder / f"project-{len(self._made)}"
        (folder / "out").mkdir(parents=True)
        self._made.append(Project(f"ndp-test-{secrets.token_hex(4)}", folder, plan, **options))
        return self._made[-1]

    def __call__(
        self, plan: Plan, *, binary: tuple[str, ...] = ("docker", "compose"), pages_from: int | None = None
    ) -> Project:
        """A project with a file written for this plan."""
        project = self._add(container_plan(plan), binary=binary)
        (project.folder / "plan.toml").write_text(dump(project.plan))
        (project.folder / "compose.yaml").write_text(compose_file(project.plan, pages_from=pages_from))
        return project

    def of_repository(self) -> Project:
        """The repository's own file, as it lies there."""
        return self._add(parse((ROOT / "docker/plan.toml").read_text()), file=ROOT / "docker/compose.yaml")

    def remove(self) -> None:
        for project in self._made:
            project.compose("down", "-v", "--remove-orphans", "-t", "1", check=False)


@pytest.fixture
def make_project(image: str, tmp_path: Path) -> Iterator[MakeProject]:
    maker = MakeProject(tmp_path)
    yield maker
    maker.remove()


@pytest.fixture(scope="session")
def make_plan() -> Callable[..., Plan]:
    def make(n: int = 8, **parts: Any) -> Plan:
        values: dict[str, Any] = {
            "walk": {"topology": "ring", "rounds": 5},
            "task": {"kind": "mean"},
            "noise": {"sigma": 0.5},
            "users": [{"name": f"user-{i}", "address": f"user-{i}:7000"} for i in range(n)],
        }
        return from_dict(values | parts)

    return make


@pytest.fixture(scope="session")
def verdict() -> Callable[[Path], subprocess.CompletedProcess[str]]:
    """The analyzer on the users' full logs, fetched from their disks; code 0 is PASS."""

    def judge(folder: Path) -> subprocess.CompletedProcess[str]:
        logs = [str(path) for path in sorted(folder.glob("*/state/view.jsonl"))]
        command = (str(Path(sys.executable).with_name("network-dp")), "analyze", "--i-am-not-a-user", *logs)
        return run(*command, "--plan", str(folder / "public/plan.toml"), check=False, timeout_s=RUN_S, cwd=ROOT)

    return judge
