"""Long byte strings of the journal: each in a file of its own, overwritten in place when nobody needs it any more.

A token of 64 MiB appended at every hop would be new pages at every hop: the kernel finds them, clears them, and slows
their writer down until the disk has taken them. Written over an older one it costs no more than a copy in memory, and
with ``durability = "process"`` the disk is hardly asked.

What makes it safe is an order. A place is written (and synced) before the journal's record names it, and written again
only after a later record names another. So whatever moment a crash chooses, the last record's bytes are whole; the
digest in the record proves it. Bytes that do not have it are damage, like a damaged record.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from node.errors import CorruptJournalError
from node.protocols.walk.digests import digest
from node.protocols.walk.values import Octets, gap_before

_NOTHING = bytes(1 << 16)


class BlobRef(NamedTuple):
    """Where a long byte string is, instead of the string itself."""

    place: int
    size: int
    digest: str  # in hexadecimal digits, as JSON takes it


class BlobStore:
    """The files ``journal.0``, ``journal.1``, ... of a state directory; none exists before it is needed."""

    def __init__(self, folder: Path, *, sync: bool) -> None:
        self._folder = folder
        self._syncs = sync
        self._files: dict[int, int] = {}

    def make_room(self, size: int) -> None:
        """Two places of this size, ahead of the first token: it should not wait for pages that are new to the disk.
        ``OSError``: no space for the next one, and none taken for it."""
        for place in range(2):
            self._lengthen(self._file(place), gap_before(size) + size)

    def put(self, data: Octets, data_digest: bytes, taken: Collection[int]) -> BlobRef:
        """Write ``data`` to a place that is not ``taken``; ``OSError`` when the disk does not take it."""
        place = next(place for place in count() if place not in taken)
        file = self._file(place)
        _write(file, data, gap_before(len(data)))
        if self._syncs:
            os.fdatasync(file)
        return BlobRef(place, len(data), data_digest.hex())

    def _lengthen(self, file: int, size: int) -> None:
        length = os.fstat(file).st_size
        if length >= size:
            return
        try:
            for at in range(length, size, len(_NOTHING)):
                _write(file, _NOTHING[: size - at], at)
            if self._syncs:
                os.fdatasync(file)
        except OSError:
            os.ftruncate(file, length)  # never shorter: what is there may be in use
            raise

    def get(self, stored: BlobRef) -> bytes:
        """The bytes that were put there, or ``CorruptJournalError``."""
        path = self._path(stored.place)
        data = b""
        with suppress(FileNotFoundError), path.open("rb") as file:
            file.seek(gap_before(stored.size))
            data = file.read(stored.size)
        if len(data) != stored.size or digest(data).hex() != stored.digest:
            text = f"{path}: not the bytes that the journal names. Restore this disk, or come back with --rejoin."
            raise CorruptJournalError(text)
        return data

    def _path(self, place: int) -> Path:
        return self._folder / f"journal.{place}"

    def _file(self, place: int) -> int:
        """The open file of a place, durable together with its name in the folder."""
        if place not in self._files:
            file = os.open(self._path(place), os.O_RDWR | os.O_CREAT, 0o600)
            if self._syncs:
                try:
                    sync_folder(self._folder)
                except OSError:
                    os.close(file)
                    raise
            self._files[place] = file
        return self._files[place]

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()


def _write(file: int, data: Octets, at: int) -> None:
    """All of it: a disk that fills up takes a part without a word, and tells with the next."""
    left = memoryview(data)
    while left:
        written = os.pwrite(file, left, at)
        left, at = left[written:], at + written


def sync_folder(path: Path) -> None:
    """Make the names in a folder safe against a power cut."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
