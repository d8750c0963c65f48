"""Many schedules of hidden walks, and of masked sums (every fourth), counted like those of the known walk."""

from __future__ import annotations

import time
from collections.abc import Callable

from simulator.faults.evidence import ViolationError
from simulator.rounds.world import World

Failure = tuple[int, str]  # seed, what went wrong


def run_many(
    first: int,
    schedules: int | None,
    seconds: float | None,
    progress: Callable[[int], None] = lambda done: None,
    trace: Callable[[str], None] | None = None,
) -> tuple[int, int, list[Failure]]:
    """Schedules run, events in them, and the seeds that failed."""
    done, events, failures = 0, 0, list[Failure]()
    until = None if seconds is None else time.monotonic() + seconds
    while (schedules is None or done < schedules) and (until is None or time.monotonic() < until):
        world = World(first + done, trace, in_one_round=(first + done) % 4 == 3)
        try:
            world.run()
        except (ViolationError, AssertionError) as error:
            failures.append((first + done, str(error)))
        done, events = done + 1, events + world.events
        progress(done)
    return done, events, failures
