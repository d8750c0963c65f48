"""Looking at processes from outside: who is left, when did one end."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from network_dp.plan import Plan

PATIENCE_S = 120.0


def processes_of(run: Path) -> list[int]:
    """Processes whose command line names this run's folder (a forked user keeps its parent's command line)."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(str(run).encode() in word for word in words):
                found.append(int(folder.name))
    return found


def parent_of(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("PPid:")))


def wait_until_ended(pids: Iterable[int], patience_s: float = PATIENCE_S) -> None:
    """Wait for the end of processes that need not be our children."""
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            assert select.select([handle], [], [], patience_s)[0], f"process {pid} has not ended"
        finally:
            os.close(handle)


def wait_for(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """For what only the file system tells."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def check_nothing_is_left(plan: Plan, run: Path) -> None:
    """No process of the run, nobody on its ports."""
    assert processes_of(run) == []
    for user in plan.users:
        host, port = user.address.rsplit(":", 1)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, int(port)))  # free for the next run


def network_dp(*words: str | Path) -> list[str]:
    """The command line as users call it."""
    return [sys.executable, "-c", "from coordinator_free_launcher.cli.app import main; main()", *map(str, words)]


def call(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(network_dp(*words), capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def call_node(bundle: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "node", str(bundle)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
