"""One record of the journal: a head (length of the body, checksum of that length) and a body (checksum, then text).

The text is changes of a protocol's durable state, which its ``RecordCodec`` turns into bytes and back. A long byte
string is not in its record: there stands its place in the blob store (``node/storage/blob_store.py``) and its digest.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

HEAD: Final = struct.Struct("<QI")
_SIZE: Final = struct.Struct("<Q")
_CHECKSUM: Final = struct.Struct("<I")
LEAST_BYTES: Final = _CHECKSUM.size  # of a body

Changes = Mapping[str, Any]  # of a durable state: field -> its new value


class Lines(NamedTuple):
    """Of one visit, as the journal last had them; ``sent`` empty: nothing was planned yet."""

    visit: str
    sent: str


class RecordCodec(Protocol):
    """What the journal has to know of a protocol's durable state."""

    def encode(self, changes: Changes) -> bytes: ...

    def decode(self, text: memoryview) -> dict[str, Any]:
        """``ValueError`` for what is not changes of this state, without a word of what it holds."""
        ...

    def apply(self, durable: Any, changes: Changes) -> Any:
        """The state after these changes."""
        ...

    def whole(self, durable: Any) -> Changes:
        """The whole state as changes."""
        ...

    def begun_again(self, start: Any) -> Any:
        """The first state of a user whose disk is lost, and who knows it."""
        ...

    def merge(self, before: Changes, changes: Changes) -> Changes:
        """Two changes in a row as one."""
        ...

    def long_parts(self, changes: Changes) -> dict[str, Any]:
        """The byte strings (or their places) that may be as long as a token, by field: at most one a field."""
        ...

    def exchanged(self, field: Any, part: Any) -> Any:
        """A field with its long part exchanged: for its place when it is written, for its bytes when it is read."""
        ...

    def known_digest(self, field: Any) -> bytes | None:
        """Of a field's long part, where the state has it already."""
        ...

    def lines(self, history: Iterable[Changes]) -> dict[int, Lines]:
        """The view log's lines in these records, by visit."""
        ...


def framed(text: bytes) -> bytes:
    """One record, head and all."""
    size = _CHECKSUM.size + len(text)
    return b"".join((HEAD.pack(size, size_checksum(size)), _CHECKSUM.pack(zlib.crc32(text)), text))


def size_checksum(size: int) -> int:
    return zlib.crc32(_SIZE.pack(size))


def text_of(body: memoryview) -> memoryview:
    """What a body says, or ``ValueError``."""
    text = body[_CHECKSUM.size :]
    if len(body) < _CHECKSUM.size or zlib.crc32(text) != _CHECKSUM.unpack_from(body)[0]:
        raise ValueError("checksum differs")
    return text
