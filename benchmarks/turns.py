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
    """A ring under way. ``marks`` may end it, so it is asked once, after the last turn."""

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


@dataclass(frozen=True, slots=True)
class Turns:
    """How many, how long, and how much of each is not counted: caches and connections wake up."""

    count: int
    seconds: float
    skipped_s: float


def take_turns(rings: Sequence[Ring], turns: Turns) -> Mapping[str, Sequence[float]]:
    """Hops a second of every ring, one number a turn."""
    spans: dict[str, list[tuple[float, float]]] = {ring.name: [] for ring in rings}
    for turn in range(turns.count):
        first = turn % len(rings)
        for ring in (*rings[first:], *rings[:first]):
            ring.go_on()
            begun = time.time()
            time.sleep(turns.seconds)
            spans[ring.name].append((begun + turns.skipped_s, time.time()))
            ring.pause()
    found = {}
    for ring in rings:
        ring.go_on()
        marks = ring.marks()
        found[ring.name] = [rate_between(marks, *span) for span in spans[ring.name]]
    return found


def rate_between(marks: Sequence[Mark], start: float, end: float) -> float:
    """Hops a second, from the first mark to the last between two moments."""
    first, last = bisect_left(marks, (start, 0)), bisect_right(marks, (end, 0)) - 1
    if last <= first:
        raise ValueError("the token did not come round twice in one turn: make the turns longer")
    return (marks[last][1] - marks[first][1]) / (marks[last][0] - marks[first][0])


def paired(rates: Sequence[float], rival: Sequence[float]) -> tuple[float, float]:
    """The mean ratio (geometric) of two rings over their turns, and its standard error."""
    logs = [log(ours / theirs) for ours, theirs in zip(rates, rival, strict=True)]
    ratio = exp(fmean(logs))
    return ratio, ratio * stdev(logs) / sqrt(len(logs)) if len(logs) > 1 else 0.0
