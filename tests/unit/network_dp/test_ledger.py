"""A user's ledger: nothing is lost, nothing is changed unnoticed, whatever the moment of a crash."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from network_dp import ledger
from network_dp.ledger import Budget, Charge, Entry, LedgerError, Walked


def charge(number: int) -> Charge:
    return Charge("p" * 64, f"run-{number}", "a run", "exact", 0.25, ((0.0, 0.2), (1.0, 1e-6)))


def add(path: Path, *entries: Entry) -> None:
    for entry in entries:
        ledger.append(path, lambda book, entry=entry: entry)  # type: ignore[misc]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "ann" / ledger.FILE


def test_what_was_written_is_read_back_in_order(path: Path) -> None:
    assert ledger.read(path).entries == ()
    entries = (Budget(1.0, 1e-6), charge(1), Walked("run-1", None, 1e-6), charge(2), Budget(2.0, 1e-5))
    add(path, *entries)
    book = ledger.read(path)
    assert book.entries == entries
    assert book.budget == Budget(2.0, 1e-5)
    assert [found.run for found in book.charges] == ["run-1", "run-2"] and book.has("run-2") and not book.has("run-3")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_new_ledger_is_on_the_disk_with_all_its_folders(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def watched(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    add(path, charge(1))
    folders = [path.parent, path.parent.parent, path.parent.parent.parent]  # ann and state are new, in tmp_path
    inodes = {folder.stat().st_ino for folder in folders}
    assert inodes <= set(synced) and synced.index(path.stat().st_ino) < synced.index(path.parent.stat().st_ino)
    synced.clear()
    add(path, charge(2))
    assert path.stat().st_ino in synced and not inodes & set(synced)


def test_a_second_analysis_gives_nothing_back(path: Path) -> None:
    worst = Walked("run-1", 2.0, 1e-6)
    add(path, charge(1), Walked("run-1", 1.0, 1e-6), worst, Walked("run-1", 0.5, 1e-6), Walked("run-2", 3.0, 1e-6))
    assert ledger.read(path).walked("run-1") == worst
    add(path, Walked("run-1", None, 1e-6))
    assert ledger.read(path).walked("run-1") == Walked("run-1", None, 1e-6)


@pytest.mark.parametrize("cut", range(1, 40, 6))
def test_an_unfinished_last_line_was_never_told_and_is_dropped(path: Path, cut: int) -> None:
    add(path, charge(1))
    before, head = path.read_bytes(), path.with_suffix(".head").read_bytes()
    add(path, charge(2))
    path.write_bytes(path.read_bytes()[:-cut])  # the crash came while the line was written: before its head
    path.with_suffix(".head").write_bytes(head)
    assert [found.run for found in ledger.read(path).charges] == ["run-1"]
    add(path, charge(3))
    assert [found.run for found in ledger.read(path).charges] == ["run-1", "run-3"]
    assert path.read_bytes().startswith(before)


def test_a_crash_between_a_line_and_its_head_loses_nothing(path: Path) -> None:
    add(path, charge(1))
    head = path.with_suffix(".head").read_bytes()
    add(path, charge(2))
    path.with_suffix(".head").write_bytes(head)
    assert len(ledger.read(path).charges) == 2
    add(path, charge(3))
    assert len(ledger.read(path).charges) == 3


def changed_inside(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"mu2":0.25', b'"mu2":0.05'))


def without_its_first_line(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))


def without_its_last_line(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def with_a_line_twice(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[-1]]))


def gone(path: Path) -> None:
    path.unlink()


def without_its_head(path: Path) -> None:
    path.with_suffix(".head").unlink()


def readable_by_others(path: Path) -> None:
    path.chmod(0o644)


DAMAGES = [
    changed_inside,
    without_its_first_line,
    without_its_last_line,
    with_a_line_twice,
    gone,
    without_its_head,
    readable_by_others,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_ledger_that_was_tampered_with_is_not_believed(path: Path, damage: Callable[[Path], None]) -> None:
    add(path, charge(1), charge(2), charge(3))
    damage(path)
    with pytest.raises(LedgerError, match=r"restore|chmod"):
        ledger.read(path)
    if damage is not gone:  # whoever would add to it is told too, and nothing is written
        before = path.read_bytes()
        with pytest.raises(LedgerError):
            add(path, charge(4))
        assert path.read_bytes() == before


def _charge_many(path: Path, first: int) -> None:
    for number in range(first, first + 10):
        add(path, charge(number))


def test_processes_that_write_at_once_wait_for_each_other(path: Path) -> None:
    writers = [multiprocessing.get_context("fork").Process(target=_charge_many, args=(path, k)) for k in (0, 100, 200)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert len({found.run for found in ledger.read(path).charges}) == 30


def test_a_charge_is_for_one_run_and_made_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "charge.json"
    ledger.write_charge(path, charge(1))
    assert ledger.read_charge(path, "p" * 64, "run-1") == charge(1)
    with pytest.raises(LedgerError, match="another run"):
        ledger.read_charge(path, "p" * 64, "run-2")
    values = json.loads(path.read_text())
    unsorted, no_number = {"points": [[1.0, 0.1], [0.5, 0.2]]}, {"points": [[0.0, float("nan")]]}
    for wrong in (unsorted, no_number, {"mu2": -1.0}, {"mu2": 0.0, "points": []}, {"more": 1}):
        path.write_text(json.dumps({**values, **wrong}))
        with pytest.raises(LedgerError, match="not a charge"):
            ledger.read_charge(path, "p" * 64, "run-1")
    with pytest.raises(LedgerError, match="no charge"):
        ledger.read_charge(tmp_path / "nothing.json", "", "")
