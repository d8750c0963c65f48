"""One user's disk: a journal and a view log, which a crash may cut back to what was written or synced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from node.protocols.walk.state import Durable, apply, diff
from node.storage.in_step import TAIL_LINES, last_number, lines_of
from node.storage.records import Lines

COMPACT_RECORDS = 6


class Disk:
    """The journal as a list of changes, and ``durable``, what replaying it gives."""

    def __init__(self, first: Durable) -> None:
        self.first = first
        self.durable = first
        self.full = False
        self.syncs = True
        self._changes: list[Mapping[str, Any]] = []
        self._synced = 0
        self._compacted = 0  # so many records are one by now, and their lines forgotten

    def append(self, changes: Mapping[str, Any], *, sync: bool) -> None:
        self._changes.append(changes)
        self.durable = apply(self.durable, changes)
        if sync:
            self._synced = len(self._changes)

    def amend(self, changes: Mapping[str, Any]) -> None:
        self.append(changes, sync=True)

    @property
    def lines(self) -> Mapping[int, Lines]:
        whole = {"custody": self._replayed(self._compacted).custody}
        return lines_of([whole, *self._changes[self._compacted :]])

    @property
    def due(self) -> bool:
        return len(self._changes) - self._compacted >= COMPACT_RECORDS

    def compact(self, durable: Durable) -> bool:
        self.append(diff(self.durable, durable), sync=True)
        self._compacted = len(self._changes)
        return True

    @property
    def records(self) -> int:
        return len(self._changes)

    @property
    def unsynced(self) -> int:
        return len(self._changes) - self._synced

    def cut(self, records: int) -> None:
        """Forget all but the first ``records`` (a torn tail, or an old copy put back)."""
        self._changes = self._changes[:records]
        self._synced, self._compacted = min(self._synced, records), min(self._compacted, records)
        self.durable = self._replayed(records)

    def _replayed(self, records: int) -> Durable:
        durable = self.first
        for changes in self._changes[:records]:
            durable = apply(durable, changes)
        return durable

    def lose_unsynced(self, keep: int) -> None:
        """Of what was not synced, the first ``keep`` records happen to be on the disk."""
        self.cut(self._synced + keep)


class ViewFile:
    """The view log as a list of lines: the last ones are in memory only, those before written and not yet synced."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._written = 0
        self._synced = 0
        self._seen: set[str] = set()
        self.begun = False
        self.last_visit = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def open(self) -> None:
        tail = self._lines[-TAIL_LINES:]
        self._seen = set(tail)
        self.begun, self.last_visit = bool(self._lines), last_number(self._lines)

    def settle(self) -> None:
        self._seen = set()

    def append(self, line: str) -> None:
        if line in self._seen:
            self._seen.discard(line)
        else:
            self._lines.append(line)

    def flush(self) -> None:
        self._written = len(self._lines)

    def sync(self) -> None:
        self._synced = self._written

    @property
    def size(self) -> int:
        return self._written

    @property
    def unsynced(self) -> int:
        return self._written - self._synced

    def lose_unwritten(self) -> None:
        self.cut(self._written)

    def lose_unsynced(self, keep: int) -> None:
        self.cut(self._synced + keep)

    def cut(self, size: int) -> None:
        self._lines = self._lines[:size]
        self._written, self._synced = min(self._written, size), min(self._synced, size)
