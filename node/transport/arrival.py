"""A long token on its way in."""

from __future__ import annotations

from node.protocols.walk.digests import RunningDigest
from node.protocols.walk.values import Octets, room


class Arrival:
    """Each piece is hashed and put in its place while the next is on its way. Without ``keep`` it is only hashed."""

    def __init__(self, size: int, *, keep: bool) -> None:
        self._room = room(size if keep else 0)
        self._keep, self._at = keep, 0
        self._running = RunningDigest(size)

    def put(self, piece: Octets) -> None:
        self._running.update(piece)
        if self._keep:
            self._room[self._at : self._at + len(piece)] = piece
        self._at += len(piece)

    @property
    def token(self) -> memoryview:
        """Once every piece was put in; empty where it was not kept."""
        return self._room.toreadonly()

    def digest(self) -> bytes:
        return self._running.digest()
