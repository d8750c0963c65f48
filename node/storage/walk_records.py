"""The walk's durable state in the journal: changes as MessagePack, named tuples as arrays, user numbers as keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from node.protocols.walk.messages import Result
from node.protocols.walk.state import Arrived, Custody, Durable, Ended, Entry, Planned, apply, merge
from node.protocols.walk.values import Epoch, Hop
from node.storage.blob_store import BlobRef
from node.storage.in_step import lines_of
from node.storage.records import Changes, Lines

_CUSTODIES: Final = {len(kind._fields): kind for kind in (Arrived, Planned, Ended)}  # their arrays differ in length
_FIELDS: Final = frozenset(vars(Durable()))
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode


class WalkRecords:
    """A ``RecordCodec``."""

    def encode(self, changes: Changes) -> bytes:
        return _encode(changes)

    def decode(self, text: memoryview) -> dict[str, Any]:
        try:
            return {name: _field(name, value) for name, value in _decode(text).items()}
        except (msgspec.MsgspecError, TypeError, AttributeError, LookupError, ValueError, OverflowError):
            raise ValueError("not changes of a state") from None  # and no word of what it holds

    def apply(self, durable: Durable, changes: Changes) -> Durable:
        return apply(durable, changes)

    def whole(self, durable: Durable) -> Changes:
        return vars(durable)

    def begun_again(self, start: Durable) -> Durable:
        return start._replace(rejoined=True)

    def merge(self, before: Changes, changes: Changes) -> Changes:
        return merge(before, changes)

    def long_parts(self, changes: Changes) -> dict[str, Any]:
        found = {}
        if (custody := changes.get("custody")) is not None:
            found["custody"] = custody.out
        if (result := changes.get("result")) is not None:
            found["result"] = result.token
        if "withheld" in changes:
            found["withheld"] = changes["withheld"]
        return found

    def exchanged(self, field: Any, part: Any) -> Any:
        if isinstance(field, Arrived | Planned | Ended):
            return field._replace(out=part)
        return field._replace(token=part) if isinstance(field, Result) else part

    def known_digest(self, field: Any) -> bytes | None:
        return field.out_digest if isinstance(field, Arrived | Planned | Ended) else None

    def lines(self, history: Iterable[Changes]) -> dict[int, Lines]:
        return lines_of(history)


WALK: Final = WalkRecords()


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
    return BlobRef(int(place), int(length), str(name))


def _epoch(value: Any) -> Epoch:
    counter, issuer = map(int, value)
    return counter, issuer


def _hop(value: Any) -> Hop:
    epoch, step = value
    return Hop(_epoch(epoch), int(step))


def _custody(value: Any) -> Custody:
    kind: Callable[..., Custody] = _CUSTODIES[len(value)]
    known = kind(*value)
    known = known._replace(hop=_hop(known.hop), visited=_entry(known.visited), out=_octets(known.out))
    if isinstance(known, Arrived):
        return known
    return known._replace(out_hop=_hop(known.out_hop), sent=_entry(known.sent))


def _entry(value: Any) -> Entry:
    kind, fields = value
    if not isinstance(kind, str) or not isinstance(fields, dict):
        raise ValueError("no entry of a view log")
    return Entry(kind, fields)


def _result(value: Any) -> Result:
    epoch, end, token = value
    return Result(_epoch(epoch), end, _octets(token))


def _by_user(shape: Callable[[Any], Any]) -> Callable[[Any], dict[int, Any]]:
    return lambda value: {int(user): shape(item) for user, item in value.items()}


_SHAPES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "promised": _epoch,
    "high_water": _hop,
    "custody": _custody,
    "edges": _by_user(int),
    "taken": _by_user(_hop),
    "given": _by_user(_hop),
    "votes": _by_user(_epoch),
    "result": _result,
    "withheld": _octets,
}
