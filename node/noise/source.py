"""Where randomness comes from: uniform 64-bit words.

Every sampler of this package is a deterministic function of such words, so the security of all noise rests on
the one choice made here (THEORY.md#noise-source).
"""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

WORD_BYTES = 8


class Source(Protocol):
    """A stream of independent uniform 64-bit words."""

    secure: bool  # False: the words can be predicted, and every report must say so

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words, as a new writable array."""
        ...


class SystemSource:
    """The operating system's CSPRNG: the only source a production run may use.

    Nothing is buffered: after a fork there is no word left over that parent and child could both use.
    """

    secure = True

    def words(self, count: int) -> NDArray[np.uint64]:
        return _as_words(os.urandom(count * WORD_BYTES))


class SeededSource:
    """INSECURE: a ChaCha20 key stream that depends on `seed` only, so that a test can be replayed.

    Two users with one seed would draw the same noise: put the user's name into the seed.
    """

    secure = False

    def __init__(self, seed: bytes) -> None:
        key = hashlib.sha256(seed).digest()
        self._stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        return _as_words(self._stream.update(bytes(count * WORD_BYTES)))


def _as_words(data: bytes) -> NDArray[np.uint64]:
    # Little-endian whatever the machine, so that a seed means the same words everywhere.
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)
