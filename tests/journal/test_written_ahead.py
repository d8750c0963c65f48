"""A place written ahead of its record: nobody else's, and named only by the record of exactly these bytes."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.journal import LONG_BYTES, Journal
from node.protocol.digests import digest
from node.protocol.messages import Result
from node.protocol.state import Custody, Durable
from node.protocol.values import Hop
from node.shelf import Blank

START = Durable(promised=(0, 0))
HOP = Hop((0, 0), 3)
SIZE = LONG_BYTES + 1000


def long_bytes(seed: int) -> bytes:
    return bytes([seed]) * SIZE


def custody_of(data: bytes) -> Custody:
    return Custody(HOP, 1, "handoff", 2, HOP, data, b"k" * 32, True, 1, "{}", "{}", digest(data))


def after_a_kill(folder: Path) -> Durable:
    """What a start would find, were the user killed now."""
    copy = folder.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    found = Journal(copy, START, sync=False)
    found.close()
    return found.durable


def written(journal: Journal, data: bytes) -> Blank:
    blank = journal.write_ahead()
    assert blank is not None
    blank.write(data)
    blank.data = data
    return blank


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


@pytest.fixture(params=[False, True])
def journal(folder: Path, request: pytest.FixtureRequest) -> Iterator[Journal]:
    made = Journal(folder, START, sync=request.param)
    yield made
    made.close()


def test_a_record_names_what_was_written_ahead(journal: Journal, folder: Path) -> None:
    for turn in range(5):
        data = long_bytes(turn)
        blank = written(journal, data)
        journal.append({"custody": custody_of(data)}, sync=True)
        journal.settle()
        assert after_a_kill(folder).custody == custody_of(data)
        assert (folder / f"journal.{blank.place}").read_bytes() == data
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
    blank = written(journal, ahead)
    journal.append({"custody": custody_of(other), "result": Result((0, 0), b"e" * 32, ahead)}, sync=True)
    found = after_a_kill(folder)
    assert found.custody == custody_of(other) and found.result is not None and found.result.token == ahead
    assert (folder / f"journal.{blank.place}").read_bytes() == ahead


def test_equal_bytes_that_are_not_the_same_are_written_again(journal: Journal, folder: Path) -> None:
    """Whoever has others cannot know that they are equal."""
    blank = written(journal, long_bytes(1))
    same = long_bytes(1)
    journal.append({"custody": custody_of(same)}, sync=True)
    (folder / f"journal.{blank.place}").write_bytes(b"")
    assert after_a_kill(folder).custody == custody_of(same)


def test_a_place_written_in_part_is_not_named(journal: Journal, folder: Path) -> None:
    data = long_bytes(1)
    blank = journal.write_ahead()
    assert blank is not None
    blank.write(data[:5000])
    blank.data = data
    journal.append({"custody": custody_of(data)}, sync=True)
    assert after_a_kill(folder).custody == custody_of(data)


def test_a_place_whose_sync_failed_is_not_trusted_a_second_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux tells of a failed write once; the next sync succeeds, whether the bytes are on the disk or not."""
    journal = Journal(folder, START, sync=True)
    data, fails = long_bytes(1), [1]
    blank = written(journal, data)
    sync = os.fdatasync

    def once(file: int) -> None:
        if file == blank.file and fails:
            fails.pop()
            raise OSError(errno.EIO, "Input/output error")
        sync(file)

    monkeypatch.setattr(os, "fdatasync", once)
    assert not journal.compact(START._replace(custody=custody_of(data))), "no space, or so it seems"
    journal.append({"custody": custody_of(data)}, sync=True)
    (folder / f"journal.{blank.place}").write_bytes(b"")
    assert after_a_kill(folder).custody == custody_of(data)
    journal.close()
