"""Runs of our own to measure: a plan, its bundles, its users as processes, and the times in their view logs."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coordinator_free_launcher.identity.bundle import user_folder
from coordinator_free_launcher.identity.provision import provision
from coordinator_free_launcher.local.launch import Launch, LaunchError, last_lines, read_run
from coordinator_free_launcher.local.ports import with_free_ports
from network_dp.plan import Plan
from network_dp.plan_reader import from_dict

#: Nothing may be taken for dead in a benchmark, however busy the machine is.
CALM = {
    "offer_timeout_s": 60.0,
    "handoff_timeout_s": 300.0,
    "grant_ttl_s": 600.0,
    "lease_s": 600.0,
    "locate_timeout_s": 60.0,
    "start_timeout_s": 3600.0,
    "stall_timeout_s": 600.0,
    "linger_s": 2.0,
}


@dataclass(frozen=True, slots=True)
class Visit:
    """One line of a view log: who held the token at which step, since when, and from whom."""

    step: int
    time: float
    user: str
    sender: str | None


def make_plan(
    n: int,
    *,
    task: Mapping[str, Any] | None = None,
    timing: Mapping[str, float] = CALM,
    insecure_seed: int | None = None,
    **walk: Any,
) -> Plan:
    """A sum over ``n`` users at free ports of this machine. ``insecure_seed``: users may be made to crash."""
    values = {
        "name": "bench",
        "walk": walk,
        "task": task or {"kind": "sum", "dimension": 1, "lower": 0.0, "upper": 1.0},
        "noise": {"mechanism": "gaussian", "sigma": 2.0},
        "timing": dict(timing),
        "users": [{"name": f"user-{i}", "address": f"127.0.0.1:{1024 + i}"} for i in range(n)],
    }
    if insecure_seed is not None:
        values["insecure_seed"] = insecure_seed
    return with_free_ports(from_dict(values))


def vector_task(dimension: int) -> dict[str, Any]:
    factory = "benchmarks.vector_task:VectorSum"
    return {"kind": "custom", "factory": factory, "dimension": dimension, "sensitivity": 1.0}


def make_run(folder: Path, plan: Plan) -> Path:
    """Provision ``plan`` in ``folder``, everybody with the same row of numbers."""
    folder.mkdir(parents=True)
    row = folder / "row.npy"
    np.save(row, np.full((1, plan.task.dimension), 0.5))  # type: ignore[union-attr]
    return provision(plan, folder / "run", dict.fromkeys(plan.names, row), valid_days=1.0)


@contextmanager
def launched(run: Path) -> Iterator[Launch]:
    """A launch without users yet; whoever is left at the end is killed: nobody needs this state again."""
    launch = Launch(run, detach=False)
    try:
        yield launch
    finally:
        for pid in list(launch.pool.pids.values()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        launch.pool.close()


def until(launch: Launch, what: str, condition: Callable[[], Any], patience_s: float = 300.0) -> None:
    """Listen until something holds; a user that fails meanwhile is an error with its last lines."""
    deadline = time.monotonic() + patience_s
    while not condition():
        launch.listen(0.02)
        for name, code in launch.outcome.codes.items():
            if code > 0:
                raise LaunchError(f"{name} ended with code {code}\n{last_lines(launch.run, name)}")
        if time.monotonic() > deadline:
            raise LaunchError(f"not within {patience_s:g} s: {what}\n{last_lines(launch.run, launch.names[0])}")


def start(launch: Launch, names: list[str], **options: str | bool) -> None:
    """Start these users and wait until they serve."""
    for name in names:
        launch.start(name, **options)
    until(launch, "all serve", lambda: launch.ready.issuperset(names) or launch.outcome.codes)


def start_all(launch: Launch, **options: str | bool) -> None:
    """Everybody, the starter last."""
    starter = launch.plan.walk.starter
    start(launch, [name for name in launch.names if name != starter], **options)
    start(launch, [starter], **options)


def walk(run: Path, **options: str | bool) -> None:
    """The whole run, until all have ended."""
    with launched(run) as launch:
        start_all(launch, **options)
        until(launch, "all end", lambda: len(launch.outcome.codes) == len(launch.names))


def visits(run: Path, *names: str) -> list[Visit]:
    """Visits in the logs of these users (default: everybody's), by step; a line still being written is left out."""
    found = []
    for name in names or read_run(run).names:
        path = user_folder(run, name) / "state" / "view.jsonl"
        for line in path.read_text().split("\n")[:-1] if path.exists() else []:
            if line.startswith('{"kind":"visit"'):
                fields = json.loads(line)
                found.append(Visit(fields["step"], fields["time"], name, fields["from"]))
    return sorted(found, key=lambda visit: visit.step)
