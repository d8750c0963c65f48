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
NEEDED_GIB = {2000: 16.0}  # beyond this nothing else of the machine should be needed
MOST_MIB = Target(8.0, "low", "value")
WALK_UP_TO = 500  # users; with more, walking takes longer than all the rest
VISITS = 2


def private_kib(pid: int) -> int:
    """USS: pages of this process alone (Private_* of smaps_rollup; huge pages of files are nobody's own)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:")))


def available_gib() -> float:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) / KIB_PER_MIB**2


def memory(bench: Bench) -> Iterator[Row]:
    """50, 500 and 2000 users; the walk begins only where it is short."""
    sizes, seconds = [], []
    for users in bench.pick((50, 500, 2000), (10, 20)):
        if available_gib() < NEEDED_GIB.get(users, 0.0):
            bench.say(f"{users} users left out: only {available_gib():.1f} GiB are available")
            continue
        bench.say(f"memory and start-up of {users} users")
        started = time.monotonic()
        run = make_run(bench.folder / f"memory-{users}", make_plan(users, topology="complete", steps=100 * users))
        provisioned_s = time.monotonic() - started
        name = f"{users} users"
        with launched(run) as launch:
            began = time.monotonic()
            start(launch, [name for name in launch.names if name != launch.plan.walk.starter], warm_channels="1")
            serving_s = time.monotonic() - began
            used = [_private_row(f"{name}: private memory", launch)]
            if users <= WALK_UP_TO:
                start(launch, [launch.plan.walk.starter], warm_channels="1")
                until(launch, "the walk", lambda: launch.step >= VISITS * len(launch.names))
                used.append(_private_row(f"{name}: private memory after {VISITS} visits", launch))
        sizes.append(float(users))
        seconds.append(serving_s)
        yield Row("memory", f"{name}: keys and bundles", provisioned_s, "s", better="low")
        yield Row("memory", f"{name}: until all serve", serving_s, "s", better="low")
        yield from used
    if len(sizes) > 2:
        yield growth("memory", "start-up", sizes, seconds)


def _private_row(name: str, launch: Launch) -> Row:
    used_mib = fmean(private_kib(pid) / KIB_PER_MIB for pid in launch.pool.pids.values())
    return Row("memory", name, used_mib, "MiB/user", target=MOST_MIB, better="low")
