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
sent        a token is about to leave: epoch, step, visit, to, tag, real, units, dummies, contribution, noise,
            sent, time. ``step`` is the receiver's step. ``real``: the contribution is in it. ``units``: how many
            noise components are in it (a full noise is ``Plan.unit_count`` of them). What left counts as seen,
            acknowledged or not. Several ``sent`` lines of one visit: refused first, then sent elsewhere
accepted    the receiver has it: epoch, step, to, time
finish      the last visit ended the walk: as ``sent`` without ``to`` and ``tag``; ``sent`` is the final payload
abandoned   the branch this user had a part in was given up: epoch (the old one), step, by (the new epoch), time
result      the final result, as published: epoch, value (payload; null when the holder keeps it), contributions,
            dummies, time
peer        a neighbour was found down or up again: peer, state ("down" | "up"), time
rejoined    a lost, old or damaged disk came back: time. Lines of this user before it may be missing; visit numbers
            after it are above all before it
clipped     values of the own data outside the public bounds: count (the user's own business; never exported)
=========== ================================================================================================

``epoch`` is [counter, issuer index]. ``tag`` is HMAC-SHA-256 of the hop under a random key that travels with it:
both ends log the same tag, and without the key nobody can test a guess of the token against it.
A record of an exported log has no values (``VALUE_FIELDS``), no times and no keys; see ``exported``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
        frozenset({"dummies", "contribution", "noise", "sent", "time"}),
    ),
    "accepted": (frozenset({"epoch", "step", "to"}), frozenset({"time"})),
    "finish": (
        frozenset({"epoch", "step", "visit", "real", "units"}),
        frozenset({"dummies", "contribution", "noise", "sent", "time"}),
    ),
    "abandoned": (frozenset({"epoch", "step", "by"}), frozenset({"time"})),
    "result": (frozenset({"epoch"}), frozenset({"value", "contributions", "dummies", "time"})),
    "peer": (frozenset({"peer", "state"}), frozenset({"time"})),
    "rejoined": (frozenset(), frozenset({"time"})),
    "clipped": (frozenset({"count"}), frozenset()),
}

#: What depends on data, on noise or on the clock: never in an exported log.
VALUE_FIELDS: Final = frozenset({"received", "contribution", "noise", "sent", "dummies", "value", "time"})
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


_WHOLE = ("step", "visit", "units", "count", "contributions", "life")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _check_types(fields: Mapping[str, Any]) -> None:
    for name in _WHOLE:
        if name in fields and not _is_whole(fields[name]):
            raise ViewError(f"{name} must be a whole number")
    for name in ("epoch", "by"):
        if name in fields:
            value = fields[name]
            if not (isinstance(value, list) and len(value) == 2 and all(_is_whole(item) for item in value)):
                raise ViewError(f"{name} must be [counter, issuer]")


def decode(line: str) -> Record:
    """One line to a checked record, or ``ViewError``."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise ViewError("not a JSON object") from None
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise ViewError('not an object with a "kind"')
    kind = value.pop("kind")
    if kind not in FIELDS:
        raise ViewError(f'unknown kind "{kind}"')
    required, optional = FIELDS[kind]
    missing, unknown = required - value.keys(), value.keys() - required - optional
    if missing or unknown:
        what = f"missing {sorted(missing)}" if missing else f"unknown {sorted(unknown)}"
        raise ViewError(f"{kind}: {what}")
    _check_types(value)
    if kind == "header" and value["schema"] != SCHEMA:
        raise ViewError(f"schema {value['schema']!r}: this version reads {SCHEMA}")
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
