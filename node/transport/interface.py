"""What stands between a protocol and the network, in both directions. gRPC over mutual TLS keeps it (``client``,
``server``); so would any other way to carry requests and answers between users whose identity is sure.

Requests and answers are values of the run's protocol. Peers are indices of the plan's users, never addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Outbound(Protocol):
    """The sending side, as the runtime uses it."""

    on_cold: Callable[[int], None]  # called when the stream to a peer has ended

    async def send(self, peer: int, request: Any) -> Any | None:
        """One request, answered in bounded time; None when no answer came."""
        ...

    async def close(self) -> None: ...


class Inbound(Protocol):
    """Whoever is behind the receiving side: the runtime. ``peer`` is known for sure, by its certificate."""

    async def ask(self, peer: int, request: Any) -> Any:
        """The answer to a peer's request."""
        ...

    def admits(self, peer: int, begun: Any) -> bool:
        """May this long request, of which the first bytes have come, have room in memory?"""
        ...

    @property
    def status(self) -> tuple[str, bool]:
        """In a word, and whether the result is final."""
        ...
