"""The token waits before it travels, and only the token."""

from __future__ import annotations

import asyncio
from typing import Any

from node.protocols.walk.messages import Handoff, Offer
from node.protocols.walk.values import NO_HOP
from node.transport.paced import Paced


class Recorder:
    """An outbound side that answers at once and remembers."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.on_cold = lambda peer: None

    async def send(self, peer: int, request: Any) -> Any:
        self.sent.append(request)
        return "answer"

    async def close(self) -> None:
        self.sent.append("closed")


def test_only_a_hand_over_waits() -> None:
    pauses: list[float] = []

    async def go() -> None:
        inner = Recorder()
        paced = Paced(inner, 0.01)
        paced.on_cold = cold = lambda peer: None
        assert inner.on_cold is cold is paced.on_cold
        for request in (Offer(NO_HOP), Handoff(NO_HOP, b"", b"", b"")):
            before = asyncio.get_running_loop().time()
            assert await paced.send(1, request) == "answer"
            pauses.append(asyncio.get_running_loop().time() - before)
        await paced.close()
        assert inner.sent[-1] == "closed" and len(inner.sent) == 3

    asyncio.run(go())
    assert pauses[0] < 0.01 <= pauses[1]
