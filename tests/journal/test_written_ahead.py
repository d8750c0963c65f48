"""A place written ahead of its record: nobody else's, and named only by the record of exactly these bytes."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.journal import LONG_BYTES, Journal
from node.protocol.digests import digest
from node.protocol.messages import Result
from node.protocol.state import Custody, Durable
from node.protocol.values import Hop, Octets
from node.shelf import Blank

START = Durable(promised=(0, 0))
HOP = Hop((0, 0), 3)
SIZE = LONG_BYTES + 1000


def long_bytes(seed: int) -> bytes:
    return bytes([seed]) * SIZE


def custody_of(data: Octets) -> Custody:
    return Custody(HOP, 1, "handoff", 2, HOP, data, b"k" * 32, True, 1, "{}", "{}", digest(data))


def after_a_kill(folder: Path) -> Durable:
    """What a start would find, were the user killed now."""
    copy = folder.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    found = Journal(copy, START, sync=False)
    found.close()
    return found.durable


def written(journal: Journal, data: bytes) -> tuple[Blank, memoryview]:
    """A place with these bytes, and the token that they are."""
    blank = journal.write_ahead(len(data))
    assert blank is not None
    blank.room[:] = data
    blank.data = token = blank.room.toreadonly()
    return blank, token


def bytes_at(folder: Path, blank: Blank) -> bytes:
    return (folder / f"journal.{blank.place}").read_bytes()[-SIZE:]


def spoil(blank: Blank) -> None:
    """Whoever reads the place will find other bytes there."""
    blank.room[:] = bytes(SIZE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


@pytest.fixture(params=[False, True])
def journal(folder: Path, request: pytest.FixtureRequest) -> Iterator[Journal]:
    made = Journal(folder, START, sync=request.param)
    made.make_room(SIZE)
    yield made
    made.close()


def test_a_record_names_what_was_written_ahead(journal: Journal, folder: Path) -> None:
    for turn in range(5):
        data = long_bytes(turn)
        blank, token = written(journal, data)
        journal.append({"custody": custody_of(token)}, sync=True)
        journal.settle()
        assert after_a_kill(folder).custody == custody_of(data)
        assert bytes_at(folder, blank) == data
        del blank, token  # the journal's own view goes with the next record
    assert sorted(path.name for path in folder.glob("journal.*")) == ["journal.0", "journal.1"]


def test_a_place_that_the_last_record_names_is_never_written_ahead(journal: Journal, folder: Path) -> None:
    for turn in range(4):
        data = long_bytes(turn)
        journal.append({"custody": custody_of(data)}, sync=True)
        written(journal, long_bytes(99))
        assert after_a_kill(folder).custody == custody_of(data)
        journal.settle()


def test_other_bytes_do_not_get_the_place_that_is_being_written(journal: Journal, folder: Path) -> None:
    ahead, other = long_bytes(1), long_bytes(2)
    blank, token = written(journal, ahead)
    journal.append({"custody": custody_of(other), "result": Result((0, 0), b"e" * 32, ahead)}, sync=True)
    found = after_a_kill(folder)
    assert found.custody == custody_of(other) and found.result is not None and found.result.token == ahead
    assert bytes_at(folder, blank) == token == ahead


def test_equal_bytes_that_are_not_the_same_are_written_again(journal: Journal, folder: Path) -> None:
    """Whoever has others cannot know that they are equal."""
    blank, _ = written(journal, long_bytes(1))
    same = long_bytes(1)
    journal.append({"custody": custody_of(same)}, sync=True)
    spoil(blank)
    assert after_a_kill(folder).custody == custody_of(same)


def test_a_place_that_is_not_filled_is_not_named(journal: Journal, folder: Path) -> None:
    data = long_bytes(1)
    blank = journal.write_ahead(SIZE)
    assert blank is not None
    blank.room[:5000] = data[:5000]
    journal.append({"custody": custody_of(data)}, sync=True)
    assert after_a_kill(folder).custody == custody_of(data)


def test_a_token_that_somebody_still_reads_is_never_written_over(journal: Journal, folder: Path) -> None:
    """A hand-over may still be under way when later records name other places: its bytes are fixed (theory.md 8.1)."""
    data = long_bytes(7)
    first = written(journal, data)[1]
    part = first[1000:2000]
    journal.append({"custody": custody_of(first)}, sync=True)
    journal.settle()
    del first
    for turn in range(6):
        blank = journal.write_ahead(SIZE)  # the third place is ready once something was put there
        if blank is not None:
            blank.room[:] = long_bytes(turn)
            blank.data = blank.room.toreadonly()
        ahead = blank.data if blank is not None and blank.data is not None and turn % 2 else long_bytes(turn)
        journal.append({"custody": custody_of(ahead)}, sync=True)
        journal.settle()
        del ahead, blank
        assert part == data[1000:2000]
    assert len(list(folder.glob("journal.*"))) <= 4
    del part
    places = set()
    for turn in range(6):
        blank, ahead = written(journal, long_bytes(turn))
        places.add(blank.place)
        journal.append({"custody": custody_of(ahead)}, sync=True)
        journal.settle()
        del blank, ahead
    assert places == {0, 1}, "nobody reads it any more: its place serves again"


def test_where_files_cannot_be_mapped_or_are_not_long_enough_nothing_is_written_ahead(
    journal: Journal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no(*_: object) -> int:
        raise OSError(errno.ENODEV, "No such device")

    data = long_bytes(1)
    assert journal.write_ahead(2 * SIZE) is None
    for where, name in ((os, "posix_fallocate"), (mmap, "mmap")):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, no)
            assert journal.write_ahead(SIZE) is None
    journal.append({"custody": custody_of(data)}, sync=True)
    assert after_a_kill(folder).custody == custody_of(data)
    assert journal.write_ahead(SIZE) is not None


def test_holes_are_filled_before_a_place_is_lent(journal: Journal, folder: Path) -> None:
    """A copy of a disk may have left some. Written to through a map, on a full disk, they would end the process."""
    length = (folder / "journal.0").stat().st_size
    os.truncate(folder / "journal.0", 0)
    os.truncate(folder / "journal.0", length)
    assert (folder / "journal.0").stat().st_blocks == 0
    blank = journal.write_ahead(SIZE)
    assert blank is not None and blank.place == 0
    assert 512 * (folder / "journal.0").stat().st_blocks >= SIZE


def test_a_place_whose_sync_failed_is_not_trusted_a_second_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux tells of a failed write once; the next sync succeeds, whether the bytes are on the disk or not."""
    journal = Journal(folder, START, sync=True)
    journal.make_room(SIZE)
    fails = [1]
    blank, data = written(journal, long_bytes(1))
    sync = os.fdatasync

    def once(file: int) -> None:
        if file == blank.file and fails:
            fails.pop()
            raise OSError(errno.EIO, "Input/output error")
        sync(file)

    monkeypatch.setattr(os, "fdatasync", once)
    assert not journal.compact(START._replace(custody=custody_of(data))), "no space, or so it seems"
    journal.append({"custody": custody_of(data)}, sync=True)
    found = after_a_kill(folder).custody
    assert found is not None and found.out == long_bytes(1)
    assert bytes_at(folder, blank) == long_bytes(1)
    assert (folder / "journal.1").read_bytes()[-SIZE:] == long_bytes(1), "written again, elsewhere"
    journal.close()
