"""The user's own view log: append-only JSON lines, readable by its owner only.

After a crash the journal may be ahead of the log; its lines are then logged again (``in_step.py``), and lines the
file already ends with are not repeated (whatever the time in them: what happened is the same). A full disk cuts no
line in two: what could not be written waits in memory, in order, until there is space.
"""

from __future__ import annotations

import os
from pathlib import Path

from node.errors import DiskFullError
from node.storage.blob_store import sync_folder
from node.storage.in_step import TAIL_LINES, last_number

_NOT_WALK = tuple(f'{{"kind":"{kind}"'.encode() for kind in ("peer", "start", "rejoined", "round", "attendance"))


class ViewLog:
    """Appends whole lines; a torn last line (machine crash) is cut off when the file is opened."""

    def __init__(self, path: Path, header: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        tail, self._size = _tail(path)
        if self._size != path.stat().st_size:
            os.ftruncate(self._file, self._size)
        self._seen = {_timeless(line) for line in tail}
        self._pending = b""
        self.begun = self._size > 0
        self.last_visit = last_number(tail)
        if not self.begun:
            self.append(header)
            self.flush()
            self.sync()
            sync_folder(path.parent)

    def append(self, line: str) -> None:
        """The line waits, in order, for the next ``flush``: the lines of one transition are one write."""
        if self._seen and _timeless(line) in self._seen:
            self._seen.discard(_timeless(line))
            return
        self._pending += line.encode() + b"\n"

    def flush(self) -> None:
        """Write what waits; ``DiskFullError`` while there is no space."""
        if not self._pending:
            return
        try:
            left = memoryview(self._pending)
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            os.ftruncate(self._file, self._size)
            raise DiskFullError(f"{self._path}: {error.strerror}") from None
        self._size += len(self._pending)
        self._pending = b""

    def settle(self) -> None:
        """From here on every line is new: stop comparing."""
        self._seen.clear()

    def sync(self) -> None:
        """Safe against a power cut; ``DiskFullError`` when the disk does not take it."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise DiskFullError(f"{self._path}: {error.strerror}") from None

    def close(self) -> None:
        try:
            self.flush()
        finally:
            os.close(self._file)


def _timeless(line: str) -> str:
    return line.rpartition(',"time":')[0] or line


def _tail(path: Path) -> tuple[list[str], int]:
    """The last lines about the walk (others can be any number in between), and where the last line ends."""
    size = path.stat().st_size
    with path.open("rb") as file:
        span = 1 << 16
        while True:
            start = max(0, size - span)
            file.seek(start)
            data = file.read()
            end = data.rfind(b"\n") + 1
            whole = data[:end].split(b"\n")[1:-1]  # the first is the header, or half a line
            walk = [line for line in whole if not line.startswith(_NOT_WALK)]
            last = [line.decode(errors="replace") for line in walk[-TAIL_LINES:]]
            if start == 0 or (len(walk) >= TAIL_LINES and last_number(last)):
                return last, start + end
            span *= 4
