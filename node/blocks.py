"""Blocks of memory for long tokens, used again once nobody reads them any more.

The C library would cut smaller things out of a freed block (the chunks of the next token), and then find no room in it:
every few hops a token waited for 64 MiB of new pages, which cost as much as two hops.
"""

from __future__ import annotations

import weakref

import numpy as np
from numpy.typing import NDArray

from node.protocol.values import PAGE_BYTES

KEPT = 3  # a token that comes, the one that will leave, and the one that left last


class Blocks:
    """All of one size, which is that of a run's tokens."""

    def __init__(self) -> None:
        self._free: list[NDArray[np.uint8]] = []

    def room(self, size: int) -> memoryview:
        """As ``values.room``."""
        gap = -size % PAGE_BYTES
        block = self._free.pop() if self._free else np.empty(gap + size, np.uint8)
        assert len(block) == gap + size
        view = block[gap:]
        # Every array and view of these bytes, whoever has it, keeps ``view`` alive.
        weakref.finalize(view, self._take_back, block).atexit = False
        return view.data

    def _take_back(self, block: NDArray[np.uint8]) -> None:
        if len(self._free) < KEPT:
            self._free.append(block)
