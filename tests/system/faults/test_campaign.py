"""A short campaign, one run per kind of trouble; and whoever judges it can tell a wrong run from a right one."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from network_dp.view import Record
from tests.system.faults.campaign import options, replay, table
from tests.system.faults.campaign_run import Report, plan_of, run_one
from tests.system.faults.campaign_trouble import PROFILES
from tests.system.faults.conftest import MakeTown
from tests.system.faults.custody import Kept, wrong_with
from tests.system.harness import Harness


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_run_under_trouble_ends_and_is_right(profile: str, tmp_path: Path) -> None:
    if why := PROFILES[profile].missing():
        pytest.skip(why)
    report = run_one(profile, 3 + list(PROFILES).index(profile), tmp_path)  # another walk and task each
    assert report.finished and not report.wrong and not report.crashed, report
    assert report.faults, "nothing happened"
    assert report.verdict != "FAIL", report


def test_a_few_seeds_see_every_topology_task_and_durability() -> None:
    seen = [plan_of("kill", seed, Random(seed))[1] for seed in range(16)]
    assert len({(report.topology, report.task, report.durability) for report in seen}) == 16
    assert all(plan_of("power cut", seed, Random(seed))[0].walk.durability == "machine" for seed in range(4))


def test_the_table_counts_what_is_not_good_and_says_how_to_see_it_again() -> None:
    good = Report("kill", 1, "ring", "sum", "process", 5, finished=True, verdict="PASS", faults={"kill": 2})
    bad = Report("mix", 4, "ring", "sum", "process", 5, finished=True, wrong=["2 results"], verdict="FAIL")
    assert good.good and not bad.good
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table([good, bad]).splitlines()]
    by_name = {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[2:]}
    assert (by_name["all"]["runs"], by_name["all"]["wrong"], by_name["mix"]["FAIL"]) == ("2", "1", "1")
    again = options(replay(bad).replace('"', "").split()[3:])
    assert (again.profile, again.seed, again.runs) == (["mix"], 4, 1)


# ---- who judges ----------------------------------------------------------------------------------------------


def _change(town: Harness, name: str, kind: str, **changes: object) -> None:
    """Another line instead of one from the middle of a log."""
    path = town.state(name) / "view.jsonl"
    lines = path.read_text().splitlines()
    places = [i for i, line in enumerate(lines) if json.loads(line)["kind"] == kind]
    place = places[len(places) // 2]
    if changes:
        lines[place] = json.dumps({**json.loads(lines[place]), **changes}, separators=(",", ":"))
    else:
        del lines[place]
    path.write_text("".join(line + "\n" for line in lines))


def _middle(town: Harness, name: str, kind: str) -> Record:
    found = town.of_kind(name, kind)
    return found[len(found) // 2]


def _rejoined(town: Harness, tag: str | None) -> Kept:
    """user-1's disk was lost after it had drawn another noise for its middle visit and sent it on under this tag."""
    path = town.state("user-1") / "view.jsonl"
    whole, sent = path.read_bytes(), _middle(town, "user-1", "sent").fields
    noise = [sent["noise"][0] + 1, *sent["noise"][1:]]
    _change(town, "user-1", "sent", noise=noise, tag=tag or sent["tag"])
    kept = Kept(town)
    kept.look()
    path.write_bytes(whole + b'{"kind":"rejoined","time":1.0}\n')
    return kept


@pytest.mark.process
def test_a_wrong_run_is_called_wrong(make_town: MakeTown) -> None:
    town = make_town(4, topology="ring", rounds=10)
    town.start_all()
    town.wait_all()
    assert wrong_with(town, Kept(town)) == []
    whole = {name: (town.state(name) / "view.jsonl").read_bytes() for name in town.names}

    def restored() -> Harness:
        for name, data in whole.items():
            (town.state(name) / "view.jsonl").write_bytes(data)
        return town

    sent, visit = _middle(town, "user-1", "sent").fields, _middle(town, "user-1", "visit").fields
    _change(restored(), "user-1", "sent", noise=[sent["noise"][0] + 1, *sent["noise"][1:]])
    assert any("the sum is wrong" in text for text in wrong_with(town, Kept(town)))
    _change(restored(), "user-1", "sent")
    assert any("nobody sent" in text for text in wrong_with(town, Kept(town)))
    _change(restored(), "user-1", "visit")
    assert any("of no visit" in text for text in wrong_with(town, Kept(town)))
    kept = Kept(restored())
    kept.look()
    _change(town, "user-1", "visit", received=[visit["received"][0] + 1, *visit["received"][1:]])
    assert any("held 2 times" in text for text in wrong_with(town, kept))
    kept = Kept(restored())
    kept.look()
    _change(town, "user-1", "sent", noise=[sent["noise"][0] + 1, *sent["noise"][1:]])
    assert any("noise drawn again" in text for text in wrong_with(town, kept))
    assert any("noise drawn again" in text for text in wrong_with(town, _rejoined(restored(), tag=None)))
    assert wrong_with(town, _rejoined(restored(), tag="0" * 64)) == [], "the first token of that visit reached nobody"
    (restored().state("user-2") / "result.json").write_text('{"value": 0}')
    assert wrong_with(town, Kept(town)) == ["2 results"]


@pytest.mark.process
def test_lines_that_were_lost_with_a_disk_are_evidence_all_the_same(make_town: MakeTown) -> None:
    town = make_town(4, topology="ring", rounds=10)
    town.start_all()
    town.wait_all()
    kept = Kept(town)
    kept.look("user-1")
    (town.state("user-1") / "view.jsonl").unlink()
    assert wrong_with(town, kept) == []
    assert wrong_with(town, Kept(town)) != []
