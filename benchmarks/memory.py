"""What a user costs: time until all serve, and memory nobody else shares, before the walk and in the middle of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from benchmarks.bench import Bench
from benchmarks.rows import Row, Target, growth
from benchmarks.town import launched, make_plan, make_run, start, until
from coordinator_free_launcher.local.launch import Launch

KIB_PER_MIB = 1024
MOST_MIB = Target(8.0, "low", "value")
VISITS = 2


def private_kib(pid: int) -> int:
    """USS: pages of this process alone (Private_* of smaps_rollup; huge pages of files are nobody's own)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:")))


def available_gib() -> float:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) / KIB_PER_MIB**2


def memory(bench: Bench) -> Iterator[Row]:
    """Up to 500 users; thousands of them are section crowd."""
    sizes, seconds = [], []
    for users in bench.pick((50, 150, 500), (10, 20)):
        bench.say(f"memory and start-up of {users} users")
        started = time.monotonic()
        run = make_run(bench.folder / f"memory-{users}", make_plan(users, topology="complete", steps=100 * users))
        provisioned_s = time.monotonic() - started
        name = f"{users} users"
        with launched(run) as launch:
            began = time.monotonic()
            start(launch, [name for name in launch.names if name != launch.plan.walk.starter], warm_channels="1")
            serving_s = time.monotonic() - began
            at_rest_mib = private_mib(launch)
            start(launch, [launch.plan.walk.starter], warm_channels="1")
            until(launch, "the walk", lambda: launch.step >= VISITS * len(launch.names))
            walked_mib = private_mib(launch)
        sizes.append(float(users))
        seconds.append(serving_s)
        yield Row("memory", f"{name}: keys and bundles", provisioned_s, "s", better="low")
        yield Row("memory", f"{name}: until all serve", serving_s, "s", better="low")
        yield memory_row("memory", f"{name}: private memory", at_rest_mib)
        yield memory_row("memory", f"{name}: private memory after {VISITS} visits", walked_mib)
    if len(sizes) > 2:
        yield growth("memory", "start-up", sizes, seconds)


def private_mib(launch: Launch) -> float:
    """Of a user, on average."""
    return fmean(private_kib(pid) / KIB_PER_MIB for pid in launch.pool.pids.values())


def memory_row(section: str, what: str, used_mib: float) -> Row:
    return Row(section, what, used_mib, "MiB/user", target=MOST_MIB, better="low")
