"""Noise drawn ahead of the visits that will use it: no token waits for it (THEORY.md#noise-source), and each is handed
out once.

A long noise takes seconds. It is drawn by a thread, one at a time, so that its user answers peers and takes a token for
which it has noise at hand. Only from a source that keeps nothing between two draws (the system's): whatever else draws
meanwhile, on the event loop, then shares no word with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from node.worker import NoiseDraw


class NoisePool:
    """Belongs to the event loop: only the drawing itself is ever in the thread."""

    def __init__(self, draw: Callable[[], list[NoiseDraw]], *, least: int, aside: bool) -> None:
        self._draw = draw
        self._least = least  # number of noises kept ahead
        self._loop = asyncio.get_running_loop()
        self._helper = ThreadPoolExecutor(1) if aside else None
        self._under_way: Future[list[NoiseDraw]] | None = None
        self._drawn: deque[NoiseDraw] = deque()
        self._closed = False
        while len(self._drawn) < self._least:
            self._drawn.extend(draw())

    @property
    def low(self) -> bool:
        return len(self._drawn) <= self._least

    def take(self) -> NoiseDraw:
        """The next noise; with none at hand, one is waited for: the visit cannot go on without."""
        if not self._drawn and self._under_way is not None:
            self._collect(self._under_way)
        if not self._drawn:
            self._drawn.extend(self._draw())
        return self._drawn.popleft()

    def restock(self) -> None:
        """To be called between hops."""
        if self._closed:
            return
        if self._helper is None:
            while len(self._drawn) < self._least:
                self._drawn.extend(self._draw())
        elif self._under_way is None and len(self._drawn) < self._least:
            self._under_way = self._helper.submit(self._draw)
            self._under_way.add_done_callback(self._tell)

    def _tell(self, done: Future[list[NoiseDraw]]) -> None:
        """In the thread: the event loop collects, unless it has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._collect, done)

    def _collect(self, done: Future[list[NoiseDraw]]) -> None:
        """Once, whether a visit waited for it or it was told."""
        if self._under_way is done:
            self._under_way = None
            self._drawn.extend(done.result())
            self.restock()

    def close(self) -> None:
        self._closed = True
        self._under_way = None
        if self._helper is not None:
            self._helper.shutdown(wait=False, cancel_futures=True)
