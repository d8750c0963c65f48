"""Tokens that travel in chunks, and whose visits are reckoned while they arrive: killed at any moment, none is lost."""

from __future__ import annotations

import pytest

from tests.faults.conftest import MakeTown
from tests.faults.evidence import check
from tests.faults.harness import CALM, Town

pytestmark = [pytest.mark.process, pytest.mark.slow]

NUMBERS = 600_000  # enough for a visit to be reckoned ahead
RING = {"topology": "ring", "rounds": 2}


def _town(make_town: MakeTown, durability: str) -> Town:
    task = {"kind": "sum", "dimension": NUMBERS, "lower": 0.0, "upper": 1.0}
    return make_town(3, timing=CALM, task=task, durability=durability, **RING)


@pytest.mark.parametrize("durability", ["process", "machine"])
def test_every_number_of_a_long_token_is_accounted_for(make_town: MakeTown, durability: str) -> None:
    town = _town(make_town, durability)
    town.start_all()
    town.wait_all()
    assert len(check(town)) == town.plan.total_steps
    assert all((town.state(name) / "journal.0").exists() for name in town.names)


@pytest.mark.parametrize("effect", ["Persist:3", "Handoff:2"])
def test_a_user_killed_around_a_long_token_goes_on_with_the_same_bytes(make_town: MakeTown, effect: str) -> None:
    town = _town(make_town, "process")
    victim = town.names[1]
    town.start_all(crash={victim: effect})
    assert town.wait_code(victim) != 0
    town.start(victim)
    town.wait_all()
    check(town)
