"""A town in trouble: who is away, who comes back when, and who must be started again.

Trouble comes when the walk reaches given steps, so that a slow machine gets as much of it as a fast one. Whoever ends
before the run does is started again, with ``--rejoin`` where its journal is old, lost or damaged. No more disks are
taken than leave a majority that can vote.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from random import Random

from node.protocols import exits
from tests.system.faults.custody import Kept
from tests.system.harness import Harness

PATIENCE_S = 180.0  # for one run, on a machine that may be busy
SERVE_AGAIN_AFTER_S = 4.0


class Ordeal:
    """A town, what is done to it, and who is to come back when."""

    def __init__(self, town: Harness, dice: Random) -> None:
        self.town, self.dice, self.kept = town, dice, Kept(town)
        self.faults: Counter[str] = Counter()
        self.crashed: list[str] = []
        self.undo: list[Callable[[], None]] = []  # at the end, whatever happens
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._away: set[str] = set()
        self._rejoin: set[str] = set()
        self._called = 0.0
        self.taken: set[str] = set()  # whose disks were

    # ---- who and when -----------------------------------------------------------------------------------------

    def victims(self, count: int = 1) -> list[str]:
        here = [name for name in self.town.names if name in self.town.pool.pids and name not in self._away]
        return self.dice.sample(here, min(count, len(here)))

    def disk_victim(self) -> str | None:
        """Somebody whose disk may go: a majority keeps what it promised."""
        spare = self.town.plan.n - (self.town.plan.n // 2 + 1)
        found = [name for name in self.victims(self.town.plan.n) if name in self.taken or len(self.taken) < spare]
        self.taken.update(found[:1])
        return found[0] if found else None

    def back_in(self, least_s: float, most_s: float, come_back: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + self.dice.uniform(least_s, most_s), come_back))

    def away(self, names: list[str]) -> None:
        self._away.update(names)

    def home(self, names: list[str]) -> None:
        self._away.difference_update(names)

    def restart_in(self, names: list[str], least_s: float = 0.05, most_s: float = 1.5) -> None:
        """They ended, or were ended: ``tend`` starts them once they are no longer away."""
        self.away(names)
        self.back_in(least_s, most_s, lambda: self.home(names))

    # ---- the run ----------------------------------------------------------------------------------------------

    def go(self, trouble: Callable[[Ordeal], None], steps: list[int]) -> bool:
        """Everybody starts, ``trouble`` at each of the steps; True: everybody ended with the result."""
        self.town.start_all()
        deadline, furthest, due = time.monotonic() + PATIENCE_S, 0, sorted(steps)
        while time.monotonic() < deadline:
            self.town.listen()
            self.tend()
            furthest = max(furthest, self.town.last_step())
            while due and furthest >= due[0]:
                due.pop(0)
                trouble(self)
            if self.over():
                return True
        return False

    def over(self) -> bool:
        return not self._later and all(self.town.codes.get(name) == exits.DONE for name in self.town.names)

    def tend(self) -> None:
        """Bring back who is due; start again who ended with work left."""
        now = time.monotonic()
        due, self._later = [w for w in self._later if w[0] <= now], [w for w in self._later if w[0] > now]
        for _, come_back in due:
            come_back()
        for name, code in list(self.town.codes.items()):
            if name not in self._away and code != exits.DONE:
                self._start_again(name, code)
        self._call_back(now)

    def _start_again(self, name: str, code: int) -> None:
        if code in (exits.INTERNAL, exits.BAD_INPUT):
            self.crashed.append(f"{name} ended with code {code}: {self.town.log(name)[-300:]}")
        if code in (exits.OLD_DISK, exits.CORRUPT):
            self.faults["rejoined"] += 1
            self._rejoin.add(name)
        del self.town.codes[name]
        rejoin = name in self._rejoin
        self._rejoin.discard(name)
        self.town.pool.start(self.town.bundle(name), **({"rejoin": True} if rejoin else {}))

    def _call_back(self, now: float) -> None:
        """Who left with the result serves it again to those that were away."""
        ended = [name for name in self.town.names if self.town.codes.get(name) == exits.DONE]
        if ended and len(ended) < self.town.plan.n and now - self._called > SERVE_AGAIN_AFTER_S:
            self._called = now
            for name in ended[:3]:
                del self.town.codes[name]
                self.town.pool.start(self.town.bundle(name))
