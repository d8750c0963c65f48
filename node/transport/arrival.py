"""A long token on its way in: where its pieces go."""

from __future__ import annotations

from typing import Protocol

from node.protocol.digests import RunningDigest
from node.protocol.values import Octets


class Arrival(Protocol):
    """Pieces are put in, in order, until the token is whole; in the end it is closed, whatever became of it."""

    token: memoryview

    def put(self, piece: Octets) -> None: ...

    async def digest(self) -> bytes | None:
        """Of ``token``, once every piece was put in. None: this user is ending, and the token is not whole."""
        ...

    def close(self) -> None: ...


class Filling:
    """On the event loop: each piece is hashed and put in its place while the next is on its way."""

    def __init__(self, whole: memoryview) -> None:
        self._whole, self._at = whole, 0
        self._running = RunningDigest(len(whole))
        self.token = whole.toreadonly()

    def put(self, piece: Octets) -> None:
        self._running.update(piece)
        self._whole[self._at : self._at + len(piece)] = piece
        self._at += len(piece)

    async def digest(self) -> bytes:
        return self._running.digest()

    def close(self) -> None:
        """Nothing is left to do."""
