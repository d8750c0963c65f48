"""Users and disks that are gone for good: a vote, never a guess, and never a second result."""

from __future__ import annotations

import shutil

import pytest

from node.protocols import exits
from tests.system.faults.conftest import MakeTown
from tests.system.faults.evidence import check
from tests.system.harness import slow_task

pytestmark = pytest.mark.process

WALKS = {"ring": {"topology": "ring", "rounds": 60}, "complete": {"topology": "complete", "steps": 300}}
LINGER = {"linger_s": 60.0}


@pytest.mark.parametrize("walk", WALKS)
def test_a_lost_holder_is_replaced_by_a_vote_and_its_late_return_changes_nothing(
    make_town: MakeTown, walk: str
) -> None:
    town = make_town(5, timing=LINGER, **WALKS[walk])
    lost = "user-2"
    town.start_all(crash={lost: "Handoff:8"})  # the token is surely there: its bytes were just about to leave
    assert town.wait_code(lost) == -9
    others = [name for name in town.names if name != lost]
    town.until("the others have a result", lambda: all((town.state(n) / "result.json").exists() for n in others))
    before = {name: (town.state(name) / "result.json").read_bytes() for name in others}
    assert town.reissues()
    town.start(lost)
    town.until("the late one has the result", lambda: (town.state(lost) / "result.json").exists())
    check(town)
    assert before == {name: (town.state(name) / "result.json").read_bytes() for name in others}
    abandoned = [r for name in town.names for r in town.of_kind(name, "abandoned")]
    assert abandoned, "the given-up branch is in nobody's log"


def test_a_removed_state_directory_is_refused_and_rejoins_as_receiver_only(make_town: MakeTown) -> None:
    town = make_town(5, **WALKS["ring"])
    town.start_all()
    town.wait_step(40)
    town.kill("user-2")
    shutil.rmtree(town.state("user-2"))
    town.start("user-2")
    assert town.wait_code("user-2") == exits.OLD_DISK
    assert "--rejoin" in town.log("user-2")
    town.start("user-2", rejoin=True)
    town.wait_all()
    results = {(town.state(name) / "result.json").read_text() for name in town.names}
    assert len(results) == 1


def test_a_damaged_journal_is_refused_and_rejoins_as_receiver_only(make_town: MakeTown) -> None:
    town = make_town(5, **WALKS["ring"])
    town.start_all()
    town.wait_step(40)
    town.kill("user-2")
    journal = town.state("user-2") / "journal"
    damaged = bytearray(journal.read_bytes())
    damaged[20] ^= 1
    journal.write_bytes(damaged)
    town.start("user-2")
    assert town.wait_code("user-2") == exits.CORRUPT
    assert "--rejoin" in town.log("user-2")
    town.start("user-2", rejoin=True)
    town.wait_all()
    assert len({(town.state(name) / "result.json").read_text() for name in town.names}) == 1
    assert journal.with_name("journal.damaged").read_bytes() == bytes(damaged), "evidence is kept"


@pytest.mark.parametrize("kept", ["an empty one", "an old one"])
def test_a_disk_that_forgot_is_refused_because_peers_remember(make_town: MakeTown, kept: str) -> None:
    town = make_town(5, timing={"lease_s": 60.0}, **WALKS["ring"])
    town.start_all()
    town.wait_step(20)
    town.kill("user-2")
    old = town.folder / "old"
    shutil.copytree(town.state("user-2"), old)
    town.start("user-2")
    town.wait_step(100)
    town.freeze()
    town.kill("user-2")
    shutil.rmtree(town.state("user-2"))
    shutil.copytree(old, town.state("user-2"))
    if kept == "an empty one":
        (town.state("user-2") / "journal").unlink()
    town.start("user-2")
    town.thaw()
    assert town.wait_code("user-2") == exits.OLD_DISK
    assert "remembers more" in town.log("user-2")


def test_a_silent_starter_is_replaced_by_a_vote(make_town: MakeTown) -> None:
    town = make_town(5, timing={"start_timeout_s": 1.5}, topology="ring", rounds=30)
    town.start(*town.names[1:])
    town.wait_step(20)
    town.start("user-0")
    town.wait_all()
    branch = check(town)
    assert branch[0].user != "user-0" and branch[0].visit.epoch > (0, 0)


def test_fewer_than_three_on_a_ring_stop_with_the_token_and_go_on_later(make_town: MakeTown) -> None:
    town = make_town(5, task=slow_task(0.5), timing={"stall_timeout_s": 1.0, "lease_s": 3.0}, topology="ring", rounds=3)
    town.start_all()
    town.wait_step(4)
    town.freeze()
    holders = town.holders()
    following = {town.names[(town.names.index(name) + 1) % 5] for name in holders}
    survivors = holders | following if len(holders) == 1 else holders  # the token surely stays among two
    town.kill(*(name for name in town.names if name not in survivors))
    town.thaw()
    keeps = "2 users alive, 3 needed; keeping the token"
    town.until(
        "the holder stops",
        lambda: any(town.codes.get(name) == exits.STALLED and keeps in town.log(name) for name in survivors),
    )
    town.start(*(name for name in town.names if name in town.codes))
    town.wait_all()
    check(town)
