"""A user's process log: one line per record, no text of an exception, a bounded number of lines.

What an exception says may be a value: ``KeyError(value)`` is how a dictionary says it. So a line has its type and where
it was raised, and no more; nothing of it goes to a peer (node/transport/server.py).
"""

from __future__ import annotations

import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

log = logging.getLogger("node")

PLACES: Final = 3  # innermost frames that are named
LINES_MAX: Final = 60  # of one kind per window
WINDOW_S: Final = 60.0
KINDS_MAX: Final = 256
_PLACE: Final = re.compile(r"%[.0-9]*[a-z]")


def described(error: BaseException | None) -> str:
    """Type and places of an error; a place carries no value."""
    if error is None:
        return "an error"
    frames = traceback.extract_tb(error.__traceback__, limit=-PLACES)
    places = ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__} at {places}" if places else type(error).__name__


class _Lines(logging.Formatter):
    """One line per record; of an exception its type and places."""

    def format(self, record: logging.LogRecord) -> str:
        line = self.formatMessage(self._named(record))
        if record.exc_info:
            line += f" ({described(record.exc_info[1])})"
        return line.replace("\n", " ")

    def _named(self, record: logging.LogRecord) -> logging.LogRecord:
        record.message, record.asctime = record.getMessage(), self.formatTime(record)
        return record


class Sparing(logging.Filter):
    """At most ``LINES_MAX`` lines of one kind (logger, level, unformatted text) per window: a peer that sends garbage
    fills nobody's disk. What was left out is counted in the next line of its kind, or by ``rest``."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[tuple[str, int, str], list[float]] = {}  # -> window's start, lines in it, left out

    def filter(self, record: logging.LogRecord) -> bool:
        now, kind = self._clock(), (record.name, record.levelno, str(record.msg))
        if kind not in self._kinds and len(self._kinds) >= KINDS_MAX:
            kind = ("", 0, "")
        window = self._kinds.setdefault(kind, [now, 0, 0])
        if now - window[0] >= WINDOW_S:
            if window[2]:
                record.msg, record.args = f"{record.getMessage()} ({window[2]:.0f} lines like this left out)", None
            window[:] = [now, 0, 0]
        window[1] += 1
        if window[1] <= LINES_MAX:
            return True
        window[2] += 1
        return False

    def rest(self) -> Iterator[str]:
        """What was left out since a line of its kind was last let through."""
        for (_, _, text), (_, _, left_out) in list(self._kinds.items()):  # saying it adds a kind
            if left_out:
                yield f'{left_out:.0f} lines like "{_PLACE.sub("...", text)}" left out'


def set_up(name: str) -> Sparing:
    """Everything this process says, to its standard error."""
    handler, sparing = logging.StreamHandler(sys.stderr), Sparing()
    text = f"time=%(asctime)s user={name} level=%(levelname)s from=%(name)s %(message)s"
    handler.setFormatter(_Lines(text, validate=False))  # checking a constant costs 0.3 MiB a process
    handler.addFilter(sparing)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    # Ours ends every call itself; what gRPC says beside it is of streams cut off by a user that leaves.
    logging.getLogger("grpc").setLevel(logging.CRITICAL)
    logging.raiseExceptions = False  # a full disk takes no line, nor a traceback with the line's arguments
    sys.excepthook = lambda kind, error, where: log.error("ended by %s", described(error))
    threading.excepthook = lambda found: log.error("in a thread: %s", described(found.exc_value))
    sys.unraisablehook = lambda found: log.error("cannot be raised: %s", described(found.exc_value))
    return sparing


def on_loop(loop: Any, about: dict[str, Any]) -> None:
    """asyncio's exception handler. Its own message would show what a callback was called with."""
    log.error("on the event loop: %s", described(about.get("exception")))
