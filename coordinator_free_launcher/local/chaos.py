"""Trouble on purpose: run the users of a folder while some of them are killed, frozen and brought back at random.

Only processes started here are touched. The schedule comes from a seed; what it hits depends on how fast the walk is.
Rates are per second for the whole run. After the given time everybody is brought back and the run is left in peace.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from coordinator_free_launcher.local.launch import Launch, best_result, results
from node.protocols import exits

DOWN_S = (0.1, 3.0)  # how long a victim is away
EVENTS_SHOWN = 12
LOOK_EVERY_S = 0.05
RESTARTS_AFTER = 5  # of a user that ended with work left
SERVE_AGAIN = 3


class Status:
    """What a user is doing, as far as this process knows."""

    UP = "up"
    DOWN = "down"
    PAUSED = "paused"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Rates:
    """Kills and pauses per second."""

    kill: float
    pause: float


@dataclass(frozen=True, slots=True)
class Picture:
    """One moment, for a live display."""

    users: dict[str, str]
    step: int
    total: int
    left_s: float
    events: tuple[str, ...]


@dataclass(slots=True)
class ChaosCounts:
    """What was done to the users, and how it ended."""

    kills: int = 0
    pauses: int = 0
    finished: bool = False
    identical: bool = False
    result: dict[str, Any] | None = None
    failed: dict[str, int] = field(default_factory=dict)


class Chaos:
    """One run under trouble."""

    def __init__(self, run: Path, rates: Rates, seconds: float, seed: int) -> None:
        self.run = run
        self.tally = ChaosCounts()
        self._rates = rates
        self._seconds = seconds
        self._dice = random.Random(seed)  # noqa: S311 - a schedule of faults, no secret
        self._launch = Launch(run, detach=False)
        self.plan, self.names = self._launch.plan, self._launch.names
        self._back: dict[str, float] = {}  # victim -> when it comes back
        self._paused: set[str] = set()
        self._restarts = dict.fromkeys(self.names, 0)
        self._events: deque[str] = deque(maxlen=EVENTS_SHOWN)
        self._asked: SimpleQueue[tuple[str, str]] = SimpleQueue()  # by hand, from a page
        self._began = time.monotonic()

    # ---- the run ----------------------------------------------------------------------------------------------

    def go(self, show: Callable[[Picture], None], patience_s: float) -> ChaosCounts:
        """Trouble for the given time, then peace until everybody has the result or ``patience_s`` is over."""
        try:
            self._launch.start_all(lambda progress: show(self.picture()))
            self._began = time.monotonic()
            next_kill, next_pause = self._next(self._rates.kill), self._next(self._rates.pause)
            while (now := self._now()) < self._seconds and not self._over():
                if now >= next_kill:
                    self._kill(self._victim())
                    next_kill = now + self._next(self._rates.kill)
                if now >= next_pause:
                    self._pause(self._victim())
                    next_pause = now + self._next(self._rates.pause)
                self._listen(show)
            while self._now() < self._seconds + patience_s and not self._over():
                self._listen(show)
            self._conclude()
            show(self.picture())
            return self.tally
        finally:
            self._wake_all()
            self._launch.pool.close()

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _next(self, rate: float) -> float:
        """Seconds to the next event of a Poisson process."""
        return self._dice.expovariate(rate) if rate > 0 else float("inf")

    def _over(self) -> bool:
        """Everybody has ended with the result, and nobody is due back."""
        return not self._back and all(self._launch.outcome.codes.get(name) == exits.DONE for name in self.names)

    def _conclude(self) -> None:
        found = results(self.run, self.names)
        codes = self._launch.outcome.codes
        self.tally.finished = len(found) == len(self.names)
        self.tally.result = best_result(found)
        self.tally.identical = len({str(result.get("end")) for result in found.values()}) == 1
        self.tally.failed = {name: codes[name] for name in self.names if codes.get(name, exits.DONE) != exits.DONE}

    # ---- trouble ----------------------------------------------------------------------------------------------

    def _victim(self) -> str | None:
        alive = sorted(name for name in self._launch.ready if name not in self._back)
        return self._dice.choice(alive) if alive else None

    def _signal(self, name: str, number: signal.Signals) -> None:
        pid = self._launch.pool.pids.get(name)
        if pid is not None:
            with suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(pid, number)

    def ask(self, name: str, what: str) -> None:
        """ "kill" or "freeze" this user soon, whatever the schedule says; from any thread."""
        self._asked.put((name, what))

    def _do_asked(self) -> None:
        while not self._asked.empty():
            name, what = self._asked.get()
            if name in self._launch.ready and name not in self._back:
                {"kill": self._kill, "freeze": self._pause}[what](name)

    def _kill(self, name: str | None) -> None:
        if name is not None:
            self._signal(name, signal.SIGKILL)
            self._away(name, "killed")
            self.tally.kills += 1

    def _pause(self, name: str | None) -> None:
        if name is not None:
            self._signal(name, signal.SIGSTOP)
            self._paused.add(name)
            self._away(name, "paused")
            self.tally.pauses += 1

    def _away(self, name: str, what: str) -> None:
        self._back[name] = self._now() + self._dice.uniform(*DOWN_S)
        self._say(f"{name} {what}")

    def _say(self, text: str) -> None:
        self._events.append(f"{self._now():6.1f} s  {text}")

    # ---- and back ---------------------------------------------------------------------------------------------

    def _listen(self, show: Callable[[Picture], None]) -> None:
        self._do_asked()
        for news in self._launch.listen(LOOK_EVERY_S):
            if news.kind == "exit" and news.name not in self._back and news.value != exits.DONE:
                self._retry(news.name, news.value)
        for text in self._launch.warnings():
            self._say(text)
        for name in [name for name, at in self._back.items() if self._now() >= at]:
            self._bring_back(name)
        show(self.picture())

    def _bring_back(self, name: str) -> None:
        if name in self._paused:
            self._paused.discard(name)
            self._signal(name, signal.SIGCONT)
            self._say(f"{name} goes on")
        elif name not in self._launch.outcome.codes:
            return  # its end was not heard of yet
        elif self._launch.outcome.codes[name] != exits.DONE:
            self._launch.start(name)
            self._say(f"{name} started again")
        del self._back[name]
        self._call_back(name)

    def _call_back(self, late: str) -> None:
        """Some that ended with the result serve it again to whoever was away meanwhile."""
        codes = self._launch.outcome.codes
        ended = [name for name in self.names if name != late and codes.get(name) == exits.DONE]
        for name in ended[:SERVE_AGAIN]:
            self._launch.start(name)
            self._say(f"{name} serves the result again")

    def _retry(self, name: str, code: int) -> None:
        """A user that gave up for lack of others (code 4) is started again, a bounded number of times."""
        self._say(f"{name} ended with code {code}")
        if code in (exits.STALLED, exits.STOPPED) and self._restarts[name] < RESTARTS_AFTER:
            self._restarts[name] += 1
            self._back[name] = self._now()

    def _wake_all(self) -> None:
        """A frozen process cannot be asked to stop."""
        for name in self._paused:
            self._signal(name, signal.SIGCONT)

    # ---- the picture ------------------------------------------------------------------------------------------

    def picture(self) -> Picture:
        left_s = max(0.0, self._seconds - self._now())
        users = {name: self._status(name) for name in self.names}
        return Picture(users, self._launch.step, self.plan.total_steps, left_s, tuple(self._events))

    def _status(self, name: str) -> str:
        if name in self._paused:
            return Status.PAUSED
        if self._launch.outcome.codes.get(name) == exits.DONE:
            return Status.ENDED
        return Status.UP if name in self._launch.ready and name not in self._back else Status.DOWN
