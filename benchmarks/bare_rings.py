"""Bare token rings of separate processes, to measure against: see ``bare_member`` for the kinds."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.turns import Mark, Ring
from coordinator_free_launcher.local.ports import free_ports
from node.environment import ONE_POLLER

PATIENCE_S = 120.0
ENDLESS = 10**9  # hops
SKIPPED = 0.2  # of the rounds: the start is not warm


class RingError(RuntimeError):
    """A bare ring did not come up or did not finish."""


def _line(member: subprocess.Popen[str]) -> str:
    assert member.stdout is not None
    ready, _, _ = select.select([member.stdout], [], [], PATIENCE_S)
    line = member.stdout.readline() if ready else ""
    if not line:
        raise RingError(f"a member of a bare ring said nothing for {PATIENCE_S:g} s, or ended")
    return line


def _say(members: Sequence[subprocess.Popen[str]]) -> None:
    """The starter last: everybody listens before the token moves."""
    for member in reversed(members):
        assert member.stdin is not None
        member.stdin.write("go\n")
        member.stdin.flush()


def _stop(members: Sequence[subprocess.Popen[str]]) -> None:
    for member in members:
        member.send_signal(signal.SIGSTOP)


def _environment(*, tuned: bool) -> dict[str, str]:
    """gRPC as it comes, or with the poller our users choose (``node.environment``)."""
    kept = {name: value for name, value in os.environ.items() if name not in ONE_POLLER}
    return {**kept, **(ONE_POLLER if tuned else {}), "GRPC_VERBOSITY": "NONE"}


@contextmanager
def _members(
    folder: Path, n_members: int, size: int, hops: int, kind: str, *, tuned: bool
) -> Iterator[Sequence[subprocess.Popen[str]]]:
    """A ring that goes round; keys and certificates come from the provisioned run in ``folder``."""
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
        yield members
    finally:
        _stop(members)  # first all of them: whoever is left would complain about the others
        for member in members:
            with member:
                member.kill()


def _marks(first: subprocess.Popen[str], n_members: int) -> Sequence[Mark]:
    """What the first member says when the walk is over."""
    return [(moment, n_members * turn) for turn, moment in enumerate(json.loads(_line(first)))]


def ring_rate(folder: Path, n_members: int, size: int, hops: int, kind: str, *, tuned: bool = False) -> float:
    """Hops per second of a bare ring that goes round by itself."""
    with _members(folder, n_members, size, hops, kind, tuned=tuned) as members:
        marks = _marks(members[0], n_members)
    warm = marks[int(len(marks) * SKIPPED) :]
    return (warm[-1][1] - warm[0][1]) / (warm[-1][0] - warm[0][0])


@contextmanager
def bare_ring(name: str, folder: Path, n_members: int, size: int, kind: str, *, tuned: bool = False) -> Iterator[Ring]:
    """A bare ring to take turns with; stopped, until its first one."""
    with _members(folder, n_members, size, ENDLESS, kind, tuned=tuned) as members:

        def marks() -> Sequence[Mark]:
            _stop(members[1:])
            _say(members[:1])
            return _marks(members[0], n_members)

        ring = Ring(name, [member.pid for member in members], marks)
        ring.pause()
        yield ring
