"""The digest of a token's bytes: what both ends of a hop log (under a key), and what the journal is checked against.

SHA-256 up to one leaf. Longer bytes are cut into leaves, and the digest is SHA-256 over their SHA-256s behind a prefix
that no token begins with (Merkle, one level): two byte strings with one digest would still be a collision of SHA-256.
Leaves can be hashed while later ones are on their way, and on more cores than one.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

LEAF_BYTES = 512 * 1024
_PREFIX = b"NDPLEAF1"
_SIZE = struct.Struct("<Q")


def digest(data: bytes) -> bytes:
    if len(data) <= LEAF_BYTES:
        return hashlib.sha256(data).digest()
    return over_leaves(len(data), leaf_digests(memoryview(data)))


def leaf_digests(data: memoryview) -> list[bytes]:
    """Of bytes that begin where a leaf begins."""
    return [hashlib.sha256(data[at : at + LEAF_BYTES]).digest() for at in range(0, len(data), LEAF_BYTES)]


def over_leaves(size: int, leaves: Iterable[bytes]) -> bytes:
    """The digest of ``size`` bytes (more than one leaf of them) from the digests of their leaves."""
    return hashlib.sha256(b"".join((_PREFIX, _SIZE.pack(size), *leaves))).digest()


class RunningDigest:
    """The same digest of bytes that arrive in pieces, however they are cut."""

    def __init__(self) -> None:
        self._size = 0
        self._leaves: list[bytes] = []
        self._leaf = hashlib.sha256()

    def update(self, piece: bytes) -> None:
        left = memoryview(piece)
        while left:
            done = self._size % LEAF_BYTES
            if self._size and not done:
                self._leaves.append(self._leaf.digest())
                self._leaf = hashlib.sha256()
            part = left[: LEAF_BYTES - done]
            self._leaf.update(part)
            self._size += len(part)
            left = left[len(part) :]

    def digest(self) -> bytes:
        last = self._leaf.digest()
        return over_leaves(self._size, [*self._leaves, last]) if self._leaves else last
