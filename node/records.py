"""One record of the journal: changes of the durable state as bytes, and back.

A record is a head (length of the body, checksum of that length) and a body (checksum, then the changes as MessagePack:
named tuples as arrays, user numbers as keys). A long byte string is not in its record: there stands its place on the
shelf (``node/shelf.py``) and its digest.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from node.protocol.messages import Result
from node.protocol.state import Custody, Durable
from node.protocol.values import Epoch, Hop
from node.shelf import Shelved

HEAD: Final = struct.Struct("<QI")
_SIZE: Final = struct.Struct("<Q")
_CHECKSUM: Final = struct.Struct("<I")
LEAST_BYTES: Final = _CHECKSUM.size  # of a body
_FIELDS: Final = frozenset(vars(Durable()))
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode


def encode(changes: Mapping[str, Any]) -> bytes:
    """One record, head and all."""
    text = _encode(changes)
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


def decode(body: memoryview) -> dict[str, Any]:
    """Changes of one record, or ``ValueError``."""
    text = text_of(body)
    try:
        return {name: _field(name, value) for name, value in _decode(text).items()}
    except (msgspec.MsgspecError, TypeError, AttributeError, ValueError, OverflowError):
        raise ValueError("not changes of a state") from None  # and no word of what it holds


def _field(name: str, value: Any) -> Any:
    """A field's name says what it is."""
    if name not in _FIELDS:
        raise ValueError("unknown field")
    return value if value is None or name not in _SHAPES else _SHAPES[name](value)


def _octets(value: Any) -> Any:
    """A byte string, or where it is (``Journal`` looks there once it knows which ones are still of use)."""
    if isinstance(value, bytes):
        return value
    place, length, name = value
    return Shelved(int(place), int(length), str(name))


def _epoch(value: Any) -> Epoch:
    counter, issuer = map(int, value)
    return counter, issuer


def _hop(value: Any) -> Hop:
    epoch, step = value
    return Hop(_epoch(epoch), int(step))


def _custody(value: Any) -> Custody:
    known = Custody(*value)
    return known._replace(hop=_hop(known.hop), out_hop=_hop(known.out_hop), out=_octets(known.out))


def _result(value: Any) -> Result:
    epoch, end, token = value
    return Result(_epoch(epoch), end, _octets(token))


def _by_user(shape: Callable[[Any], Any]) -> Callable[[Any], dict[int, Any]]:
    return lambda value: {int(user): shape(item) for user, item in value.items()}


_SHAPES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "promised": _epoch,
    "mark": _hop,
    "custody": _custody,
    "edges": _by_user(int),
    "taken": _by_user(_hop),
    "given": _by_user(_hop),
    "votes": _by_user(_epoch),
    "result": _result,
    "kept": _octets,
}
