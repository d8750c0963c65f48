"""Journal and view log in step: whatever happens to the machine, together they hold every line of a token that left.

Lines are written after the record that makes them true, and flushed before the next record. So a killed process loses
at most what its last records hold; a power cut loses any part of the log's end that was not synced. The journal holds
the lines of all visits since its last compaction, before which the log is synced: a restart writes again what is gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from network_dp import view
from node.protocols.effects import Persist
from node.protocols.walk.state import Arrived, Durable, State
from node.storage.records import Lines

MICROSECONDS = 1e6
TAIL_LINES = 64  # a visit that is refused again and again leaves many lines behind its first
_NUMBERED = re.compile(r'\{"kind":"(?:visit|sent|finish|spoken)",[^{]{0,600}?"visit":(\d+),')  # ahead of all values


class History(Protocol):
    """The journal, as far as the view log concerns it."""

    syncs: bool
    durable: Durable  # as it was when it was opened

    @property
    def lines(self) -> Mapping[int, Lines]:
        """By number of the visit, in order, when it was opened."""
        ...

    @property
    def due(self) -> bool: ...

    def append(self, changes: Mapping[str, Any], *, sync: bool) -> None: ...

    def compact(self, durable: Durable) -> bool: ...

    def amend(self, changes: Mapping[str, Any]) -> None: ...


class Log(Protocol):
    """The view log."""

    begun: bool  # was it there already when it was opened?
    last_visit: int  # the highest number in it then

    def append(self, line: str) -> None: ...

    def flush(self) -> None: ...

    def sync(self) -> None: ...


def last_number(lines: list[str]) -> int:
    """Of the visits in these lines, which grow; 0: none is numbered."""
    numbers = (match[1] for line in reversed(lines) if (match := _NUMBERED.match(line)))
    return int(next(numbers, 0))


def lines_of(history: Iterable[Mapping[str, Any]]) -> dict[int, Lines]:
    """The lines in a journal's records, in order. Of a visit the last ones: a line that was replaced either never left,
    or was synced before (``write``)."""
    lines: dict[int, Lines] = {}
    for changes in history:
        if (custody := changes.get("custody")) is not None:
            lines[custody.visit] = Lines(
                custody.visited.line, "" if isinstance(custody, Arrived) else custody.sent.line
            )
    return lines


def begin(journal: History, log: Log, *, rejoin: bool, wall_time: float) -> None:
    """After a start: complete the log, and number no visit like one before.

    A user that comes back without its past says so in its log. Where the log is gone too, nobody knows which numbers
    were used: the clock, which only goes forward, says where to go on."""
    durable = journal.durable
    # What is in hand may leave now, as it may have before: also where an old journal is behind its log.
    first = log.last_visit if durable.custody is None else min(log.last_visit, durable.custody.visit)
    for visit, lines in journal.lines.items():
        if visit >= first:
            for line in filter(None, lines):
                log.append(line)
    log.flush()
    last = max(durable.visits, log.last_visit)
    # A log that is ahead of its journal shows an old one. A user that rejoined may have an old one again, at any start.
    if rejoin or durable.rejoined or log.last_visit > durable.visits:
        log.append(view.encode("rejoined", time=wall_time))
        log.flush()
        log.sync()  # before the journal knows: a line too many does no harm
    if (rejoin and not durable.rejoined) or (durable.rejoined and not durable.visits):
        if not log.begun:
            last = int(wall_time * MICROSECONDS)
        journal.amend({"rejoined": True, "custody": None, "visits": last + 1})
    elif last > durable.visits:
        journal.amend({"visits": last})


def write(journal: History, log: Log, persist: Persist, before: State, after: State) -> None:
    """One record; now and then the whole state instead, so that a long token is never written twice."""
    log.flush()
    if journal.syncs and _drops_a_line(before, after):
        log.sync()
    if persist.sync and journal.due:
        log.sync()
        if journal.compact(after.durable):
            return
    journal.append(persist.changes, sync=persist.sync)


def _drops_a_line(before: State, after: State) -> bool:
    """Does this record replace the line of bytes that left (refused, and now for somebody else)? The journal could not
    write it again, and whoever refused them has seen them."""
    old, new = before.durable.custody, after.durable.custody
    if not before.handed or old is None or new is None:
        return False
    if isinstance(old, Arrived) or isinstance(new, Arrived):
        return False
    return old.visit == new.visit and old.sent != new.sent
