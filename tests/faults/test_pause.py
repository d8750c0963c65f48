"""A stopped process is not a dead one: shorter than the lease nothing happens, longer the token is taken up again."""

from __future__ import annotations

import pytest

from tests.faults.conftest import MakeTown
from tests.faults.evidence import check
from tests.faults.harness import CALM

pytestmark = pytest.mark.process

WALKS = {"ring": {"topology": "ring", "rounds": 60}, "complete": {"topology": "complete", "steps": 300}}


@pytest.mark.parametrize("walk", WALKS)
def test_a_pause_shorter_than_the_lease_changes_nothing(make_town: MakeTown, walk: str) -> None:
    town = make_town(5, timing=CALM, **WALKS[walk])
    town.start_all()
    town.wait_step(40)
    town.freeze()
    holder, _ = town.roles()
    town.thaw(*(name for name in town.names if name != holder))
    others = [name for name in town.names if name != holder]
    before = town.furthest()
    town.until("the others tried in vain", lambda: _idle(town, others), 20.0)
    assert town.furthest() <= before + 1  # a hand-over that was on its way may still have arrived
    town.thaw(holder)
    town.wait_all()
    check(town)
    assert not town.reissues()


def _idle(town: object, others: list[str], seen: dict[str, int] = {}) -> bool:  # noqa: B006
    """Nobody logged anything between two looks, a few dozen looks long."""
    sizes = sum((town.state(name) / "view.jsonl").stat().st_size for name in others)  # type: ignore[attr-defined]
    seen["same"] = seen.get("same", 0) + 1 if seen.get("size") == sizes else 0
    seen["size"] = sizes
    return seen["same"] >= 25


@pytest.mark.parametrize("walk", WALKS)
def test_a_pause_longer_than_the_lease_ends_in_one_result(make_town: MakeTown, walk: str) -> None:
    town = make_town(5, **WALKS[walk])
    town.start_all()
    town.wait_step(40)
    town.freeze()
    holder, _ = town.roles()
    town.thaw(*(name for name in town.names if name != holder))
    town.until("the token is taken up again", town.reissues)
    town.thaw(holder)
    town.wait_all()
    check(town)
