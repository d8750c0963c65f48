"""Long tokens are overwritten in place, and yet a crash leaves the state before or the state after, never a mix."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from node.errors import CorruptJournalError
from node.protocols.walk.digests import digest
from node.protocols.walk.messages import Result
from node.protocols.walk.state import Durable, Entry, Planned, diff
from node.protocols.walk.values import Hop, gap_before
from node.storage.blob_store import BlobStore
from node.storage.journal import LONG_BYTES, Journal
from node.storage.walk_records import WALK
from tests.unit.node.storage.states import START

PAGE_BYTES = 4096
SIZE = LONG_BYTES + 3 * PAGE_BYTES + 77

NOTHING = Entry("visit", {})


def holding(number: int, size: int = SIZE, before: Durable = START) -> Durable:
    """A user with a token of this size in hand, no page of which looks like any of another number's."""
    out = (number.to_bytes(8, "little") * (size // 8 + 1))[:size]
    hop = Hop((0, 0), number)
    custody = Planned(hop, number, "handoff", NOTHING, 1, hop, out, digest(out), b"k" * 32, True, 1, NOTHING)
    return before._replace(custody=custody, visits=number)


def write(folder: Path, *states: Durable, sync: bool = False) -> None:
    journal = Journal(folder, WALK, START, sync=sync)
    before = journal.durable
    for after in states:
        journal.append(diff(before, after), sync=True)
        before = after
    journal.close()


def read(folder: Path) -> Durable:
    journal = Journal(folder, WALK, START, sync=False)
    journal.close()
    return journal.durable


def stored(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("journal.*"))


# ---- what is kept ----------------------------------------------------------------------------------------------

_sizes = st.sampled_from([10, LONG_BYTES, LONG_BYTES + 1, SIZE])
_deeds = st.one_of(
    st.tuples(st.just("custody"), _sizes),
    st.tuples(st.just("result"), _sizes),
    st.tuples(st.just("withheld"), _sizes),
    st.tuples(st.sampled_from(["given up", "count", "compact", "start again"]), st.just(0)),
)


def _done(before: Durable, deed: str, size: int, number: int) -> Durable:
    match deed:
        case "custody":
            return holding(number, size, before)
        case "result":
            return before._replace(result=Result((0, number), b"e" * 16, bytes([number]) * size))
        case "withheld":
            return before._replace(withheld=bytes([number]) * size)
        case "given up":
            return before._replace(custody=None, visits=number)
    return before._replace(visits=number)


@given(st.lists(_deeds, min_size=1, max_size=8))
@example([("custody", SIZE), ("result", SIZE), ("withheld", SIZE), ("start again", 0), ("compact", 0)])
@settings(deadline=None)
def test_any_history_of_long_and_short_tokens_is_given_back_after_every_step(deeds: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as other:
        folder, copy = Path(name), Path(other) / "copy"
        journal, state = Journal(folder, WALK, START, sync=False), START
        for number, (deed, size) in enumerate(deeds, start=1):
            after = _done(state, deed, size, number)
            if deed == "compact":
                assert journal.compact(after)
            else:
                journal.append(diff(state, after), sync=True)
            if deed == "start again":
                journal.close()
                journal = Journal(folder, WALK, START, sync=False)
                assert journal.durable == after
                after = journal.durable  # a process goes on from what it read: the same bytes are not stored again
            state = after
            shutil.copytree(folder, copy)
            assert read(copy) == state
            shutil.rmtree(copy)
        journal.close()
        assert len(stored(folder)) <= 4, "three byte strings that are of use, and one place to write the next"


def test_tokens_take_turns_in_two_places_that_keep_their_size(tmp_path: Path) -> None:
    write(tmp_path, holding(1), holding(2))
    places = {name: (tmp_path / name).stat() for name in stored(tmp_path)}
    assert list(places) == ["journal.0", "journal.1"]
    write(tmp_path, *map(holding, range(3, 9)))
    for name, before in places.items():
        now = (tmp_path / name).stat()
        assert (now.st_ino, now.st_size, now.st_mode & 0o777) == (before.st_ino, gap_before(SIZE) + SIZE, 0o600)
    assert (tmp_path / "journal").stat().st_size < PAGE_BYTES, "no token is in the journal itself"


def test_compaction_does_not_write_again_what_is_stored(tmp_path: Path) -> None:
    write(tmp_path, holding(1))
    journal = Journal(tmp_path, WALK, START, sync=True)
    assert journal.compact(journal.durable)
    journal.close()
    assert stored(tmp_path) == ["journal.0"]
    assert read(tmp_path) == holding(1)


def test_room_is_made_ahead_beside_what_is_stored(tmp_path: Path) -> None:
    write(tmp_path, holding(1))
    journal = Journal(tmp_path, WALK, START, sync=True)
    journal.make_room(3 * SIZE)
    journal.close()
    assert [(tmp_path / name).stat().st_size for name in stored(tmp_path)] == 2 * [gap_before(3 * SIZE) + 3 * SIZE]
    assert read(tmp_path) == holding(1)


def test_no_room_is_made_for_short_tokens(tmp_path: Path) -> None:
    journal = Journal(tmp_path, WALK, START, sync=False)
    journal.make_room(LONG_BYTES)
    journal.close()
    assert stored(tmp_path) == []


def test_places_of_a_journal_that_is_gone_are_used_again(tmp_path: Path) -> None:
    write(tmp_path, holding(1), holding(2))
    (tmp_path / "journal").unlink()
    assert read(tmp_path) == START
    write(tmp_path, holding(3))
    assert read(tmp_path) == holding(3)


# ---- crashes ---------------------------------------------------------------------------------------------------


class Moments:
    """The files before and after the record of a third token, which is written over the first."""

    def __init__(self, folder: Path) -> None:
        write(folder, holding(1), holding(2))
        self.place = folder / "journal.0"
        self.log = folder / "journal"
        self.log_before, self.place_before = self.log.read_bytes(), self.place.read_bytes()
        write(folder, holding(3))
        self.log_after, self.place_after = self.log.read_bytes(), self.place.read_bytes()
        assert self.place_before != self.place_after

    def pages(self, written: set[int]) -> bytes:
        """The place with these of its new pages on it, the others still old."""
        return b"".join(
            (self.place_after if at // PAGE_BYTES in written else self.place_before)[at : at + PAGE_BYTES]
            for at in range(0, SIZE, PAGE_BYTES)
        )


@given(st.sets(st.integers(0, SIZE // PAGE_BYTES)), st.data())
@settings(deadline=None)
def test_before_its_record_is_whole_any_pages_of_a_token_leave_the_state_before(
    written: set[int], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        moments = Moments(Path(name))
        length = data.draw(st.integers(len(moments.log_before), len(moments.log_after) - 1))
        moments.place.write_bytes(moments.pages(written))
        moments.log.write_bytes(moments.log_after[:length])
        assert read(Path(name)) == holding(2)
        write(Path(name), holding(4))
        assert read(Path(name)) == holding(4), "and the walk goes on from there"


@given(st.sets(st.integers(0, SIZE // PAGE_BYTES), max_size=SIZE // PAGE_BYTES))
@settings(deadline=None)
def test_a_record_whose_token_is_not_whole_is_damage_and_never_a_mix(written: set[int]) -> None:
    """With ``durability = "process"`` and a power cut; with "machine" the token is synced before its record."""
    with tempfile.TemporaryDirectory() as name:
        moments = Moments(Path(name))
        moments.place.write_bytes(moments.pages(written))
        with pytest.raises(CorruptJournalError, match=r"journal\.0: not the bytes that the journal names"):
            Journal(Path(name), WALK, START, sync=False)
        moments.place.write_bytes(moments.place_after)
        assert read(Path(name)) == holding(3), "nothing was changed by the look"


@pytest.mark.parametrize("at", [0, PAGE_BYTES, SIZE - 1])
def test_one_damaged_bit_of_a_token_is_found(at: int, tmp_path: Path) -> None:
    write(tmp_path, holding(1))
    damaged = bytearray((tmp_path / "journal.0").read_bytes())
    damaged[at - SIZE] ^= 1
    (tmp_path / "journal.0").write_bytes(damaged)
    with pytest.raises(CorruptJournalError):
        Journal(tmp_path, WALK, START, sync=False)


def test_who_rejoins_with_a_damaged_token_starts_over_and_is_marked_from_the_first_byte_on(tmp_path: Path) -> None:
    write(tmp_path, holding(1))
    before = (tmp_path / "journal").read_bytes()
    (tmp_path / "journal.0").write_bytes(bytes(SIZE))
    journal = Journal(tmp_path, WALK, START, sync=True, rejoin=True)
    journal.close()
    assert journal.damaged and not journal.fresh and journal.durable == START._replace(rejoined=True)
    assert (tmp_path / "journal.damaged").read_bytes() == before
    again = Journal(tmp_path, WALK, START, sync=True)
    again.close()
    assert again.durable == START._replace(rejoined=True) and not again.damaged


@pytest.mark.parametrize("failing", ["pwrite", "fdatasync"])
def test_room_that_cannot_be_made_takes_no_space(failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = BlobStore(tmp_path, sync=True)
    blobs.make_room(PAGE_BYTES)
    calls = iter([None])

    def full(*arguments: object) -> int:
        if next(calls, "full") == "full":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments)

    real = getattr(os, failing)
    monkeypatch.setattr(os, failing, full)
    with pytest.raises(OSError, match="No space"):
        blobs.make_room(SIZE)
    lengths = sorted(path.stat().st_size for path in tmp_path.glob("journal.*"))
    assert lengths[0] == PAGE_BYTES, "what was there stays, and no more"
    blobs.close()


def test_a_disk_that_takes_only_a_part_is_asked_for_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_part = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write_part(file, bytes(data)[:5000], at))
    journal = Journal(tmp_path, WALK, START, sync=False)
    journal.make_room(SIZE)
    assert (tmp_path / "journal.1").stat().st_size == gap_before(SIZE) + SIZE
    assert not any((tmp_path / "journal.1").read_bytes())
    journal.append(diff(START, holding(1)), sync=True)
    journal.close()
    assert read(tmp_path) == holding(1)


@pytest.mark.parametrize("length", [None, 0, gap_before(SIZE) + SIZE - 1])
def test_a_missing_or_shortened_token_is_damage(length: int | None, tmp_path: Path) -> None:
    write(tmp_path, holding(1))
    if length is None:
        (tmp_path / "journal.0").unlink()
    else:
        os.truncate(tmp_path / "journal.0", length)
    with pytest.raises(CorruptJournalError):
        Journal(tmp_path, WALK, START, sync=False)


def test_against_a_power_cut_a_token_is_synced_before_its_record_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, WALK, START, sync=True)
    journal.append(diff(START, holding(1)), sync=True)
    deeds: list[tuple[str, str]] = []

    def watched(name: str) -> None:
        real = getattr(os, name)

        def call(file: int, *rest: object) -> object:
            deeds.append((name, Path(f"/proc/self/fd/{file}").readlink().name))
            return real(file, *rest)

        monkeypatch.setattr(os, name, call)

    for name in ("pwrite", "fdatasync", "fsync"):
        watched(name)
    journal.append(diff(holding(1), holding(2)), sync=True)
    folder = ("fsync", tmp_path.name)
    token, record = [(name, "journal.1") for name in ("pwrite", "fdatasync")], ("pwrite", "journal")
    assert deeds == [folder, *token, record, ("fdatasync", "journal")], "and the new name is safe before all"
    journal.close()


def test_a_journal_that_is_opened_makes_its_name_safe_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last process may have been killed between a rename and the sync of the folder."""
    write(tmp_path, holding(1), sync=True)
    synced: list[Path] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(Path(f"/proc/self/fd/{file}").readlink()), real(file)))
    Journal(tmp_path, WALK, START, sync=True).close()
    assert synced == [tmp_path]


_FULL = """
import resource, signal, sys
from pathlib import Path
from node.errors import DiskFullError
from node.storage.journal import Journal
from node.storage.walk_records import WALK
from node.protocols.walk.state import diff
from tests.unit.node.storage.test_blob_store import SIZE, START, holding
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = Path(sys.argv[1])
journal = Journal(folder, WALK, START, sync=False)
journal.append(diff(START, holding(1)), sync=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE - 5000, resource.RLIM_INFINITY))
for _ in range(2):
    try:
        journal.append(diff(holding(1), holding(2)), sync=True)
    except DiskFullError as error:
        print(error)
assert not journal.compact(holding(2))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
if sys.argv[2] == "space again":
    journal.append(diff(holding(1), holding(3)), sync=True)
"""


@pytest.mark.parametrize(("then", "left"), [("the end", 1), ("space again", 3)])
def test_a_token_that_does_not_fit_the_disk_is_void(then: str, left: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FULL, str(tmp_path), then]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("File too large") == 2
    assert read(tmp_path) == holding(left)
