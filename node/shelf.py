"""Long byte strings of the journal: each in a file of its own, overwritten in place when nobody needs it any more.

A token of 64 MiB appended at every hop would be new pages at every hop: the kernel finds them, clears them, and slows
their writer down until the disk has taken them. Written over an older one it costs no more than a copy in memory, and
with ``durability = "process"`` the disk is hardly asked.

What makes it safe is an order. A place is written (and synced) before the journal's record names it, and written again
only after a later record names another. So whatever moment a crash chooses, the last record's bytes are whole; the
digest in the record proves it. Bytes that do not have it are damage, like a damaged record.

A token that is reckoned while its predecessor arrives is reckoned in its place: the file is mapped, and nothing is left
to be written. Whoever still holds a view of such a token keeps its place from being written again.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Collection
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from node.errors import CorruptJournalError
from node.protocol.digests import digest
from node.protocol.values import Octets, gap_before

_NOTHING = bytes(1 << 16)


class Shelved(NamedTuple):
    """Where a long byte string is, instead of the string itself."""

    place: int
    size: int
    digest: str  # in hexadecimal digits, as JSON takes it


class Blank:
    """A place set aside, to be filled ahead of the record that may name it."""

    def __init__(self, place: int, file: int, room: memoryview) -> None:
        self.place = place
        self.file = file
        self.room = room  # the place itself
        self.data: Octets | None = None  # a view of the room, once that is filled

    def holds(self, data: Octets) -> bool:
        return self.data is data


class Shelf:
    """The files ``journal.0``, ``journal.1``, ... of a state directory; none exists before it is needed."""

    def __init__(self, folder: Path, *, sync: bool) -> None:
        self._folder = folder
        self._syncs = sync
        self._files: dict[int, int] = {}
        self._maps: dict[int, mmap.mmap] = {}
        self._lent: dict[int, weakref.ref[NDArray[Any]]] = {}  # place -> what all views of it rest on

    def make_room(self, size: int) -> None:
        """Two places of this size, ahead of the first token: it should not wait for pages that are new to the disk.
        ``OSError``: no space for the next one, and none taken for it."""
        for place in range(2):
            self._lengthen(self._file(place), gap_before(size) + size)

    def put(self, data: Octets, data_digest: bytes, taken: Collection[int]) -> Shelved:
        """Write ``data`` to a place that is not ``taken``; ``OSError`` when the disk does not take it."""
        place = self._free(taken)
        file = self._file(place)
        _write(file, data, gap_before(len(data)))
        return self._safe(place, file, len(data), data_digest)

    def blank(self, size: int, taken: Collection[int]) -> Blank | None:
        """A place that is not ``taken``, mapped. None: it is not long enough yet (the next ``put`` makes it so).
        ``OSError`` where files cannot be mapped."""
        place, start = self._free(taken), gap_before(size)
        file = self._file(place)
        if place not in self._maps or len(self._maps[place]) < start + size:
            if os.fstat(file).st_size < start + size:
                return None
            # A hole (a copy of this disk may have left some) would be filled when it is written to. On a disk that is
            # full by then, that ends the process: an error here does not.
            os.posix_fallocate(file, 0, start + size)
            self._maps[place] = mmap.mmap(file, start + size)
        whole = np.frombuffer(self._maps[place], np.uint8)
        self._lent[place] = weakref.ref(whole)
        return Blank(place, file, whole.data[start : start + size])

    def filled(self, blank: Blank, data_digest: bytes) -> Shelved:
        """What is there by now, as safe as anything that a record may name."""
        return self._safe(blank.place, blank.file, len(blank.room), data_digest)

    def _safe(self, place: int, file: int, size: int, data_digest: bytes) -> Shelved:
        if self._syncs:
            os.fdatasync(file)  # what came through a map, too
        return Shelved(place, size, data_digest.hex())

    def _free(self, taken: Collection[int]) -> int:
        return next(place for place in count() if place not in taken and not self._is_lent(place))

    def _is_lent(self, place: int) -> bool:
        """Does anybody still read a token there, to send it, say, although no record names it any more?"""
        return place in self._lent and self._lent[place]() is not None

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

    def get(self, shelved: Shelved) -> bytes:
        """The bytes that were put there, or ``CorruptJournalError``."""
        path = self._path(shelved.place)
        data = b""
        with suppress(FileNotFoundError), path.open("rb") as file:
            file.seek(gap_before(shelved.size))
            data = file.read(shelved.size)
        if len(data) != shelved.size or digest(data).hex() != shelved.digest:
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
        self._maps.clear()  # each goes with the last view of it


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
