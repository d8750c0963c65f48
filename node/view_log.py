"""The user's own view log: append-only JSON lines, readable by its owner only.

After a crash the journal may be one step ahead of the log; the protocol then logs its last lines again, and lines the
file already ends with are not repeated.
"""

from __future__ import annotations

import os
from pathlib import Path

TAIL_LINES = 8


class ViewLog:
    """Appends whole lines; a torn last line (machine crash) is cut off when the file is opened."""

    def __init__(self, path: Path, header: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        tail, end = _tail(path)
        if end != path.stat().st_size:
            os.ftruncate(self._file, end)
        self._seen = set(tail)
        if not tail:
            self.append(header)

    def append(self, line: str) -> None:
        if line in self._seen:
            self._seen.discard(line)
            return
        data = memoryview(line.encode() + b"\n")
        while data:
            data = data[os.write(self._file, data) :]

    def settle(self) -> None:
        """From here on every line is new: stop comparing."""
        self._seen.clear()

    def sync(self) -> None:
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


def _tail(path: Path) -> tuple[list[str], int]:
    """The last lines, and where the last whole line ends."""
    size = path.stat().st_size
    with path.open("rb") as file:
        span = 1 << 16
        while True:
            start = max(0, size - span)
            file.seek(start)
            data = file.read()
            end = data.rfind(b"\n") + 1
            lines = data[:end].split(b"\n")[:-1]
            if start == 0 or len(lines) > TAIL_LINES:
                break
            span *= 4
    whole = lines if start == 0 else lines[1:]
    return [line.decode(errors="replace") for line in whole[-TAIL_LINES:]], start + end
