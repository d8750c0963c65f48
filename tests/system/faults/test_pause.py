"""A stopped process is not a dead one: shorter than the lease nothing happens, longer the token is taken up again."""

from __future__ import annotations

import pytest

from tests.system.faults.conftest import MakeTown
from tests.system.faults.evidence import check
from tests.system.harness import CALM

pytestmark = pytest.mark.process

WALKS = {"ring": {"topology": "ring", "rounds": 60}, "complete": {"topology": "complete", "steps": 300}}


@pytest.mark.parametrize("walk", WALKS)
def test_a_pause_shorter_than_the_lease_changes_nothing(make_town: MakeTown, walk: str) -> None:
    town = make_town(5, timing=CALM, **WALKS[walk])
    town.start_all()
    town.wait_step(40)
    town.freeze()
    holders = town.holders()
    town.thaw(*(name for name in town.names if name not in holders))
    town.pass_time(1.0)
    town.thaw()
    town.wait_all()
    check(town)
    assert not town.reissues()


@pytest.mark.parametrize("walk", WALKS)
def test_a_pause_longer_than_the_lease_ends_in_one_result(make_town: MakeTown, walk: str) -> None:
    town = make_town(5, **WALKS[walk])
    town.start_all()
    town.wait_step(40)
    town.freeze()
    holders = town.holders()
    town.thaw(*(name for name in town.names if name not in holders))
    town.until("the token is taken up again", town.reissues)
    town.thaw()
    town.wait_all()
    check(town)
