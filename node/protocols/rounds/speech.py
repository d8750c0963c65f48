"""What a speaker says in a round: a message of one size for all, with a checksum, as 64-bit words.

A small head in the clear, then a token sealed to a label, the result, or zeros.
"""

from __future__ import annotations

import hashlib
import struct
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from node.protocols.rounds.pads import Words
from node.protocols.rounds.seal import OVERHEAD_BYTES

_HEAD = struct.Struct("<BQQ")
_CHECK_BYTES = 8


class Kind(IntEnum):
    """What a message is for."""

    TOKEN = 1  # sealed, for the holder of ``step``
    RESULT = 2  # in the clear, for all; ``step`` is one past the last
    BUSY = 3  # the holder of ``step`` is computing
    PREPARE = 4  # somebody asks for promises to ``epoch``, to say the token of ``step`` anew


class Speech(NamedTuple):
    kind: Kind
    epoch: int
    step: int
    body: bytes = b""


def size_of(token_bytes: int) -> int:
    """Words of a block that can carry a token of so many bytes."""
    return -(-(_CHECK_BYTES + _HEAD.size + OVERHEAD_BYTES + token_bytes) // 8)


def about(run_id: str, epoch: int, step: int) -> bytes:
    """What a sealed token is bound to."""
    return f"{run_id} {epoch} {step}".encode()


def encoded(speech: Speech, run_id: str, size: int) -> bytes:
    """Always ``8 * size`` bytes."""
    text = _HEAD.pack(speech.kind, speech.epoch, speech.step) + speech.body
    text += bytes(8 * size - _CHECK_BYTES - len(text))
    return _checksum(text, run_id) + text


def decoded(data: bytes, run_id: str, total_steps: int, token_bytes: int) -> Speech | None:
    """The one message in a sum; None when nobody spoke or several did."""
    check, text = data[:_CHECK_BYTES], data[_CHECK_BYTES:]
    if len(data) != 8 * size_of(token_bytes) or check != _checksum(text, run_id):
        return None
    number, epoch, step = _HEAD.unpack_from(text)
    if number not in tuple(Kind) or not epoch or not 1 <= step <= total_steps + 1:
        return None
    kind = Kind(number)
    if kind is not Kind.PREPARE and (kind is Kind.RESULT) != (step == total_steps + 1):
        return None
    lengths = {Kind.TOKEN: token_bytes + OVERHEAD_BYTES, Kind.RESULT: token_bytes}
    return Speech(kind, epoch, step, text[_HEAD.size : _HEAD.size + lengths.get(kind, 0)])


def words(data: bytes) -> Words:
    return np.frombuffer(data, np.dtype("<u8"))


def _checksum(text: bytes, run_id: str) -> bytes:
    return hashlib.blake2b(text, digest_size=_CHECK_BYTES, key=run_id.encode()[:64]).digest()
