"""An end to waiting, for many waits at once: what ``asyncio.timeout`` does for one, with one timer for all.

Nearly every wait is over long before its time. So the timer stands at or before the first end, is left alone when a
wait is over, and looks at what is left when its moment comes.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self


class Patience:
    """Waits of one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waits: set[Wait] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def of(self, seconds: float) -> Wait:
        """Around what the current task waits for: ``TimeoutError`` after so many seconds."""
        return Wait(self, seconds, self._loop.time() + seconds)

    def begin(self, wait: Wait) -> None:
        self._waits.add(wait)
        self._set(wait.end)

    def end(self, wait: Wait) -> None:
        self._waits.discard(wait)

    def _set(self, at: float) -> None:
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(at, self._look), at

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        for wait in [wait for wait in self._waits if wait.end <= now]:
            self._waits.discard(wait)
            wait.give_up()
        if self._waits:
            self._set(min(wait.end for wait in self._waits))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None  # a wait that begins after this still ends


class Wait:
    """One wait of one task."""

    __slots__ = ("_cancelling", "_given_up", "_patience", "_seconds", "_task", "end")

    def __init__(self, patience: Patience, seconds: float, end: float) -> None:
        self._patience = patience
        self._seconds = seconds
        self._given_up = False
        self.end = end

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        self._cancelling = task.cancelling()
        self._patience.begin(self)
        return self

    def give_up(self) -> None:
        self._given_up = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Whoever else cancelled the task meanwhile is obeyed."""
        self._patience.end(self)
        if not self._given_up:
            return
        left = self._task.uncancel() - self._cancelling
        if left <= 0 and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError(f"no answer within {self._seconds:g} s") from error
