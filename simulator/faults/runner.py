"""Run schedules: one, with every step told, or very many on all cores."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count

from simulator.faults.evidence import ViolationError
from simulator.faults.invariants import Choice
from simulator.faults.schedule import Schedule, draw
from simulator.faults.world import World

BATCH = 40
FALSE_ALARM = 1e-9  # of the test of the next-hop law, once per summary


@dataclass(frozen=True)
class Failure:
    """A schedule that broke an invariant."""

    seed: int
    what: str
    schedule: str


@dataclass
class RunCounts:
    """What a number of schedules came to."""

    schedules: int = 0
    events: int = 0
    failures: list[Failure] = field(default_factory=list)
    choices: Counter[Choice] = field(default_factory=Counter)

    def add(self, other: RunCounts) -> None:
        self.schedules += other.schedules
        self.events += other.events
        self.failures += other.failures
        self.choices.update(other.choices)

    @property
    def law_p_value(self) -> float:
        """Chi-square test that the next user is uniform over those open to the draw (THEORY.md#absent-users)."""
        from scipy.stats import chi2

        statistic, freedom = 0.0, 0
        for size in sorted({size for size, _ in self.choices}):
            observed = [self.choices[size, place] for place in range(size)]
            expected = sum(observed) / size
            if size < 2 or expected < 5:
                continue
            statistic += sum((seen - expected) ** 2 for seen in observed) / expected
            freedom += size - 1
        return float(chi2.sf(statistic, freedom)) if freedom else 1.0

    @property
    def law_holds(self) -> bool:
        return self.law_p_value > FALSE_ALARM


def run_schedule(schedule: Schedule, tell: Callable[[str], None] | None = None) -> RunCounts:
    """One schedule; a breach of an invariant, or an assertion of the core, is a failure."""
    world = World(schedule, tell)
    tally = RunCounts(schedules=1)
    try:
        world.run()
        world.checks.at_end()
    except (ViolationError, AssertionError, KeyError, ValueError, TypeError) as error:
        what = str(error) if isinstance(error, ViolationError) else f"{type(error).__name__}: {error}"
        tally.failures.append(Failure(schedule.seed, what, str(schedule)))
    tally.events = world.events
    tally.choices = Counter(world.checks.choices)
    return tally


def run_seed(seed: int, tell: Callable[[str], None] | None = None) -> RunCounts:
    return run_schedule(draw(seed), tell)


def run_batch(first: int, size: int) -> RunCounts:
    tally = RunCounts()
    for seed in range(first, first + size):
        tally.add(run_seed(seed))
    return tally


def run_many(
    first: int, schedules: int | None, seconds: float | None, jobs: int, progress: Callable[[RunCounts], None]
) -> RunCounts:
    """Seeds ``first``, ``first`` + 1, ... until so many schedules or so much time; ``progress`` after every batch."""
    started = time.monotonic()
    total = RunCounts()

    def batches() -> Iterator[tuple[int, int]]:
        for place in count(0, BATCH):
            if schedules is not None and place >= schedules:
                return
            if seconds is not None and time.monotonic() - started > seconds:
                return
            yield first + place, BATCH if schedules is None else min(BATCH, schedules - place)

    if jobs == 1:
        for seed, size in batches():
            total.add(run_batch(seed, size))
            progress(total)
        return total
    with ProcessPoolExecutor(jobs) as pool:
        running: set[Future[RunCounts]] = set()
        for seed, size in batches():
            running.add(pool.submit(run_batch, seed, size))
            if len(running) >= 2 * jobs:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    total.add(future.result())
                    progress(total)
        for future in running:
            total.add(future.result())
            progress(total)
    return total
