"""Thousands of users as processes on one machine: until all serve, and a walk in which nearly every hop connects anew,
against a bare walk of as many bare processes in the same command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.bare_rings import SKIPPED
from benchmarks.bench import Bench
from benchmarks.hops import marks_of
from benchmarks.memory import available_gib, memory_row, private_mib
from benchmarks.rows import Row, Target
from benchmarks.town import launched, make_plan, make_run, start_all, until, visits
from benchmarks.turns import NotMeasuredError, rate_between
from coordinator_free_launcher.local.node_pool import LEAN_ENVIRONMENT
from coordinator_free_launcher.local.ports import free_ports

MIB_PER_USER = 7.5  # with what the kernel keeps for it, after it has walked
PATIENCE_S = 250.0


def crowd(bench: Bench) -> list[Row]:
    """The bare walk first, then ours: memory has no room for both."""
    n, hops = bench.pick(bench.users, 10), bench.pick(1500, 60)
    needed_gib = n * MIB_PER_USER / 1024
    if available_gib() < needed_gib:
        raise NotMeasuredError(f"{n} users need {needed_gib:.1f} GiB, {available_gib():.1f} are available")
    plan = make_plan(n, topology="complete", steps=100 * hops, durability="process")
    run = make_run(bench.folder / f"crowd-{n}", plan)
    bench.say(f"crowd: {n} bare processes walk")
    bare_serving_s, bare_rate = _bare(run, n, hops)
    bench.say(f"crowd: {n} users of ours walk")
    serving_s, rate, used_mib = _ours(run, hops)
    name, against = f"{n} users", f"{n} bare processes"
    return [
        Row("crowd", f"{against}: until all serve", bare_serving_s, "s", better="low"),
        Row("crowd", f"{against}: connect + handshake + call", bare_rate, "hops/s"),
        Row("crowd", f"{name}: until all serve", serving_s, "s", target=Target(45.0, "low", "value"), better="low"),
        Row("crowd", f"{name}: walk", rate, "hops/s", rate / bare_rate, "bare cold walk", Target(0.8, "high")),
        memory_row("crowd", f"{name}: private memory while they walk", used_mib),
    ]


def _bare(run: Path, n: int, hops: int) -> tuple[float, float]:
    """Seconds until all serve, and hops a second."""
    ports = [str(port) for port in free_ports(n)]
    command = [sys.executable, "-m", "benchmarks.bare_crowd", str(run), str(hops), *ports]
    environment = {**os.environ, **LEAN_ENVIRONMENT}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        try:
            said, _ = parent.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise NotMeasuredError(f"{n} bare processes did not walk {hops} hops in {PATIENCE_S:g} s") from None
        finally:
            parent.send_signal(signal.SIGTERM)  # it ends its children
    serving_s, rate = said.split()
    return float(serving_s), float(rate)


def _ours(run: Path, hops: int) -> tuple[float, float, float]:
    """The same of our users, each with one connection kept as in any run of more than two hundred, and MiB of each."""
    with launched(run) as launch:
        began = time.monotonic()
        start_all(launch, warm_channels="1")
        serving_s = time.monotonic() - began
        until(launch, f"{hops} hops", lambda: launch.step >= hops, PATIENCE_S)
        used_mib = private_mib(launch)
        marks = marks_of(visits(run), "complete")
    rate = rate_between(marks[int(SKIPPED * len(marks)) :], 0.0, time.time())
    assert rate is not None
    return serving_s, rate, used_mib
