"""A long token on its way in."""

from __future__ import annotations

from node.protocol.digests import RunningDigest
from node.protocol.values import Octets, room


class Arrival:
    """Each piece is hashed and put in its place while the next is on its way."""

    def __init__(self, size: int) -> None:
        self._whole, self._at = room(size), 0
        self._running = RunningDigest(size)
        self.token = self._whole.toreadonly()

    def put(self, piece: Octets) -> None:
        self._running.update(piece)
        self._whole[self._at : self._at + len(piece)] = piece
        self._at += len(piece)

    def digest(self) -> bytes:
        """Of ``token``, once every piece was put in."""
        return self._running.digest()
