"""The durable state of anonymous rounds in the journal: changed fields as MessagePack, every field a plain value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from network_dp import view
from node.protocols.effects import Persist
from node.protocols.rounds.state import Durable
from node.storage.in_step import MICROSECONDS
from node.storage.journal import Journal
from node.storage.records import Changes, Lines
from node.storage.view_log import ViewLog

_START: Final = Durable()._asdict()
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(dict[str, Any]).decode


class RoundsRecords:
    """A ``RecordCodec``."""

    def encode(self, changes: Changes) -> bytes:
        return _encode(changes)

    def decode(self, text: memoryview) -> dict[str, Any]:
        try:
            changes = _decode(text)
        except msgspec.MsgspecError:
            raise ValueError("not changes of a state") from None
        if any(name not in _START or type(value) is not type(_START[name]) for name, value in changes.items()):
            raise ValueError("not changes of a state")
        return changes

    def apply(self, durable: Durable, changes: Changes) -> Durable:
        return durable._replace(**changes)

    def whole(self, durable: Durable) -> Changes:
        return durable._asdict()

    def begun_again(self, start: Durable) -> Durable:
        return start._replace(rejoined=True)

    def merge(self, before: Changes, changes: Changes) -> Changes:
        return {**before, **changes}

    def long_parts(self, changes: Changes) -> dict[str, Any]:
        return {}

    def exchanged(self, field: Any, part: Any) -> Any:
        return part

    def known_digest(self, field: Any) -> bytes | None:
        return None

    def lines(self, history: Iterable[Changes]) -> dict[int, Lines]:
        return {}


ROUNDS: Final = RoundsRecords()


def begin(journal: Journal, log: ViewLog, *, rejoin: bool, wall_time: float) -> None:
    """After a start: the log gets the line of a message whose writing was cut short. A user that comes back without its
    past says so, forgets what it may have said, and numbers no visit like one before."""
    durable: Durable = journal.durable
    if durable.line and durable.visits > log.last_visit:
        log.append(durable.line)
    if rejoin:
        log.append(view.encode("rejoined", time=wall_time))
    log.flush()
    if not rejoin:
        return
    log.sync()  # before the journal knows: a line too many does no harm
    last = max(durable.visits, log.last_visit) if log.begun else int(wall_time * MICROSECONDS)
    forgotten = {name: _START[name] for name in ("epoch", "to_step", "said", "out", "line", "barrier")}
    journal.amend({**forgotten, "rejoined": True, "visits": last + 1})


def write(journal: Journal, log: ViewLog, persist: Persist, before: object, after: object) -> None:
    """One record; now and then the whole state instead."""
    log.flush()
    if persist.sync and journal.due:
        log.sync()
        if journal.compact(after.durable):  # type: ignore[attr-defined]
            return
    journal.append(persist.changes, sync=persist.sync)
