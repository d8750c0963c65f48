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
LOOK_S = 0.3


def recovery(bench: Bench) -> list[Row]:
    """SIGKILL of the holder, then from its restart to the next visit anybody logs; a ring of five."""
    rows = []
    for durability in ("process", "machine"):
        plan = make_plan(USERS, topology="ring", rounds=ROUNDS, durability=durability)
        run = make_run(bench.folder / f"recovery-{durability}", plan)
        found: list[tuple[float, float]] = []
        with launched(run) as launch:
            start(launch, [name for name in launch.names if name != plan.walk.starter])
            start(launch, [plan.walk.starter])
            while len(found) < bench.pick(7, 2):
                bench.say(f"recovery of a killed holder, durability {durability}")
                last = _kill_holder(launch, run)
                waits = _stands_still(launch, run, last)
                times = _restart(launch, run, last)
                found += [times] if waits else []
        hop_s, serving_s = (median(times) for times in zip(*found, strict=True))
        name = f"restart to next hop, durability {durability}"
        rows.append(Row("recovery", name, 1000 * hop_s, "ms", hop_s / serving_s, "restart to serving", better="low"))
    return rows


def _kill_holder(launch: Launch, run: Path) -> Visit:
    """While nobody moves, kill whoever logged the last visit; the others go on."""
    begun = launch.step
    until(launch, "the walk goes on", lambda: launch.step > begun + 10 * USERS)
    pids = dict(launch.nursery.pids)
    for pid in pids.values():
        os.kill(pid, signal.SIGSTOP)
    until(launch, "all stopped", lambda: all(_stopped(pid) for pid in pids.values()))
    last = visits(run)[-1]
    os.kill(pids.pop(last.user), signal.SIGKILL)
    until(launch, "the holder is gone", lambda: last.user in launch.outcome.codes)
    for pid in pids.values():
        os.kill(pid, signal.SIGCONT)
    return last


def _stands_still(launch: Launch, run: Path, last: Visit) -> bool:
    """Had the killed user the token still? Else its bytes were on their way, and the walk skips it on the ring."""
    looked = time.monotonic() + LOOK_S
    until(launch, "a look at the walk", lambda: time.monotonic() > looked or _next(run, last) is not None)
    return _next(run, last) is None


def _restart(launch: Launch, run: Path, last: Visit) -> tuple[float, float]:
    """Seconds from the restart to the next hop, and to serving."""
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
