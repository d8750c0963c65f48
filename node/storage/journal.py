"""The journal: changes of the durable state, append-only, checksummed, durable before anybody hears of them.

File: an 8-byte magic, then records (``node/storage/records.py``). Replaying all changes gives the state back.

A crash can tear the last record only: a torn tail was never acted upon, and is cut off. Damage anywhere else means
that the disk lies, and the node refuses to start. Compaction writes the whole state as one record into a new file and
renames it over the old one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

from node.errors import CorruptJournalError, DiskFullError, LockedError
from node.protocols.walk.digests import digest
from node.storage import records
from node.storage.blob_store import BlobRef, BlobStore, sync_folder
from node.storage.records import HEAD, Changes, Lines, RecordCodec

MAGIC: Final = b"NDPJRN7\n"
COMPACT_BYTES: Final = 1 << 20
COMPACT_FACTOR: Final = 8  # how many times the whole state a history may grow to
LONG_BYTES: Final = 1 << 16  # a byte string above this is stored
RESERVE_BYTES: Final = 1 << 16
LOCK_TRIES: Final = 10
LOCK_PAUSE_S: Final = 0.02
_SHORT_LENGTH: Final = bytes(4)


class _Long(NamedTuple):
    """A long byte string of the state, and where it is stored."""

    data: bytes
    stored: BlobRef


def _whole_record_behind(data: bytes, at: int) -> bool:
    """Then what stands at ``at`` is not the last record, and no crash of ours tore it: a crash tears one record only,
    of which any page may be missing."""
    end = len(data.rstrip(b"\0")) + len(_SHORT_LENGTH)  # no record begins in the zeros of a file made long ahead
    high_half = data.find(_SHORT_LENGTH, at + 5, end)  # of the length of a record, which is below 4 GiB
    while high_half != -1:
        if _is_whole(data, high_half - 4):
            return True
        high_half = data.find(_SHORT_LENGTH, high_half + 1, end)
    return False


def _is_whole(data: bytes, at: int) -> bool:
    if len(data) - at < HEAD.size:
        return False
    size, checksum = HEAD.unpack_from(data, at)
    end = at + HEAD.size + size
    if size < records.LEAST_BYTES or end > len(data) or records.size_checksum(size) != checksum:
        return False
    try:
        records.text_of(memoryview(data)[at + HEAD.size : end])
    except ValueError:
        return False
    return True


def replay(data: bytes, where: Path, codec: RecordCodec) -> tuple[list[dict[str, Any]], int]:
    """The changes of all whole records, and the length of the file up to there.

    A torn record is the last: behind it is nothing whole, only zeros (a file made long ahead) and pieces of itself.
    """
    history, at, view = list[dict[str, Any]](), len(MAGIC), memoryview(data)
    while at < len(data):
        if not any(view[at:]):
            break
        if len(data) - at < HEAD.size:
            break
        size, checksum = HEAD.unpack_from(data, at)
        if records.size_checksum(size) != checksum:
            lost = size == 0 or checksum == 0  # a page that never came is zeros; anything else was not written here
            if not any(view[at + HEAD.size :]) or (lost and not _whole_record_behind(data, at)):
                break
            raise CorruptJournalError(f"{where}: damaged at byte {at}. Restore this disk, or come back with --rejoin.")
        end = at + HEAD.size + size
        if end > len(data):
            break
        try:
            changes = codec.decode(records.text_of(view[at + HEAD.size : end]))
        except ValueError as error:
            if not _whole_record_behind(data, at):
                break
            text = f"{where}: damaged at byte {at} ({error}). Restore this disk, or come back with --rejoin."
            raise CorruptJournalError(text) from None
        history.append(changes)
        at = end
    return history, at


def _locked(folder: Path) -> int:
    """The folder's lock, held by this process; somebody who only looks (``status``) holds it for a moment."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    for attempt in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(OSError):  # for ``status``; a full disk takes no number
                os.ftruncate(lock, 0)
                os.write(lock, b"%d\n" % os.getpid())
            return lock
        except OSError:
            if attempt + 1 < LOCK_TRIES:
                time.sleep(LOCK_PAUSE_S)
    os.close(lock)
    raise LockedError(f"{folder} is in use by another process: this user runs already")


class Journal:
    """The journal of one user's state directory, locked for this process."""

    def __init__(self, folder: Path, codec: RecordCodec, start: Any, *, sync: bool, rejoin: bool = False) -> None:
        self._path = folder / "journal"
        self._codec = codec
        self.syncs = sync
        self._lock = _locked(folder)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        self._reserved = 0
        self._waiting: Changes = {}
        self._blobs = BlobStore(folder, sync=sync)
        self._long: Mapping[str, _Long] = {}  # field -> what of it is stored
        self.lines: Mapping[int, Lines] = {}  # of the view log, by visit, since the last compaction
        self.damaged = False  # was the journal unreadable, and set aside?
        self.n_records = 0  # written by this process
        try:
            self._open(start, rejoin)
        except BaseException:
            self.close()
            raise

    def _open(self, start: Any, rejoin: bool) -> None:
        try:
            self._read(start)
        except CorruptJournalError:
            if not rejoin:
                raise
            self._start_over(start)
        if self.syncs:
            sync_folder(self._path.parent)  # whoever was killed after a rename may not have come to it

    def _start_over(self, start: Any) -> None:
        """Set a damaged journal aside. In one step its user becomes one whose disk is lost, and who knows it."""
        damaged = self._path.with_name("journal.damaged")
        damaged.unlink(missing_ok=True)
        os.link(self._path, damaged)
        self.damaged, self.fresh, self.repaired_bytes = True, False, 0
        self.durable, self._long, self._compact_at = self._codec.begun_again(start), {}, 0
        self.lines = {}
        if not self.compact(self.durable):
            raise DiskFullError(f"{self._path}: no space for a new journal")

    def _read(self, start: Any) -> None:
        data = self._path.read_bytes()
        bare = data.rstrip(b"\0")
        if len(bare) < len(MAGIC) and MAGIC.startswith(bare):
            self._begin()
            data = MAGIC
        if not data.startswith(MAGIC):
            raise CorruptJournalError(f"{self._path} is not a journal of this version")
        history, self._size = replay(data, self._path, self._codec)
        self.lines = self._codec.lines(history)
        self.durable = self._fetched(reduce(self._codec.apply, history, start))
        self.repaired_bytes = len(data[self._size :].rstrip(b"\0"))
        self.fresh = self._size == len(MAGIC)
        self._cut_off()
        self._compact_at = max(COMPACT_BYTES, COMPACT_FACTOR * self._size)

    def _fetched(self, durable: Any) -> Any:
        """The state with its long byte strings; those of older records are not there any more."""
        fields = self._codec.whole(durable)
        self._long = {
            name: _Long(self._blobs.get(part), part)
            for name, part in self._codec.long_parts(fields).items()
            if isinstance(part, BlobRef)
        }
        found = {name: self._codec.exchanged(fields[name], long.data) for name, long in self._long.items()}
        return self._codec.apply(durable, found)

    def _with_places(self, changes: Changes) -> tuple[Changes, Mapping[str, _Long]]:
        """The changes with places instead of long byte strings, and what will be stored once they are written."""
        new = {name: data for name, data in self._codec.long_parts(changes).items() if len(data) > LONG_BYTES}
        if not new and not self._long:
            return changes, self._long
        after = {name: long for name, long in self._long.items() if name not in changes}
        places = dict[str, Any]()
        for name, data in new.items():
            is_stored = name in self._long and self._long[name].data is data
            after[name] = self._long[name] if is_stored else self._store(name, data, changes, after)
            places[name] = self._codec.exchanged(changes[name], after[name].stored)
        return {**changes, **places}, after

    def _store(self, name: str, data: bytes, changes: Changes, after: Mapping[str, _Long]) -> _Long:
        """Store a new byte string beside those of the last record and those of the next."""
        known = self._codec.known_digest(changes[name]) or digest(data)
        taken = {long.stored.place for long in (*self._long.values(), *after.values())}
        return _Long(data, self._blobs.put(data, known, taken))

    def _begin(self) -> None:
        """An empty journal, durable together with its name in the folder."""
        try:
            os.ftruncate(self._file, 0)
            self._write(MAGIC, 0)
            if self.syncs:
                sync_folder(self._path.parent)
        except OSError as error:
            raise DiskFullError(f"{self._path}: {error.strerror}") from None

    def append(self, changes: Changes, *, sync: bool) -> None:
        """Write one record whole, or nothing and ``DiskFullError``.

        What need not be synced can be learnt again after a crash: it waits for the next record, or for ``flush``.
        """
        changes = self._codec.merge(self._waiting, changes)
        if sync:
            self._put(changes)
        else:
            self._waiting = changes

    def flush(self) -> None:
        """Write what waits; ``DiskFullError`` while there is no space."""
        if self._waiting:
            self._put(self._waiting)  # synced here, too: at most one record is ever unsafe, so only one can tear

    def _put(self, changes: Changes) -> None:
        try:
            places, long = self._with_places(changes)
            record = records.framed(self._codec.encode(places))
            self._write(record, self._size)
        except OSError as error:
            self._cut_off()
            raise DiskFullError(f"{self._path}: {error.strerror}") from None
        self._size += len(record)
        self.n_records += 1
        self._waiting, self._long = {}, long

    def _cut_off(self) -> None:
        """Nothing behind the last record: what is void, or was torn, must not come back with the next power cut."""
        os.ftruncate(self._file, self._size)
        self._reserved = 0
        if self.syncs:
            with contextlib.suppress(OSError):
                os.fdatasync(self._file)

    def make_room(self, size: int) -> None:
        """Get ready for tokens of this size, where there is space to spare."""
        if size > LONG_BYTES:
            with contextlib.suppress(OSError):
                self._blobs.make_room(size)

    def amend(self, changes: Changes) -> None:
        """Change what was read, before anything happens."""
        self.append(changes, sync=True)
        self.durable = self._codec.apply(self.durable, changes)

    def _write(self, data: bytes, at: int) -> None:
        if self.syncs:
            self._reserve(at, len(data))
        while data:
            written = os.pwrite(self._file, data, at)
            data, at = data[written:], at + written
        if self.syncs:
            os.fdatasync(self._file)

    def _reserve(self, end: int, size: int) -> None:
        """Make the file long ahead of its records: a sync that need not write the new length costs a third less. It is
        made twice as long each time, because getting the blocks is a sync of its own; what a nearly full disk gave of
        them is given back."""
        if end + size <= self._reserved:
            return
        for ahead in (max(RESERVE_BYTES, end), RESERVE_BYTES):
            try:
                os.posix_fallocate(self._file, end, size + ahead)
            except OSError:
                os.ftruncate(self._file, end)  # no space, or a file system that cannot: the record itself may still fit
            else:
                self._reserved = end + size + ahead
                return

    @property
    def due(self) -> bool:
        """Has the history grown so much that the next record should rather be the whole state?"""
        return self._size >= self._compact_at

    def compact(self, durable: Any) -> bool:
        """Replace the history by its result; the view log must be safe on disk before. False: no space."""
        fresh = self._path.with_name("journal.new")
        try:
            places, long = self._with_places(self._codec.whole(durable))
            history = MAGIC + records.framed(self._codec.encode(places))
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(history)
                file.flush()
                os.fsync(file.fileno())  # whatever the durability: a power cut may not cost the whole history
        except OSError:
            fresh.unlink(missing_ok=True)
            self._compact_at *= 2
            return False
        fresh.rename(self._path)
        os.close(self._file)
        self._file = os.open(self._path, os.O_RDWR)
        self._size, self._reserved = len(history), 0
        self.n_records += 1
        self._waiting, self._long = {}, long
        self._compact_at = max(COMPACT_BYTES, COMPACT_FACTOR * self._size)
        sync_folder(self._path.parent)
        return True

    def close(self) -> None:
        self._blobs.close()
        os.close(self._file)
        os.close(self._lock)
