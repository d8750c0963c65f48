"""A disk that forgets, at a power cut, what nobody synced: real files, and beside them a log of how to undo each write.

``install`` puts a layer over the calls of ``os`` that journals and view logs make. Before a write changes a file, the
bytes it replaces go to ``FOLDER.unsynced/INODE``; a sync of the file removes that log, a sync of the folder removes the
log of its names. Both survive a kill of the process, as pages in memory do. ``cut_power`` undoes what is left: all of
it, or all but the first so many writes of each file, since a disk may have written some of them back by itself.

Not lost: files that are neither journal nor view log (``result.json``, the count of lives).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Keep = Callable[[int], int]  # of so many writes that nobody synced, how many are on the disk all the same?
NAMES = "names"
_KEPT = "kept-"


def forgets_all(writes: int) -> int:
    return 0


def _is_watched(path: Path) -> bool:
    return path.name == "view.jsonl" or (path.name.startswith("journal") and path.name != "journal.damaged")


def _notes(folder: Path) -> Path:
    return folder.with_name(folder.name + ".unsynced")


def _path(file: int) -> Path:
    return Path(f"/proc/self/fd/{file}").readlink()


def _note(folder: Path, name: str, entry: dict[str, Any]) -> None:
    notes = _notes(folder)
    notes.mkdir(exist_ok=True)
    with (notes / name).open("ab", buffering=0) as file:
        file.write(json.dumps(entry).encode() + b"\n")


def _entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []


class _Layer:
    """The calls of ``os`` as they were, and as they are noted."""

    def __init__(self) -> None:
        self.real = {name: getattr(os, name) for name in ("open", "write", "pwrite", "ftruncate", "rename")}

    def before(self, file: int, at: int | None, length: int) -> None:
        """``length`` bytes from ``at`` on (None: behind the end) are about to change."""
        path = _path(file)
        if not _is_watched(path):
            return
        known = os.fstat(file)
        start = known.st_size if at is None else at
        old = path.read_bytes()[start : start + length] if start < known.st_size else b""
        _note(path.parent, str(known.st_ino), {"at": start, "old": old.hex(), "size": known.st_size})

    def open(self, path: Any, flags: int, *rest: Any, **options: Any) -> int:
        place = Path(path)
        new = bool(flags & os.O_CREAT) and not place.exists() and _is_watched(place)
        if new:
            _note(place.parent, NAMES, {"made": place.name})
        file: int = self.real["open"](path, flags, *rest, **options)
        if (new or flags & os.O_TRUNC) and _is_watched(place):
            inode = str(os.fstat(file).st_ino)
            (_notes(place.parent) / inode).unlink(missing_ok=True)  # of an older file that had this number
            _note(place.parent, inode, {"at": 0, "old": "", "size": 0})  # it may be written to past this layer
        return file

    def write(self, file: int, data: Any) -> int:
        self.before(file, None, len(data))
        return int(self.real["write"](file, data))

    def pwrite(self, file: int, data: Any, at: int) -> int:
        self.before(file, at, len(data))
        return int(self.real["pwrite"](file, data, at))

    def ftruncate(self, file: int, length: int) -> None:
        size = os.fstat(file).st_size
        if length < size:
            self.before(file, length, size - length)
        self.real["ftruncate"](file, length)

    def rename(self, source: Any, target: Any) -> None:
        there = Path(target)
        if _is_watched(there):
            notes = _notes(there.parent)
            notes.mkdir(exist_ok=True)
            kept = f"{_KEPT}{len(list(notes.iterdir()))}" if there.exists() else ""
            if kept:
                os.link(there, notes / kept)
            _note(there.parent, NAMES, {"from": Path(source).name, "to": there.name, "kept": kept})
        self.real["rename"](source, target)

    def sync(self, file: int) -> None:
        """Nothing to wait for: whether the real disk has it does not matter here."""
        path = _path(file)
        if path.is_dir():
            (_notes(path) / NAMES).unlink(missing_ok=True)
            for kept in _notes(path).glob(f"{_KEPT}*"):
                kept.unlink()
        else:
            (_notes(path.parent) / str(os.fstat(file).st_ino)).unlink(missing_ok=True)


def install(put: Callable[[Any, str, Any], None] = setattr) -> None:
    """From here on this process, and all it forks, keep the logs. ``put``: ``monkeypatch.setattr`` in a test."""
    layer = _Layer()
    for name in layer.real:
        put(os, name, getattr(layer, name))
    for name in ("fsync", "fdatasync"):
        put(os, name, layer.sync)


def cut_power(folder: Path, keep: Keep = forgets_all) -> int:
    """The machine of ``folder`` goes dark (its process has ended): undo what nobody synced; how many writes that was.

    Contents first, each file's newest write first; then the names, all or none."""
    notes, undone = _notes(folder), 0
    if not notes.exists():
        return 0
    by_inode = {str(path.stat().st_ino): path for path in (*folder.iterdir(), *notes.glob(f"{_KEPT}*"))}
    for inode, path in by_inode.items():
        entries = _entries(notes / inode)
        kept = keep(len(entries))
        for entry in reversed(entries[kept:]):
            with path.open("r+b") as file:
                file.seek(entry["at"])
                file.write(bytes.fromhex(entry["old"]))
                file.truncate(entry["size"])
        undone += len(entries) - kept
    names = _entries(notes / NAMES)
    if keep(len(names)) < len(names):
        for entry in reversed(names):
            _forget_name(folder, notes, entry)
    shutil.rmtree(notes)
    return undone


def _forget_name(folder: Path, notes: Path, entry: dict[str, Any]) -> None:
    if "made" in entry:
        (folder / entry["made"]).unlink(missing_ok=True)
        return
    with suppress(FileNotFoundError):
        (folder / entry["to"]).rename(folder / entry["from"])
    if entry["kept"]:
        (notes / entry["kept"]).rename(folder / entry["to"])
