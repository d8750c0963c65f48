"""One user's disk: a journal that a crash may cut back to its last sync."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from node.protocol import machine
from node.protocol.state import Durable


class Disk:
    """The journal as a list of changes, and ``durable``, what replaying it gives."""

    def __init__(self, first: Durable) -> None:
        self.first = first
        self.durable = first
        self.full = False
        self._changes: list[Mapping[str, Any]] = []
        self._synced = 0

    def append(self, changes: Mapping[str, Any], *, sync: bool) -> None:
        self._changes.append(changes)
        self.durable = machine.apply(self.durable, changes)
        if sync:
            self._synced = len(self._changes)

    @property
    def records(self) -> int:
        return len(self._changes)

    @property
    def unsynced(self) -> int:
        return len(self._changes) - self._synced

    def cut(self, records: int) -> None:
        """Forget all but the first ``records`` (a torn tail, or an old copy put back)."""
        self._changes = self._changes[:records]
        self._synced = min(self._synced, records)
        self.durable = self.first
        for changes in self._changes:
            self.durable = machine.apply(self.durable, changes)

    def lose_unsynced(self, keep: int) -> None:
        """Of what was not synced, the first ``keep`` records happen to be on the disk."""
        self.cut(self._synced + keep)

    def rejoin(self) -> None:
        """The operator starts this user again with --rejoin."""
        self.append({"rejoined": True, "custody": None}, sync=True)
