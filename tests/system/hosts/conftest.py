"""Machines on a LAN, made of network namespaces: own addresses, own cables, one switch, nothing of the real network.

The switch is a namespace too (two bridges in it: a cable moved to the second is a partition), so nothing outside is
touched and removing the namespaces removes everything. Needs root; skipped otherwise, unless NETWORK_DP_REQUIRE_HOSTS
is set (CI sets it where it is root).
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from coordinator_free_launcher.identity.enrol import Card, accept, keygen, sign
from network_dp.plan import Plan
from network_dp.plan_reader import from_dict

ROOT = Path(__file__).resolve().parents[3]
PORT = 7000
RUN_S = 240.0
TOOL = str(Path(sys.executable).with_name("network-dp"))
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


@pytest.fixture(scope="session", autouse=True)
def root() -> None:
    try:
        able = os.geteuid() == 0 and subprocess.run(["ip", "netns", "list"], capture_output=True).returncode == 0
    except OSError:
        able = False
    if not able:
        reason = "needs root and iproute2, to make network namespaces"
        if os.environ.get("NETWORK_DP_REQUIRE_HOSTS"):
            pytest.fail(reason)
        pytest.skip(reason)


@dataclass
class Machine:
    """One host of the LAN, with one user's share of the run on its disk."""

    lan: Lan
    index: int
    folder: Path
    clock: str | None = None
    process: subprocess.Popen[str] | None = None
    helpers: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"user-{self.index}"

    @property
    def namespace(self) -> str:
        return f"{self.lan.tag}-h{self.index}"

    @property
    def cable(self) -> str:
        return f"{self.lan.tag}-c{self.index}"

    @property
    def ip(self) -> str:
        return f"10.77.0.{self.index + 1}"

    @property
    def bundle(self) -> Path:
        return self.folder / "users" / self.name

    @property
    def log(self) -> Path:
        return self.folder / "process.log"

    def _command(self, *command: str) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *command]

    def _environment(self) -> dict[str, str]:
        wrong = (
            {"LD_PRELOAD": FAKETIME, "FAKETIME": self.clock, "FAKETIME_DONT_FAKE_MONOTONIC": "1"} if self.clock else {}
        )
        return os.environ | {"PYTHONPATH": str(ROOT)} | wrong

    def run(self, *command: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(*command), capture_output=True, text=True, timeout=timeout_s, env=self._environment()
        )

    def must(self, *command: str) -> None:
        done = self.run(*command)
        assert done.returncode == 0, f"{command}: {done.stderr}"

    def tool(self, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """The project's command line, on this machine."""
        return self.run(TOOL, *arguments, timeout_s=timeout_s)

    def start(self) -> None:
        with self.log.open("a") as log:
            command = self._command(TOOL, "node", str(self.bundle))
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment(), text=True)

    def wait(self, timeout_s: float = RUN_S) -> int:
        assert self.process is not None
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} is not done after {timeout_s:g} s:\n{self.log.read_text()[-3000:]}")

    def stop(self) -> None:
        for process in [*self.helpers, *([self.process] if self.process else [])]:
            if process.poll() is None:
                process.kill()
            process.wait(10.0)
            if process.stdout:
                process.stdout.close()

    def steps(self) -> int:
        """How many lines this user's view has."""
        path = self.bundle / "state" / "view.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def slow_link(self, delay_ms: float, jitter_ms: float, loss: float) -> None:
        self.must("iptables", "-A", "OUTPUT", "-p", "tcp", "-j", "NFQUEUE", "--queue-num", "7")
        command = self._command(sys.executable, str(Path(__file__).with_name("slow_link.py")), "7")
        helper = subprocess.Popen(
            [*command, str(delay_ms), str(jitter_ms), str(loss)], stdout=subprocess.PIPE, text=True
        )
        self.helpers.append(helper)
        assert helper.stdout is not None
        assert helper.stdout.readline() == "ready\n"

    def cut_off(self) -> None:
        _ip("-n", self.lan.switch, "link", "set", self.cable, "down")

    def plug_into(self, bridge: str) -> None:
        _ip("-n", self.lan.switch, "link", "set", self.cable, "master", bridge)


@dataclass
class Lan:
    """The switch and its machines."""

    tag: str
    machines: list[Machine] = field(default_factory=list)

    @property
    def switch(self) -> str:
        return f"{self.tag}-sw"

    def build(self, folder: Path, n: int) -> None:
        _ip("netns", "add", self.switch)
        for bridge in ("main", "aside"):
            _ip("-n", self.switch, "link", "add", bridge, "type", "bridge")
            _ip("-n", self.switch, "link", "set", bridge, "up")
        for index in range(n):
            machine = Machine(self, index, folder / f"machine-{index}")
            self.machines.append(machine)
            _ip("netns", "add", machine.namespace)
            _ip("-n", machine.namespace, "link", "add", "eth0", "type", "veth", "peer", "name", machine.cable)
            _ip("-n", machine.namespace, "link", "set", machine.cable, "netns", self.switch)
            machine.plug_into("main")
            _ip("-n", self.switch, "link", "set", machine.cable, "up")
            _ip("-n", machine.namespace, "addr", "add", f"{machine.ip}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", machine.namespace, "link", "set", device, "up")

    def enrol(self, plan: Plan, folder: Path, addresses: dict[str, str] | None = None) -> Plan:
        """Keys made on each machine, signed by one person, accepted on each machine; made-up data, one value each."""
        cards = []
        for machine in self.machines:
            machine.folder.mkdir()
            (machine.folder / "mine.csv").write_text(f"{(machine.index + 1) / (len(self.machines) + 1)}\n")
            address = (addresses or {}).get(machine.name, f"{machine.ip}:{PORT}")
            card = keygen(machine.name, address, machine.folder, f"0.0.0.0:{PORT}", machine.folder / "mine.csv")
            cards.append(Card.read(card))
        public = sign(plan, cards, folder / "signer")
        for machine in self.machines:
            accept(public, machine.folder)
        return plan

    def start(self, machines: Sequence[Machine] | None = None) -> None:
        for machine in machines or self.machines:
            machine.start()

    def under_way(self, lines: int, machine: int = 0) -> None:
        """Wait until the walk has visibly begun at one user."""
        deadline = time.monotonic() + 60.0
        while self.machines[machine].steps() < lines:
            assert time.monotonic() < deadline, self.machines[machine].log.read_text()[-3000:]
            time.sleep(0.05)

    def log_says(self, index: int, text: str) -> None:
        """Wait for a line in the log of one machine's process."""
        machine, deadline = self.machines[index], time.monotonic() + 60.0
        while text not in machine.log.read_text():
            assert machine.process is not None
            assert machine.process.poll() is None, machine.log.read_text()[-3000:]
            assert time.monotonic() < deadline, machine.log.read_text()[-3000:]
            time.sleep(0.05)

    def analyze(self, machines: Sequence[Machine] | None = None) -> subprocess.CompletedProcess[str]:
        chosen = machines or self.machines
        logs = [str(machine.bundle / "state/view.jsonl") for machine in chosen]
        command = [TOOL, "analyze", "--i-am-not-a-user", *logs, "--plan", str(chosen[0].folder / "plan.toml")]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)

    def remove(self) -> None:
        for machine in self.machines:
            machine.stop()
        for namespace in [*(machine.namespace for machine in self.machines), self.switch]:
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, timeout=20)


@pytest.fixture(scope="session")
def libfaketime() -> None:
    """A machine with a wrong clock: the C library's, so that TLS believes it too."""
    if not Path(FAKETIME).exists():
        reason = "needs Debian's package faketime, to give one machine a wrong clock"
        if os.environ.get("NETWORK_DP_REQUIRE_HOSTS"):
            pytest.fail(reason)
        pytest.skip(reason)


MakeLan = Callable[[int], Lan]


@pytest.fixture
def make_lan(tmp_path: Path) -> Iterator[MakeLan]:
    made: list[Lan] = []

    def make(n: int) -> Lan:
        made.append(Lan(f"n{secrets.token_hex(3)}"))
        made[-1].build(tmp_path, n)
        return made[-1]

    yield make
    for lan in made:
        lan.remove()


@pytest.fixture(scope="session")
def make_plan() -> Callable[..., Plan]:
    def make(n: int, **parts: Any) -> Plan:
        values: dict[str, Any] = {
            "walk": {"topology": "ring", "rounds": 20},
            "task": {"kind": "mean"},
            "noise": {"sigma": 0.5},
            "users": [{"name": f"user-{i}", "address": f"10.77.0.{i + 1}:{PORT}"} for i in range(n)],
        }
        return from_dict(values | parts)

    return make


@pytest.fixture(scope="session")
def wait_s() -> Callable[[float], None]:
    """A fault that lasts: its length is the point of the test."""
    return time.sleep
