"""What a power cut leaves of a journal and of a view log: all that was synced, whatever else the disk forgets."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from network_dp import view
from node.protocols.walk.digests import digest
from node.protocols.walk.state import Durable, Entry, Planned, diff
from node.protocols.walk.values import Hop
from node.storage.journal import LONG_BYTES, Journal
from node.storage.view_log import ViewLog
from node.storage.walk_records import WALK
from tests.unit.node.storage.lossy_disk import Keep, cut_power, forgets_all, install
from tests.unit.node.storage.states import START

HEADER = view.encode("header", schema=view.SCHEMA, run="r", plan="p", user="u", values=True, insecure=False)
SHORT, LONG = 40, LONG_BYTES + 1000

NOTHING = Entry("visit", {})


def visited(count: int, size: int = SHORT) -> Durable:
    """The state after so many visits, with the last token in hand."""
    if count == 0:
        return START
    hop, token = Hop((0, 0), count), bytes([count]) * size
    custody = Planned(hop, count, "handoff", NOTHING, 1, hop, token, digest(token), b"k" * 32, True, 1, NOTHING)
    return START._replace(custody=custody, high_water=hop, visits=count, edges={1: count})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder on a disk that loses what is not synced."""
    (tmp_path / "state").mkdir()
    install(monkeypatch.setattr)
    return tmp_path / "state"


def some_of_it(seed: int) -> Keep:
    dice = Random(seed)
    return lambda writes: dice.randint(0, writes)


def found(folder: Path) -> Durable:
    journal = Journal(folder, WALK, START, sync=False)
    journal.close()
    return journal.durable


def walk(journal: Journal, visits: int, size: int, compact_at: int) -> None:
    for count in range(1, visits + 1):
        if count == compact_at:
            assert journal.compact(visited(count, size))
        else:
            journal.append(diff(visited(count - 1, size), visited(count, size)), sync=True)


@pytest.mark.parametrize("size", [SHORT, LONG])
@pytest.mark.parametrize("keep", [forgets_all, some_of_it(1), some_of_it(2)])
@pytest.mark.parametrize("visits", range(7))
def test_a_synced_journal_loses_nothing_whenever_the_power_goes(
    folder: Path, visits: int, keep: Keep, size: int
) -> None:
    journal = Journal(folder, WALK, START, sync=True)
    walk(journal, visits, size, compact_at=3)
    journal.close()
    cut_power(folder, keep)
    assert found(folder) == visited(visits, size)


@pytest.mark.parametrize("keep", [forgets_all, some_of_it(3)])
def test_a_journal_that_a_restart_repaired_is_as_safe(folder: Path, keep: Keep) -> None:
    """A torn tail that was cut off does not come back behind the records that follow it."""
    journal = Journal(folder, WALK, START, sync=True)
    walk(journal, 2, SHORT, compact_at=0)
    journal.close()
    path = folder / "journal"
    path.write_bytes(path.read_bytes().rstrip(b"\0") + b"\x20torn")
    journal = Journal(folder, WALK, START, sync=True)
    journal.append(diff(visited(2), visited(3)), sync=True)
    journal.close()
    cut_power(folder, keep)
    assert found(folder) == visited(3)


def test_without_syncs_a_power_cut_costs_the_records_since_the_last_compaction_and_no_more(folder: Path) -> None:
    """``durability = "process"``: what the compaction wrote is synced all the same, or the whole history would go."""
    journal = Journal(folder, WALK, START, sync=False)
    walk(journal, 5, SHORT, compact_at=3)
    journal.close()
    assert found(folder) == visited(5), "a kill costs nothing"
    assert cut_power(folder) > 0
    assert found(folder) == visited(3)


def test_a_compaction_is_whole_before_it_takes_the_journals_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The power goes between the rename and the sync of the folder, and the disk has the new name already."""
    journal = Journal(folder, WALK, START, sync=True)
    walk(journal, 2, SHORT, compact_at=0)
    real = os.rename

    def dark(source: Path, target: Path) -> None:
        real(source, target)
        (folder.with_name("state.unsynced") / "names").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", dark)
    with pytest.raises(KeyboardInterrupt):
        journal.compact(visited(3))
    journal.close()
    cut_power(folder)
    assert found(folder) == visited(3)


def test_a_view_log_keeps_the_lines_that_were_synced(folder: Path) -> None:
    path = folder / "view.jsonl"
    journal = Journal(folder, WALK, START, sync=True)
    log = ViewLog(path, HEADER)
    lines = [view.encode("start", life=life, time=1.0) for life in range(1, 6)]
    for life, line in enumerate(lines, 1):
        log.append(line)
        log.flush()
        if life == 3:
            log.sync()
    journal.compact(START)  # the folder is synced, and with it the name of the log
    log.close()
    journal.close()
    cut_power(folder)
    assert path.read_text().splitlines() == [HEADER, *lines[:3]]


def test_the_disk_of_these_tests_does_forget(folder: Path) -> None:
    """The control: nothing that a synced journal keeps is kept without its syncs."""
    journal = Journal(folder, WALK, START, sync=True)
    journal.syncs = False
    walk(journal, 3, SHORT, compact_at=0)
    journal.close()
    cut_power(folder)
    assert found(folder) == START
