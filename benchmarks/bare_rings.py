"""Bare token rings of separate processes, to measure against: see ``bare_member`` for the kinds."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

from coordinator_free_launcher.ports import free_ports

PATIENCE_S = 120.0


class RingError(RuntimeError):
    """A bare ring did not come up or did not finish."""


def _line(member: subprocess.Popen[str]) -> str:
    assert member.stdout is not None
    ready, _, _ = select.select([member.stdout], [], [], PATIENCE_S)
    line = member.stdout.readline() if ready else ""
    if not line:
        raise RingError(f"a member of a bare ring said nothing for {PATIENCE_S:g} s, or ended")
    return line


def _say(members: list[subprocess.Popen[str]]) -> None:
    """The starter last: everybody listens before the token moves."""
    for member in reversed(members):
        assert member.stdin is not None
        member.stdin.write("go\n")
        member.stdin.flush()


def _environment(*, tuned: bool) -> dict[str, str]:
    """gRPC as it comes, or with the poller our users choose (``node``)."""
    kept = {name: value for name, value in os.environ.items() if tuned or name != "GRPC_EXPERIMENTS"}
    return {**kept, "GRPC_VERBOSITY": "NONE"}


def ring_rate(folder: Path, n_members: int, size: int, hops: int, kind: str, *, tuned: bool = False) -> float:
    """Hops per second of a bare ring; keys and certificates come from the provisioned run in ``folder``."""
    ports = [str(port) for port in free_ports(n_members)]
    command = [sys.executable, "-m", "benchmarks.bare_member", kind, str(folder), str(size), str(hops)]
    environment = _environment(tuned=tuned)
    members = [
        subprocess.Popen(
            [*command, str(index), *ports], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for index in range(n_members)
    ]
    try:
        for _ in ("up", "connected"):
            for member in members:
                _line(member)
            _say(members)
        return float(_line(members[0]))
    finally:
        for member in members:
            member.terminate()
        for member in members:
            with member:
                member.wait(PATIENCE_S)
