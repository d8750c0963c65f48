"""Rings side by side, of which one runs at a time, in short turns.

A machine's speed changes by a third within a minute. Two rings that run one after the other differ by that; two that
take turns of seconds have the same of it. Whoever has no turn is stopped (SIGSTOP) and costs nothing.
"""

from __future__ import annotations

import os
import signal
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, stdev

Mark = tuple[float, int]  # when (seconds since 1970) the first member had the token, after how many hops


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring under way; ``marks``: those there are so far."""

    name: str
    pids: Sequence[int]
    marks: Callable[[], Sequence[Mark]]

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for pid in self.pids:
            os.kill(pid, number)


FEWEST, PATIENCE = 2, 1.25  # turns; times what all turns would take if none had to grow


@dataclass(frozen=True, slots=True)
class Turns:
    """How many, how long, and how much of each is not counted: caches and connections wake up."""

    count: int  # at most: where turns had to grow there are fewer, for the sake of whatever else is measured
    seconds: float
    skipped_s: float
    most_s: float = 60.0  # a turn grows to this where the token does not come round twice in it


class NotMeasuredError(RuntimeError):
    """What could not be measured here and now, and why: one sentence for the table."""


def take_turns(
    rings: Sequence[Ring], turns: Turns, say: Callable[[str], None] = lambda text: None
) -> Mapping[str, Sequence[float]]:
    """Hops a second of every ring, one number a turn."""
    rates: dict[str, list[float]] = {ring.name: [] for ring in rings}
    over_at = time.monotonic() + PATIENCE * turns.count * turns.seconds * len(rings)
    for turn in range(turns.count):
        if turn >= FEWEST and time.monotonic() > over_at:
            say(f"turns grew, so there were {turn} of {turns.count}")
            break
        first = turn % len(rings)
        for ring in (*rings[first:], *rings[:first]):
            rates[ring.name].append(_one_turn(ring, turns, say))
    return rates


def _one_turn(ring: Ring, turns: Turns, say: Callable[[str], None]) -> float:
    """The rate of one turn, which grows until the token has come round twice in it."""
    ring.go_on()
    begun, seconds = time.time(), turns.seconds
    while True:
        time.sleep(max(0.0, begun + seconds - time.time()))
        found = rate_between(ring.marks(), begun + turns.skipped_s, time.time())
        if found is not None or seconds >= turns.most_s:
            break
        seconds = min(2 * seconds, turns.most_s)
        say(f"{ring.name}: not twice round in {seconds / 2:g} s, so this turn goes on to {seconds:g} s")
    ring.pause()
    if found is None:
        raise NotMeasuredError(f"the token of {ring.name} did not come round twice in {seconds:g} s")
    return found


def rate_between(marks: Sequence[Mark], start: float, end: float) -> float | None:
    """Hops a second, from the first mark to the last between two moments; None: there are no two."""
    first, last = bisect_left(marks, (start, 0)), bisect_right(marks, (end, 0)) - 1
    if last <= first:
        return None
    return (marks[last][1] - marks[first][1]) / (marks[last][0] - marks[first][0])


def paired(rates: Sequence[float], rival: Sequence[float]) -> tuple[float, float]:
    """The mean ratio (geometric) of two rings over their turns, and its standard error."""
    logs = [log(ours / theirs) for ours, theirs in zip(rates, rival, strict=True)]
    ratio = exp(fmean(logs))
    return ratio, ratio * stdev(logs) / sqrt(len(logs)) if len(logs) > 1 else 0.0
