"""How long the walk stands still when its holder is killed and started again."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from statistics import median

from benchmarks.bench import Bench
from benchmarks.rows import Row
from benchmarks.town import Visit, launched, make_plan, make_run, start, until, visits
from coordinator_free_launcher.launch import Launch

USERS = 5
ROUNDS = 100_000  # never reached


def recovery(bench: Bench) -> list[Row]:
    """SIGKILL of the holder, then from its restart to the next visit anybody logs; a ring of five."""
    rows = []
    for durability in ("process", "machine"):
        plan = make_plan(USERS, topology="ring", rounds=ROUNDS, durability=durability)
        run = make_run(bench.folder / f"recovery-{durability}", plan)
        hop_s, serving_s = [], []
        with launched(run) as launch:
            start(launch, [name for name in launch.names if name != plan.walk.starter])
            start(launch, [plan.walk.starter])
            for _ in range(bench.pick(7, 2)):
                bench.say(f"recovery of a killed holder, durability {durability}")
                hop, serving = _once(launch, run)
                hop_s.append(hop)
                serving_s.append(serving)
        name = f"restart to next hop, durability {durability}"
        ratio = median(hop_s) / median(serving_s)
        rows.append(Row("recovery", name, 1000 * median(hop_s), "ms", ratio, "restart to serving", better="low"))
    return rows


def _once(launch: Launch, run: Path) -> tuple[float, float]:
    """Stop everybody, kill the holder, go on, restart it: seconds until the next hop, and until it serves."""
    begun = launch.step
    until(launch, "the walk goes on", lambda: launch.step > begun + 10 * USERS)
    pids = dict(launch.nursery.pids)
    for pid in pids.values():
        os.kill(pid, signal.SIGSTOP)
    until(launch, "all stopped", lambda: all(_stopped(pid) for pid in pids.values()))
    last = visits(run)[-1]
    os.kill(pids[last.user], signal.SIGKILL)
    until(launch, "the holder is gone", lambda: last.user in launch.outcome.codes)
    for name, pid in pids.items():
        if name != last.user:
            os.kill(pid, signal.SIGCONT)
    restarted = time.time()
    start(launch, [last.user])
    serving_s = time.time() - restarted
    until(launch, "the next hop", lambda: _next(run, last) is not None)
    after = _next(run, last)
    assert after is not None
    return after.time - restarted, serving_s


def _next(run: Path, last: Visit) -> Visit | None:
    return next((visit for visit in visits(run) if visit.step > last.step), None)


def _stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TZ"
