"""Bare token rings of separate processes, to measure against: see ``bare_member`` for the kinds."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bare_member import TIME, Seat
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
def _members(seat: Seat, kind: str, *, tuned: bool) -> Iterator[Sequence[subprocess.Popen[str]]]:
    """A ring that goes round; keys and certificates come from the provisioned run in the seat's folder."""
    command = [sys.executable, "-m", "benchmarks.bare_member", kind, str(seat.folder), str(seat.size), str(seat.hops)]
    environment = _environment(tuned=tuned)
    ports = [str(port) for port in seat.ports]
    members = [
        subprocess.Popen(
            [*command, str(index), *ports], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for index in range(len(ports))
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


def _first_seat(folder: Path, n_members: int, size: int, hops: int) -> Seat:
    return Seat(folder, 0, tuple(free_ports(n_members)), size, hops)


def _marks(seat: Seat) -> Sequence[Mark]:
    """What the first member has written so far."""
    written = seat.rounds.read_bytes() if seat.rounds.exists() else b""
    whole = written[: len(written) // TIME.size * TIME.size]
    return [(moment, len(seat.ports) * turn) for turn, (moment,) in enumerate(TIME.iter_unpack(whole))]


def ring_rate(folder: Path, n_members: int, size: int, hops: int, kind: str, *, tuned: bool = False) -> float:
    """Hops per second of a bare ring that goes round by itself."""
    seat = _first_seat(folder, n_members, size, hops)
    with _members(seat, kind, tuned=tuned) as members:
        _line(members[0])
        marks = _marks(seat)
    warm = marks[int(len(marks) * SKIPPED) :]
    return (warm[-1][1] - warm[0][1]) / (warm[-1][0] - warm[0][0])


@contextmanager
def bare_ring(name: str, folder: Path, n_members: int, size: int, kind: str, *, tuned: bool = False) -> Iterator[Ring]:
    """A bare ring to take turns with; stopped, until its first one."""
    seat = _first_seat(folder, n_members, size, ENDLESS)
    with _members(seat, kind, tuned=tuned) as members:
        ring = Ring(name, [member.pid for member in members], lambda: _marks(seat))
        ring.pause()
        yield ring
