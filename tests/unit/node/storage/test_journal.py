"""The journal gives back exactly what was made durable, cuts what a crash tore, and refuses a disk that lies."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from node.errors import CorruptJournalError, LockedError
from node.protocols.walk.state import Durable, Entry, Planned, diff
from node.protocols.walk.values import Hop
from node.storage import records
from node.storage.journal import MAGIC, RESERVE_BYTES, Journal
from node.storage.walk_records import WALK
from tests.unit.node.storage.states import START, histories

NOTHING = Entry("visit", {})


def write(folder: Path, states: list[Durable]) -> list[int]:
    """Append a history; the sizes of the file after each state."""
    journal = Journal(folder, WALK, START, sync=False)
    sizes = [(folder / "journal").stat().st_size]
    for before, after in itertools.pairwise(states):
        journal.append(diff(before, after), sync=True)
        sizes.append((folder / "journal").stat().st_size)
    journal.close()
    return sizes


def read(folder: Path) -> Durable:
    journal = Journal(folder, WALK, START, sync=False)
    journal.close()
    return journal.durable


#: three records with byte strings, a hop and a map in them
HISTORY = [
    START,
    START._replace(high_water=Hop((0, 0), 1), high_water_digest=b"\x00\x01\xff" * 5, visits=1),
    START._replace(high_water=Hop((0, 0), 4), high_water_digest=b"\x07" * 15, visits=2, edges={1: 1}),
    START._replace(high_water=Hop((1, 2), 9), high_water_digest=b"", visits=3, edges={1: 1, 2: 1}, final=True),
]


@given(histories())
def test_replaying_the_changes_gives_the_state_back(states: list[Durable]) -> None:
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), states)
        assert read(Path(name)) == states[-1]


@given(histories())
def test_compaction_keeps_the_state_and_what_follows_it(states: list[Durable]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, states[:-1])
        journal = Journal(folder, WALK, START, sync=False)
        assert journal.compact(journal.durable)
        journal.append(diff(states[-2], states[-1]), sync=True)
        journal.close()
        assert read(folder) == states[-1]
        assert not (folder / "journal.new").exists()


def test_a_torn_tail_is_cut_at_every_byte_and_the_state_before_it_survives(tmp_path: Path) -> None:
    sizes = write(tmp_path, HISTORY)
    whole = (tmp_path / "journal").read_bytes()
    for length in range(len(MAGIC), len(whole) + 1):
        (tmp_path / "journal").write_bytes(whole[:length])
        records = sum(size <= length for size in sizes) - 1
        assert read(tmp_path) == HISTORY[records], length
        assert (tmp_path / "journal").stat().st_size == sizes[records], "the tail is gone from the disk too"


def test_a_file_torn_in_its_first_bytes_begins_anew(tmp_path: Path) -> None:
    for length in range(len(MAGIC)):
        for padding in (b"", b"\0" * (len(MAGIC) - 1 - length)):
            (tmp_path / "journal").write_bytes(MAGIC[:length] + padding)
            write(tmp_path, HISTORY)
            assert read(tmp_path) == HISTORY[-1], (length, padding)


def test_a_tail_of_zeros_is_cut_wherever_the_record_before_it_ended(tmp_path: Path) -> None:
    """A file system may extend a file and lose the bytes: the torn record is followed by zeros instead of nothing."""
    sizes = write(tmp_path, HISTORY)
    whole = (tmp_path / "journal").read_bytes()
    for length in range(sizes[-2], sizes[-1]):
        for zeros in (1, 11, 4096):
            (tmp_path / "journal").write_bytes(whole[:length] + b"\0" * zeros)
            assert read(tmp_path) in (HISTORY[-2], HISTORY[-1]), (length, zeros)


def test_damage_of_any_byte_in_the_middle_is_refused(tmp_path: Path) -> None:
    sizes = write(tmp_path, HISTORY)
    whole = (tmp_path / "journal").read_bytes()
    for at in range(sizes[1], sizes[2]):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[at] ^= flip
            (tmp_path / "journal").write_bytes(damaged)
            with pytest.raises(CorruptJournalError, match=f"damaged at byte {sizes[1]}"):
                Journal(tmp_path, WALK, START, sync=False)
            assert (tmp_path / "journal").read_bytes() == bytes(damaged), "evidence is left alone"


@pytest.mark.parametrize("start", [b"NDPJRN1\n", b"NDPJRN6\n", b"{}\n", b"something else entirely"])
def test_another_file_in_its_place_is_refused_and_left_alone(start: bytes, tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(start)
    with pytest.raises(CorruptJournalError):
        Journal(tmp_path, WALK, START, sync=False)
    assert (tmp_path / "journal").read_bytes() == start


def test_a_refused_journal_does_not_keep_the_lock(tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(b"something else entirely")
    for _ in range(2):
        with pytest.raises(CorruptJournalError):
            Journal(tmp_path, WALK, START, sync=False)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    first = Journal(tmp_path, WALK, START, sync=False)
    with pytest.raises(LockedError, match="in use by another process"):
        Journal(tmp_path, WALK, START, sync=False)
    first.close()
    read(tmp_path)


def test_the_journal_is_its_owners_only(tmp_path: Path) -> None:
    journal = Journal(tmp_path, WALK, START, sync=False)
    journal.compact(journal.durable)
    journal.close()
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o600


_FULL = """
import resource, signal, sys
from pathlib import Path
from node.errors import DiskFullError
from node.storage.journal import Journal
from node.storage.walk_records import WALK
from tests.unit.node.storage.states import START
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = Path(sys.argv[1])
journal = Journal(folder, WALK, START, sync=False)
journal.append({"visits": 1}, sync=True)
size = (folder / "journal").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, size + 100))
for _ in range(2):
    try:
        journal.append({"visits": 2, "withheld": bytes(5000)}, sync=True)
    except DiskFullError as error:
        print(error)
    assert (folder / "journal").stat().st_size == size
assert not journal.compact(START._replace(withheld=bytes(5000)))
assert not (folder / "journal.new").exists()
journal.append({"visits": 3}, sync=True)
"""


def test_a_full_disk_leaves_the_file_as_it_was_and_the_journal_usable(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("File too large") == 2
    assert read(tmp_path) == START._replace(visits=3)


def test_a_record_has_no_size_limit_of_its_own(tmp_path: Path) -> None:
    """Byte strings are stored, but a log line holds as many numbers as a token."""
    hop = Hop((0, 0), 1)
    big = START._replace(
        custody=Planned(hop, 1, "", NOTHING, 2, hop, b"", b"", b"", True, 1, Entry("sent", {"noise": "0," * 2**21}))
    )
    _, size = write(tmp_path, [START, big])
    assert size > 2**22 and read(tmp_path) == big


@pytest.mark.parametrize("changes", [{"visits": 0}, {"mark_digest": bytes(40)}])
def test_a_whole_record_that_ends_with_zeros_is_found_behind_damage(changes: dict[str, Any], tmp_path: Path) -> None:
    sizes = write(tmp_path, HISTORY[:3])
    whole = (tmp_path / "journal").read_bytes()
    damaged = whole[: sizes[1]] + bytes([whole[sizes[1]] ^ 1]) + whole[sizes[1] + 1 :]
    (tmp_path / "journal").write_bytes(damaged + records.framed(WALK.encode(changes)) + bytes(RESERVE_BYTES))
    with pytest.raises(CorruptJournalError, match=f"damaged at byte {sizes[1]}"):
        Journal(tmp_path, WALK, START, sync=True)


def test_a_torn_record_in_front_of_many_zeros_is_cut_off_at_once(tmp_path: Path) -> None:
    """A look at every place of a file made long ahead would take seconds."""
    sizes = write(tmp_path, HISTORY[:3])
    whole = (tmp_path / "journal").read_bytes()
    (tmp_path / "journal").write_bytes(whole[: sizes[1] + 20] + bytes(2**25))
    assert read(tmp_path) == HISTORY[1]


def test_what_can_be_learnt_again_waits_for_the_next_record_or_a_flush(tmp_path: Path) -> None:
    """An acknowledgement that was seen costs no write of its own, and is never written after what came later."""
    seen = START._replace(given={1: Hop((0, 0), 2)})
    more = seen._replace(given={1: Hop((0, 0), 2), 2: Hop((0, 0), 5)})
    taken = more._replace(high_water=Hop((0, 0), 7), visits=1)
    journal = Journal(tmp_path, WALK, START, sync=False)
    empty = (tmp_path / "journal").stat().st_size
    journal.append(diff(START, seen), sync=False)
    assert (tmp_path / "journal").stat().st_size == empty
    journal.flush()
    journal.append(diff(seen, more), sync=False)
    journal.append(diff(more, taken), sync=True)
    journal.close()
    assert read(tmp_path) == taken


def test_a_journal_made_long_ahead_ends_where_its_records_do(tmp_path: Path) -> None:
    journal = Journal(tmp_path, WALK, START, sync=True)
    journal.append(diff(START, HISTORY[1]), sync=True)
    assert (tmp_path / "journal").stat().st_size > RESERVE_BYTES
    journal.close()
    again = Journal(tmp_path, WALK, START, sync=True)
    assert again.durable == HISTORY[1] and again.repaired_bytes == 0
    again.append(diff(HISTORY[1], HISTORY[2]), sync=True)
    again.close()
    assert read(tmp_path) == HISTORY[2]


def test_a_crash_in_the_very_first_write_leaves_a_journal_to_begin(tmp_path: Path) -> None:
    """The file is made long before its first bytes are written."""
    (tmp_path / "journal").write_bytes(bytes(RESERVE_BYTES))
    journal = Journal(tmp_path, WALK, START, sync=True)
    assert journal.fresh and journal.repaired_bytes == 0
    journal.append(diff(START, HISTORY[1]), sync=True)
    journal.close()
    assert read(tmp_path) == HISTORY[1]


def test_the_last_record_may_miss_any_of_its_pages(tmp_path: Path) -> None:
    """In a file made long ahead, a power cut keeps some pages of the record that was being written and loses others."""
    long = HISTORY[1]._replace(withheld=bytes(range(1, 256)) * 60, visits=2)
    sizes = write(tmp_path, [START, HISTORY[1], long])
    whole = (tmp_path / "journal").read_bytes()
    for lost in range(sizes[1] // 512 * 512, sizes[2], 512):
        start = max(lost, sizes[1])
        torn = whole[:start] + bytes(min(512, sizes[2] - start)) + whole[start + 512 :] + bytes(RESERVE_BYTES)
        (tmp_path / "journal").write_bytes(torn)
        assert read(tmp_path) == HISTORY[1], lost


def test_a_lost_page_with_whole_records_behind_it_is_damage(tmp_path: Path) -> None:
    sizes = write(tmp_path, HISTORY)
    whole = (tmp_path / "journal").read_bytes()
    hole = whole[: sizes[1]] + bytes(sizes[2] - sizes[1]) + whole[sizes[2] :] + bytes(RESERVE_BYTES)
    (tmp_path / "journal").write_bytes(hole)
    with pytest.raises(CorruptJournalError, match=f"damaged at byte {sizes[1]}"):
        Journal(tmp_path, WALK, START, sync=True)


def test_a_lost_page_that_held_the_length_of_the_last_record_is_no_damage(tmp_path: Path) -> None:
    """Its first bytes are zeros, the checksum of its length, on the next page, is there."""
    for length in range(512):
        folder = tmp_path / str(length)
        folder.mkdir()
        first = START._replace(high_water_digest=bytes([7]) * length, visits=1)
        sizes = write(folder, [START, first, first._replace(visits=2, final=True)])
        if sizes[1] % 512 == 512 - 8:
            break
    whole = (folder / "journal").read_bytes()
    (folder / "journal").write_bytes(whole[: sizes[1]] + bytes(8) + whole[sizes[1] + 8 :])
    assert read(folder) == first
