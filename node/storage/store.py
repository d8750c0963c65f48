"""A user's disk as the runtime uses it: a journal and a view log, written in step."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from node.errors import DiskFullError
from node.protocols.effects import Persist
from node.storage.journal import Journal
from node.storage.view_log import ViewLog

log = logging.getLogger("node.store")


@dataclass(frozen=True, slots=True)
class Store:
    """``write``: one record of the journal, in step with the log; the states before and after say what it replaces."""

    journal: Journal
    view_log: ViewLog
    write_in_step: Callable[[Journal, ViewLog, Persist, Any, Any], None]

    def write(self, persist: Persist, before: Any, after: Any) -> None:
        """Whole, or nothing and ``DiskFullError``."""
        self.write_in_step(self.journal, self.view_log, persist, before, after)

    def flush_view(self) -> None:
        try:
            self.view_log.flush()
        except DiskFullError as error:
            log.error("%s: the lines wait in memory; free some space", error)

    def flush(self) -> None:
        """Also what nobody waits for."""
        self.flush_view()
        try:
            self.journal.flush()
        except DiskFullError as error:
            log.error("%s", error)
