"""Journal and view log in step, on a disk that forgets at a power cut what nobody synced."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from network_dp import view
from node.protocols.effects import Persist
from node.protocols.walk.state import Durable, Entry, Planned, State, diff
from node.protocols.walk.values import Hop
from node.storage import in_step
from node.storage.journal import Journal
from node.storage.view_log import ViewLog
from node.storage.walk_records import WALK
from tests.unit.node.storage.lossy_disk import cut_power, forgets_all, install
from tests.unit.node.storage.states import START

HEADER = view.encode("header", schema=view.SCHEMA, run="r", plan="p", user="u", values=True, insecure=False)
NOON = 1_000_000.0


def visit_entry(number: int, time: float = 1.0) -> Entry:
    fields = {"epoch": [0, 0], "step": number, "visit": number, "cause": "handoff", "from": "v"}
    return Entry("visit", {**fields, "received": [number], "time": time})


def sent_entry(number: int, to: str = "v") -> Entry:
    fields = {"epoch": [0, 0], "visit": number, "real": True, "units": 1, "noise": [7], "sent": [9], "time": 1.0}
    return Entry("sent", {"step": number + 1, "to": to, "tag": "ab" * 32, **fields})


def visit_line(number: int, time: float = 1.0) -> str:
    return visit_entry(number, time).line


def sent_line(number: int, to: str = "v") -> str:
    return sent_entry(number, to).line


def visited(number: int, to: str = "v") -> Durable:
    hop = Hop((0, 0), number)
    visit = hop, number, "handoff", visit_entry(number)
    custody = Planned(*visit, 1, hop, b"token", b"d", b"k" * 32, True, 1, sent_entry(number, to))
    return START._replace(custody=custody, high_water=hop, visits=number)


class User:
    """The files of one user, and what it does with them in a hop."""

    def __init__(self, folder: Path, *, rejoin: bool = False, noon: float = NOON) -> None:
        folder.mkdir(exist_ok=True)
        self.journal = Journal(folder, WALK, START, sync=True, rejoin=rejoin)
        self.log = ViewLog(folder / "view.jsonl", HEADER)
        in_step.begin(self.journal, self.log, rejoin=rejoin, wall_time=noon)
        self.state = State(durable=self.journal.durable)

    def persist(self, durable: Durable, *, handed: bool = True) -> None:
        after = self.state._replace(durable=durable, handed=handed)
        in_step.write(self.journal, self.log, Persist(diff(self.state.durable, durable), True), self.state, after)
        self.state = after

    def hop(self, number: int) -> None:
        self.persist(visited(number)._replace(rejoined=self.state.durable.rejoined))
        self.log.append(visit_line(number))
        self.log.append(sent_line(number))

    def die(self) -> None:
        """Without a chance to write anything."""
        self.log._pending = b""
        self.journal.close()


def lines(folder: Path) -> list[str]:
    return (folder / "view.jsonl").read_text().splitlines()


def walk(first: int, last: int) -> list[str]:
    return [line for number in range(first, last + 1) for line in (visit_line(number), sent_line(number))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(monkeypatch.setattr)
    return tmp_path / "state"


def test_a_power_cut_that_loses_the_whole_log_loses_no_line(folder: Path) -> None:
    user = User(folder)
    for number in range(1, 30):
        user.hop(number)
    user.die()
    cut_power(folder, forgets_all)
    User(folder).die()
    assert lines(folder) == [HEADER, *walk(1, 29)]


def test_lines_that_are_there_are_not_written_again_and_their_order_stays(folder: Path) -> None:
    user = User(folder)
    for number in (1, 2, 3):
        user.hop(number)
    user.log.flush()
    user.die()
    for _ in range(2):
        User(folder).die()
        assert lines(folder) == [HEADER, *walk(1, 3)]


@pytest.mark.parametrize("power", [False, True])
def test_a_compaction_forgets_no_line_that_the_log_has_not(
    folder: Path, power: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of visit 2 are in memory only when the journal, which has them, is about to be replaced."""
    user = User(folder)
    user.hop(1)
    user.hop(2)
    monkeypatch.setattr(Journal, "due", True)
    user.persist(visited(3))
    user.die()
    if power:
        cut_power(folder, forgets_all)
    User(folder).die()
    assert lines(folder) == [HEADER, *walk(1, 3)]


def test_the_line_of_refused_bytes_is_safe_before_another_takes_its_place(folder: Path) -> None:
    user = User(folder)
    user.hop(1)
    user.persist(visited(1, "w"))
    user.die()
    cut_power(folder, forgets_all)
    User(folder).die()
    assert lines(folder) == [HEADER, *walk(1, 1), sent_line(1, "w")]


def test_a_line_that_never_left_is_not_written_when_another_took_its_place(folder: Path) -> None:
    user = User(folder)
    user.persist(visited(1, "x"), handed=False)
    user.persist(visited(1, "v"), handed=False)
    user.die()
    User(folder).die()
    assert lines(folder) == [HEADER, *walk(1, 1)]


def test_what_an_old_journal_will_send_is_in_the_log_though_that_is_ahead(folder: Path, tmp_path: Path) -> None:
    """Its bytes may leave now: they had not, when the journal was copied, and later ones took their place."""
    user = User(folder)
    user.hop(1)
    user.persist(visited(2, "x"), handed=False)
    user.log.append(visit_line(2))
    shutil.copy(folder / "journal", tmp_path / "old")
    user.persist(visited(2, "v"), handed=False)
    user.log.append(sent_line(2, "v"))
    user.hop(3)
    user.log.flush()
    user.die()
    shutil.copy(tmp_path / "old", folder / "journal")
    User(folder).die()
    found = lines(folder)
    assert found.index(sent_line(2, "x")) > found.index(sent_line(3))
    assert all(found.count(line) == 1 for line in found)


def kinds(folder: Path) -> list[tuple[str, int | None]]:
    return [(line["kind"], line.get("visit")) for line in map(json.loads, lines(folder))]


@pytest.mark.parametrize("damage", ["flipped byte", "old journal", "lost journal"])
def test_a_user_that_comes_back_says_so_and_numbers_its_visits_above_its_log(folder: Path, damage: str) -> None:
    user = User(folder)
    user.hop(1)
    old = (folder / "journal").read_bytes()
    for number in (2, 3, 4):
        user.hop(number)
    user.log.flush()
    user.die()
    whole = (folder / "journal").read_bytes()
    new = {"flipped byte": whole[:30] + bytes([whole[30] ^ 1]) + whole[31:], "old journal": old, "lost journal": b""}
    (folder / "journal").write_bytes(new[damage])
    user = User(folder, rejoin=True)
    durable = user.journal.durable
    assert durable.rejoined and durable.custody is None and durable.visits >= 4
    user.hop(durable.visits + 1)
    user.log.flush()
    user.die()
    assert kinds(folder)[-1] == ("sent", durable.visits + 1)
    assert User(folder).journal.durable.rejoined
    walked = [("header", None), *((kind, n) for n in range(1, 5) for kind in ("visit", "sent"))]
    number = durable.visits + 1
    assert kinds(folder) == [*walked, ("rejoined", None), ("visit", number), ("sent", number), ("rejoined", None)]


def test_killed_between_a_damaged_journal_and_the_log_it_still_says_so(folder: Path) -> None:
    user = User(folder)
    user.hop(1)
    user.hop(2)
    user.log.flush()
    user.die()
    whole = (folder / "journal").read_bytes()
    (folder / "journal").write_bytes(whole[:30] + bytes([whole[30] ^ 1]) + whole[31:])
    Journal(folder, WALK, START, sync=True, rejoin=True).close()
    user = User(folder)  # without --rejoin: the journal knows
    assert kinds(folder)[-1] == ("rejoined", None) and user.journal.durable.visits > 2


@pytest.mark.parametrize("rejoin", [False, True])
def test_a_user_that_came_back_says_so_at_every_start(folder: Path, rejoin: bool) -> None:
    """Its disk may be an old one again, and nobody would notice."""
    first = User(folder, rejoin=True)
    visits = first.journal.durable.visits
    first.die()
    user = User(folder, rejoin=rejoin, noon=NOON + 1)
    assert kinds(folder) == [("header", None), ("rejoined", None), ("rejoined", None)]
    assert user.journal.durable.visits == visits
    user.die()


def test_numbers_do_not_repeat_when_the_whole_folder_is_lost_again_and_again(folder: Path) -> None:
    User(folder).hop(1)
    used = {1}
    for noon in (NOON, NOON + 0.1):
        shutil.rmtree(folder)
        user = User(folder, rejoin=True, noon=noon)
        first = user.journal.durable.visits + 1
        numbers = set(range(first, first + 1000))
        assert not numbers & used
        used |= numbers


def test_a_log_that_is_ahead_of_its_journal_keeps_its_numbers(folder: Path) -> None:
    user = User(folder)
    user.hop(1)
    old = (folder / "journal").read_bytes()
    user.hop(2)
    user.log.flush()
    user.die()
    (folder / "journal").write_bytes(old)
    assert User(folder).journal.durable.visits == 2
    assert kinds(folder)[-2:] == [("sent", 2), ("rejoined", None)], "its journal is an old one"
