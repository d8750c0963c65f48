"""How long the walk stands still when its holder is killed and started again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.bench import Bench
from benchmarks.rows import Row
from benchmarks.town import Visit, launched, make_plan, make_run, start, until, visits
from coordinator_free_launcher.local.launch import Launch

USERS = 5
ROUNDS = 100_000  # never reached
VICTIM = "user-1"
DEADLY = "Handoff:100"  # right before its hundredth hand-over: the token is in its journal and nowhere else


def recovery(bench: Bench) -> Iterator[Row]:
    """A holder is killed; then from its restart to the next visit anybody else logs; a ring of five."""
    for durability in ("process", "machine"):
        plan = make_plan(USERS, topology="ring", rounds=ROUNDS, durability=durability, insecure_seed=1)
        run = make_run(bench.folder / f"recovery-{durability}", plan)
        found: list[tuple[float, float]] = []
        with launched(run) as launch:
            start(launch, [name for name in launch.names if name not in (VICTIM, plan.walk.starter)])
            start(launch, [VICTIM], crash_at=DEADLY)
            start(launch, [plan.walk.starter])
            for _ in range(bench.pick(7, 2)):
                bench.say(f"recovery of a killed holder, durability {durability}")
                until(launch, "the holder is killed", lambda: VICTIM in launch.outcome.codes)
                found.append(_restart(launch, run))
        hop_s, serving_s = (median(times) for times in zip(*found, strict=True))
        name = f"restart to next hop, durability {durability}"
        yield Row("recovery", name, 1000 * hop_s, "ms", hop_s / serving_s, "restart to serving", better="low")


def _restart(launch: Launch, run: Path) -> tuple[float, float]:
    """Seconds from the restart to the next hop, and to serving."""
    last, restarted = visits(run)[-1], time.time()
    start(launch, [VICTIM], crash_at=DEADLY)
    serving_s = time.time() - restarted
    until(launch, "the next hop", lambda: _next(run, last) is not None)
    after = _next(run, last)
    assert after is not None
    return after.time - restarted, serving_s


def _next(run: Path, last: Visit) -> Visit | None:
    """The first visit behind the victim's, which it logs again as it was."""
    return next((visit for visit in visits(run) if visit.step > last.step and visit.user != VICTIM), None)
