"""The digest of a token's bytes: what both ends of a hop log (under a key), and what the journal is checked against.

SHA-256, and BLAKE3 for long bytes: half the work there, and more cores than one can share it. A run's tokens are all of
one size, so two of them with one digest would be a collision of the one or the other.
"""

from __future__ import annotations

import hashlib
from typing import Any

from blake3 import blake3

from node.protocols.walk.values import Octets

LONG_BYTES = 512 * 1024


def digest(data: Octets, *, threads: int = 1) -> bytes:
    if len(data) <= LONG_BYTES:
        return hashlib.sha256(data).digest()
    return blake3(data, max_threads=threads).digest()


class RunningDigest:
    """The same digest of ``size`` bytes that arrive in pieces, however they are cut."""

    def __init__(self, size: int) -> None:
        self._hash: Any = hashlib.sha256() if size <= LONG_BYTES else blake3()

    def update(self, piece: Octets) -> None:
        self._hash.update(piece)

    def digest(self) -> bytes:
        found: bytes = self._hash.digest()
        return found
