"""The view schema: what one user may write down about a run, shared by the node (writer) and the analyzer (reader).

A view log is JSON lines, one object a line, ``kind`` first. The first line is the ``header``. A user writes only
what it did, received and sent itself. Numbers of a payload are JSON numbers: grid integers for sums and histograms,
shortest-repr float64 for SGD, so every value survives bit for bit.

=========== ================================================================================================
kind        meaning and fields (beside ``kind``)
=========== ================================================================================================
header      schema, run, plan, user, values (are payloads logged?), insecure
start       the process started: life (1 the first time, one more at every restart), time
visit       the user took charge of a token: epoch, step, visit, cause, from, tag, received, base, time
            cause "handoff": received from ``from``; "start": the initial token (step 0 on the complete graph,
            where the starter only draws the first holder; step 1, its own position, on the ring);
            "reissue": the token of hop ``base`` = [counter, issuer, step] taken up again in a new epoch
sent        a token is about to leave: epoch, step, visit, to, tag, real, units, cover, contribution, noise,
            sent, time. ``step`` is the receiver's step. ``real``: the contribution is in it. ``units``: how many
            noise components are in it (a full noise is ``Plan.unit_count`` of them). What left counts as seen,
            acknowledged or not. Several ``sent`` lines of one visit: refused first, then sent elsewhere
accepted    the receiver has it: epoch, step, to, time
finish      the last visit ended the walk: as ``sent`` without ``to`` and ``tag``; ``sent`` is the final payload
abandoned   the branch this user had a part in was given up: epoch (the old one), step, by (the new epoch), time
result      the final result, as published: epoch, value (payload; null when the holder keeps it), contributions,
            cover, time
peer        a neighbour was found down or up again: peer, state ("down" | "up"), time
rejoined    a lost, old or damaged disk came back: time. Lines of this user before it may be missing; visit numbers
            after it are above all before it
round       anonymous rounds: an own block left for a call: adder, counter, epoch, step (how far the walk was heard
            to be), digest, time
attendance  who is on the roll, when that changed: users, time
spoken      a message that this user says, fixed before it may leave: epoch, step (the receiver's), visit, cause, base,
            received, contribution, noise, sent, time. cause "visit": the token of ``base`` was opened here; "start":
            the initial token; "reissue": this user's own message ``base`` taken up again in a new epoch
clipped     values of the own data outside the public bounds: count (the user's own business; never exported)
=========== ================================================================================================

``epoch`` is [counter, issuer index]. ``tag`` is HMAC-SHA-256 of the hop under a random key that travels with it:
both ends log the same tag, and without the key nobody can test a guess of the token against it.
A record of an exported log has no values (``VALUE_FIELDS``), no times and no keys; see ``exported``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

SCHEMA: Final = "network-dp/view/1"

#: kind -> (required fields, optional fields)
FIELDS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "header": (frozenset({"schema", "run", "plan", "user", "values", "insecure"}), frozenset()),
    "start": (frozenset(), frozenset({"life", "time"})),
    "visit": (
        frozenset({"epoch", "step", "visit", "cause", "from"}),
        frozenset({"tag", "received", "base", "time"}),
    ),
    "sent": (
        frozenset({"epoch", "step", "visit", "to", "tag", "real", "units"}),
        frozenset({"cover", "contribution", "noise", "sent", "time"}),
    ),
    "accepted": (frozenset({"epoch", "step", "to"}), frozenset({"time"})),
    "finish": (
        frozenset({"epoch", "step", "visit", "real", "units"}),
        frozenset({"cover", "contribution", "noise", "sent", "time"}),
    ),
    "abandoned": (frozenset({"epoch", "step", "by"}), frozenset({"time"})),
    "result": (frozenset({"epoch"}), frozenset({"value", "contributions", "cover", "time"})),
    "peer": (frozenset({"peer", "state"}), frozenset({"time"})),
    "rejoined": (frozenset(), frozenset({"time"})),
    "round": (frozenset({"adder", "counter", "epoch", "step", "digest"}), frozenset({"time"})),
    "attendance": (frozenset({"users"}), frozenset({"time"})),
    "spoken": (
        frozenset({"epoch", "step", "visit", "cause", "base"}),
        frozenset({"received", "contribution", "noise", "sent", "time"}),
    ),
    "clipped": (frozenset({"count"}), frozenset()),
}

#: What depends on data, on noise or on the clock: never in an exported log.
VALUE_FIELDS: Final = frozenset({"received", "contribution", "noise", "sent", "cover", "value", "time"})
EXPORTED_KINDS: Final = frozenset({"header", "visit", "sent", "accepted", "finish", "abandoned", "result", "rejoined"})

Epoch = tuple[int, int]


class ViewError(ValueError):
    """A line that is not a record of this schema."""


@dataclass(frozen=True, slots=True)
class Record:
    """One checked line of a view log."""

    kind: str
    fields: Mapping[str, Any]

    @property
    def epoch(self) -> Epoch:
        counter, issuer = self.fields["epoch"]
        return counter, issuer

    @property
    def step(self) -> int:
        return int(self.fields["step"])


_LARGEST: Final = 2**63


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _are_whole(value: object, count: int) -> bool:
    return type(value) is list and len(value) == count and all(map(_is_whole, value))


def _is_number(value: object) -> bool:
    return type(value) is float or (type(value) is int and -_LARGEST <= value < _LARGEST)


def _is_payload(value: object) -> bool:
    if type(value) is not list:
        return value is None
    types = set(map(type, value))  # payloads are long: no Python per number
    if types == {int}:
        return bool(min(value) >= -_LARGEST and max(value) < _LARGEST)
    return types <= {float} or all(map(_is_number, value))


def _is_user(value: object) -> bool:
    return value is None or type(value) is str or _is_whole(value)


#: field -> (is a value one, what it must be): nothing that passes can surprise a reader by its type or size
_RULES: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    **dict.fromkeys(
        ("step", "visit", "count", "contributions", "life", "adder", "counter"), (_is_whole, "a whole number")
    ),
    "units": (lambda value: _is_whole(value) and value < 2**31, "a whole number"),
    **dict.fromkeys(("epoch", "by"), (lambda value: _are_whole(value, 2), "[counter, issuer]")),
    "base": (lambda value: value is None or _are_whole(value, 3), "[counter, issuer, step]"),
    **dict.fromkeys(
        ("schema", "run", "plan", "user", "cause", "state", "digest"), (lambda value: type(value) is str, "a text")
    ),
    "users": (lambda value: type(value) is list and all(type(user) is str for user in value), "a list of users"),
    "tag": (lambda value: value is None or type(value) is str, "a text"),
    **dict.fromkeys(("values", "insecure", "real"), (lambda value: type(value) is bool, "true or false")),
    **dict.fromkeys(("from", "to", "peer"), (_is_user, "a user")),
    **dict.fromkeys(("received", "contribution", "noise", "sent", "value"), (_is_payload, "a list of numbers")),
    "cover": (lambda value: _is_whole(value) or _is_payload(value), "a list of numbers"),
    "time": (lambda value: value is None or type(value) is str or _is_number(value), "a time"),
}
_RULES_OF: Final = {
    kind: {name: _RULES[name] for name in required | optional} for kind, (required, optional) in FIELDS.items()
}

_decode: Final = msgspec.json.Decoder().decode


def decode(line: str | bytes) -> Record:
    """One line to a checked record, or ``ViewError``."""
    try:
        value = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ViewError("not a JSON object") from None
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise ViewError('not an object with a "kind"')
    kind = value.pop("kind")
    if kind not in FIELDS:
        raise ViewError("an unknown kind")
    rules, required = _RULES_OF[kind], FIELDS[kind][0]
    if not value.keys() >= required:
        raise ViewError(f"{kind}: missing {sorted(required - value.keys())}")
    for name, item in value.items():
        if name not in rules:
            raise ViewError(f"{kind}: an unknown field")
        fits, wanted = rules[name]
        if not fits(item):
            raise ViewError(f"{name} must be {wanted}")
    if kind == "header" and value["schema"] != SCHEMA:
        raise ViewError(f"another schema than {SCHEMA}, which this version reads")
    return Record(kind, value)


_encode: Final = msgspec.json.Encoder().encode


def encode(kind: str, **fields: Any) -> str:
    """One record to its line (without the newline); the writer's half of ``decode``. Reading a number gives the same
    one back; one that is not finite becomes null."""
    return _encode({"kind": kind, **fields}).decode()


def exported(record: Record) -> str | None:
    """The line as it may be handed to others: no values, no times, no keys; None when nothing of it may be."""
    if record.kind not in EXPORTED_KINDS:
        return None
    kept = {name: value for name, value in record.fields.items() if name not in VALUE_FIELDS}
    if record.kind == "header":
        kept["values"] = False
    return encode(record.kind, **kept)
