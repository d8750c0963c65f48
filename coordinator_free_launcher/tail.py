"""New whole lines of a file that grows, a bounded piece at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from network_dp.view import Record, ViewError, decode

PIECE_BYTES: Final = 1 << 22
LINE_BYTES: Final = 1 << 24  # a longer line is left out: its numbers would not fit on a screen


class Tail:
    """Reads on where it stopped; a file that became shorter is read again from its start."""

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        """``from_end``: only what is written from now on."""
        self._path = path
        self._at = path.stat().st_size if from_end and path.exists() else 0
        self._rest = b""
        self._skipping = False

    def records(self) -> list[Record]:
        """The records written since the last call; a line of another schema is left out."""
        found = []
        for line in self.lines():
            try:
                found.append(decode(line))
            except ViewError:
                continue
        return found

    def lines(self) -> list[bytes]:
        """The lines written since the last call."""
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._at:
                    self._at, self._rest, self._skipping = 0, b"", False
                file.seek(self._at)
                piece = file.read(PIECE_BYTES)
        except FileNotFoundError:
            return []
        self._at += len(piece)
        *lines, rest = (self._rest + piece).split(b"\n")
        if self._skipping and lines:
            lines, self._skipping = lines[1:], False
        self._skipping = self._skipping or len(rest) > LINE_BYTES
        self._rest = b"" if self._skipping else rest
        return lines
