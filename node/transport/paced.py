"""A sending side that lets the token travel no faster than an audience can follow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from node.protocols.walk.messages import Handoff
from node.transport.interface import Outbound


class Paced:
    """``Outbound`` that waits ``pause_s`` before each hand-over: a constant, which tells nothing about data."""

    def __init__(self, inner: Outbound, pause_s: float) -> None:
        self._inner, self._pause_s = inner, pause_s

    @property
    def on_cold(self) -> Callable[[int], None]:
        return self._inner.on_cold

    @on_cold.setter
    def on_cold(self, call: Callable[[int], None]) -> None:
        self._inner.on_cold = call

    async def send(self, peer: int, request: Any) -> Any | None:
        if isinstance(request, Handoff):
            await asyncio.sleep(self._pause_s)
        return await self._inner.send(peer, request)

    async def close(self) -> None:
        await self._inner.close()
