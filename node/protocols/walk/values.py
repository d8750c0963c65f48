"""The small values of the protocol: epochs, hops, the token and its bytes.

A hop (epoch, step) names one passage of the token. ``step`` is the receiver's: the s-th visit on the complete graph,
the ring position on the ring (dead users keep theirs). Epochs are (counter, issuer), so they are ordered and unique.
"""

from __future__ import annotations

import hmac
import struct
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Epoch = tuple[int, int]
Octets = bytes | memoryview  # of a token; a long one is a view that can only be read
Payload = NDArray[Any]  # int64 grid values (sums, histograms) or float64 (SGD)

NO_EPOCH: Epoch = (-1, -1)
MAX_TOKEN_BYTES = 96 * 1024 * 1024
PAGE_BYTES = 4096
_MAGIC = b"NDP2"
_MOST = 1 << 62  # of any count: what honest users add never leaves 64 bits
_DTYPES = {0: np.dtype("<i8"), 1: np.dtype("<f8")}
_NAMES = {0: "int64", 1: "float64"}  # numpy works the names out anew each time
_NAMED = {name: _DTYPES[kind] for kind, name in _NAMES.items()}


@lru_cache(maxsize=8)
def _layout(ledger_size: int) -> struct.Struct:
    """Of what stands in front of the payload: mark, kind, three counts, two sizes, and the ledger."""
    return struct.Struct(f"<4sBQQQII{ledger_size}Q")


def _kind(payload: Payload) -> int:
    return 0 if payload.dtype == _DTYPES[0] else 1


class TokenError(ValueError):
    """Bytes that are not a token of this run; the message never holds a value."""


class Hop(NamedTuple):
    """One passage of the token; ordered by epoch, then step."""

    epoch: Epoch
    step: int


NO_HOP = Hop(NO_EPOCH, -1)


class Token(NamedTuple):
    """What travels: the payload, and public counts that everybody may know.

    ``noise_units`` is W of THEORY.md#ring-ledger, and ``ledger`` holds W_r of every user r (ring sums only, else
    empty).
    """

    payload: Payload
    contributions: int
    cover: int
    noise_units: int
    ledger: tuple[int, ...]

    def head(self) -> bytes:
        """The bytes in front of the payload's."""
        payload, ledger = self.payload, self.ledger
        counts = (self.contributions, self.cover, self.noise_units)
        return _layout(len(ledger)).pack(_MAGIC, _kind(payload), *counts, len(ledger), payload.size, *ledger)

    def encode(self) -> bytes:
        payload = self.payload
        body = payload.astype(_DTYPES[_kind(payload)], order="C", copy=False)  # joined without a copy of its own
        return b"".join((self.head(), body.data))


def gap_before(size: int) -> int:
    """Where a long token of this size begins in its block of memory, or in its file. Its end, which is its last
    number's, is then at a multiple of eight: arithmetic on numbers that lie across such places takes half as long
    again."""
    return -size % PAGE_BYTES


def room(size: int) -> memoryview:
    """For the bytes of a long token. All blocks are whole pages, so that one serves another token as well."""
    gap = gap_before(size)
    return np.empty(gap + size, np.uint8)[gap:].data


class TokenBuffer:
    """Where a long token is written: its payload straight into its place, behind a head that may still change."""

    def __init__(self, head: bytes, like: Payload) -> None:
        self._start = len(head)
        self._whole = room(self._start + like.nbytes)
        self.payload: Payload = np.frombuffer(self._whole, dtype=like.dtype, offset=self._start)

    def encode(self, token: Token) -> Octets:
        """As ``token.encode()``; without a copy when its payload is the one written here."""
        if token.payload is not self.payload:
            return token.encode()
        self._whole[: self._start] = token.head()
        self.payload.flags.writeable = False
        return self._whole.toreadonly()


def decode_token(data: Octets, *, dtype: str, dimension: int, ledger_size: int) -> Token:
    """Strictly the token this run expects, or ``TokenError``."""
    contributions, cover, units, ledger = _counts(data, dtype, dimension, ledger_size)
    start = _layout(ledger_size).size
    if len(data) != start + 8 * dimension:
        raise TokenError("token of another length")
    payload = np.frombuffer(data, dtype=_NAMED[dtype], offset=start)
    if dtype == "float64" and not bool(np.isfinite(payload).all()):
        raise TokenError("token with a number that is not finite")
    return Token(payload, contributions, cover, units, ledger)


def _counts(data: Octets, dtype: str, dimension: int, ledger_size: int) -> tuple[int, int, int, tuple[int, ...]]:
    """Contributions, cover elements, noise components and ledger."""
    layout = _layout(ledger_size)
    if len(data) < layout.size:
        raise TokenError("token too short")
    magic, kind, contributions, cover, units, n_ledger, size, *ledger = layout.unpack_from(data)
    if magic != _MAGIC or kind not in _DTYPES or _NAMES[kind] != dtype:
        raise TokenError("token of another format")
    if max(contributions, cover, units) > _MOST:
        raise TokenError("token with a count that no walk reaches")
    if n_ledger != ledger_size or size != dimension:
        raise TokenError("token of another shape")
    return contributions, cover, units, tuple(ledger)


def hop_tag(key: bytes, run_id: str, hop: Hop, token_digest: bytes) -> str:
    """HMAC-SHA-256 of a hop under its own random key: both ends log it, nobody else can test a guess against it."""
    head = f"{run_id} {hop.epoch[0]} {hop.epoch[1]} {hop.step} ".encode()
    return hmac.digest(key, head + token_digest, "sha256").hex()
