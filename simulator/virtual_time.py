"""Virtual time: what is still to happen, by its moment. Of two at one moment, what was planned first comes first."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

Action = Callable[..., None]


class VirtualTime:
    """A clock that jumps from one planned action to the next."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0  # actions taken so far
        self._serial = 0
        self._queue: list[tuple[float, int, Action, tuple[Any, ...]]] = []

    def serial(self) -> int:
        """A number that nothing else has."""
        self._serial += 1
        return self._serial

    def at(self, moment: float, action: Action, *arguments: Any) -> None:
        heapq.heappush(self._queue, (max(moment, self.now), self.serial(), action, arguments))

    def advance(self) -> tuple[Action, tuple[Any, ...]]:
        """The clock jumps to the next action, which is for the caller to take."""
        self.now, _, action, arguments = heapq.heappop(self._queue)
        self.events += 1
        return action, arguments
