"""Pads: every pair of users adds and subtracts one keystream, so that the sum of all blocks is what was said.

A pad's key is bound to both users' lives and to the adder's; within that life of the adder the round's counter says
where in the keystream a pad lies. A user answers a counter once, so no pad ever covers two messages
(docs/PROTOCOL.md#rounds).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

Words = NDArray[np.uint64]
LIFE_BYTES = 16
AHEAD_BYTES = 1 << 16  # pads are made for several rounds at once: a call to the cipher costs as much as 16 KiB of it
_NONCE = struct.Struct("<IQI")  # ChaCha20's block counter, the stretch of rounds, nothing


def derived(secret: bytes, info: bytes) -> bytes:
    """32 bytes by HKDF-SHA-256."""
    return HKDF(SHA256(), 32, salt=None, info=info).derive(secret)


def stream(key: bytes, stretch: int, size: int) -> Words:
    """The keystream of one stretch of rounds as ``size`` words."""
    cipher = Cipher(ChaCha20(key, _NONCE.pack(0, stretch, 0)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * size)), np.dtype("<u8"))


class Pads:
    """One user's side of all its pads, for blocks of ``size`` words."""

    def __init__(self, me: int, private: bytes, publics: Sequence[bytes], run_id: str, size: int) -> None:
        """``ValueError`` for a public key of low order: its secrets would be known to everybody."""
        key = X25519PrivateKey.from_private_bytes(private)
        self._me = me
        self._run = run_id.encode()
        self._size = size
        self._stretch = max(1, AHEAD_BYTES // (8 * size))
        self._secrets = {
            user: key.exchange(X25519PublicKey.from_public_bytes(public))
            for user, public in enumerate(publics)
            if user != me
        }
        self._keys: dict[tuple[int, bytes], bytes] = {}
        self._adder: tuple[int, bytes] = (-1, b"")
        self._ahead: tuple[int, Mapping[int, bytes], Words] = (-1, {}, np.empty(0, np.uint64))

    def total(self, roll: Mapping[int, bytes], adder: int, counter: int) -> Words:
        """The sum of this user's pads with everybody on the roll (user -> life)."""
        if self._adder != (adder, roll[adder] + roll[self._me]):
            self._adder, self._keys = (adder, roll[adder] + roll[self._me]), {}
            self._ahead = (-1, {}, self._ahead[2])
        number, place = divmod(counter, self._stretch)
        if self._ahead[0] != number or (self._ahead[1] is not roll and self._ahead[1] != roll):
            self._ahead = (number, roll, self._sum(roll, adder, number))
        return self._ahead[2][place * self._size : (place + 1) * self._size]

    def _sum(self, roll: Mapping[int, bytes], adder: int, number: int) -> Words:
        total = np.zeros(self._stretch * self._size, np.uint64)
        for user, life in roll.items():
            if user < self._me:
                total -= stream(self._key(user, life, roll, adder), number, len(total))
            elif user > self._me:
                total += stream(self._key(user, life, roll, adder), number, len(total))
        return total

    def _key(self, user: int, life: bytes, roll: Mapping[int, bytes], adder: int) -> bytes:
        key = self._keys.get((user, life))
        if key is None:
            low, high = sorted((self._me, user))
            names = struct.pack("<III", low, high, adder)
            info = b"network-dp pad" + self._run + names + roll[low] + roll[high] + roll[adder]
            key = self._keys[user, life] = derived(self._secrets[user], info)
        return key
