"""Where randomness comes from: uniform 64-bit words.

Every sampler of this package is a deterministic function of such words, so the security of all noise rests on
the one choice made here (THEORY.md#noise-source).
"""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms
from numpy.typing import NDArray

KEY_BYTES = 32
DIRECT_WORDS_MAX = 512  # below, asking the kernel for every byte costs less than setting up a cipher


class Source(Protocol):
    """A stream of independent uniform 64-bit words."""

    secure: bool  # False: the words can be predicted, and every report must say so

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words, as a new writable array."""
        ...


class SystemSource:
    """The operating system's CSPRNG: the only source a production run may use.

    A long request is the ChaCha20 key stream under a key that the kernel draws for this one request, ten times as fast
    as the kernel itself. Neither key nor words outlive the request: after a fork, and between two threads, nothing is
    left over that both could use.
    """

    secure = True

    def words(self, count: int) -> NDArray[np.uint64]:
        if count <= DIRECT_WORDS_MAX:
            return np.frombuffer(bytearray(os.urandom(8 * count)), dtype=np.uint64)
        return _next_words(_key_stream(os.urandom(KEY_BYTES)), count)


class SeededSource:
    """INSECURE: a ChaCha20 key stream that depends on `seed` only, so that a test can be replayed.

    Two users with one seed would draw the same noise: put the user's name into the seed.
    """

    secure = False

    def __init__(self, seed: bytes) -> None:
        self._stream = _key_stream(hashlib.sha256(seed).digest())

    def words(self, count: int) -> NDArray[np.uint64]:
        return _next_words(self._stream, count)


def _key_stream(key: bytes) -> CipherContext:
    return Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()


def _next_words(stream: CipherContext, count: int) -> NDArray[np.uint64]:
    # Little-endian whatever the machine, so that a seed means the same words everywhere.
    words = np.zeros(count, dtype="<u8")
    in_place = memoryview(words.view(np.uint8))
    stream.update_into(in_place, in_place)  # zeros are encrypted to the key stream itself
    return words.astype(np.uint64, copy=False)
