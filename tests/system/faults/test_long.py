"""Tokens that travel in chunks: killed at any moment, none is lost."""

from __future__ import annotations

from typing import Any

import pytest

from network_dp.view import Record
from tests.system.faults.conftest import MakeTown
from tests.system.faults.evidence import analyzed, check, same_result
from tests.system.harness import CALM, Harness

pytestmark = [pytest.mark.process, pytest.mark.slow]

CHUNKED = 140_000  # numbers: more than one message holds
LONG = 600_000  # numbers: noise is drawn by a thread, the sum is made on two cores
RING = {"topology": "ring", "rounds": 2}


def _town(make_town: MakeTown, numbers: int, durability: str = "process", **walk: Any) -> Harness:
    task = {"kind": "sum", "dimension": numbers, "lower": 0.0, "upper": 1.0}
    return make_town(3, timing=CALM, task=task, durability=durability, **{**RING, **walk})


@pytest.mark.parametrize("durability", ["process", "machine"])
def test_every_number_of_a_long_token_is_accounted_for(make_town: MakeTown, durability: str) -> None:
    town = _town(make_town, CHUNKED, durability)
    town.start_all()
    town.wait_all()
    assert len(check(town)) == town.plan.total_steps
    assert all((town.state(name) / "journal.0").exists() for name in town.names)


def _killed_and_back(town: Harness, effect: str) -> None:
    victim = town.names[1]
    town.start_all(crash={victim: effect})
    assert town.wait_code(victim) != 0
    town.start(victim)
    town.wait_all()


@pytest.mark.parametrize("effect", ["Persist:3", "Handoff:2"])
def test_a_user_killed_around_a_long_token_goes_on_with_the_same_bytes(make_town: MakeTown, effect: str) -> None:
    town = _town(make_town, CHUNKED)
    _killed_and_back(town, effect)
    check(town)


@pytest.mark.parametrize(("effect", "durability"), [("Persist:3", "process"), ("Handoff:2", "machine")])
def test_so_does_one_around_a_token_too_long_to_be_logged(make_town: MakeTown, effect: str, durability: str) -> None:
    """Bytes that are as long as this are not logged; their tags are, at both ends of every hop."""
    town = _town(make_town, LONG, durability, log_values=False)
    _killed_and_back(town, effect)
    same_result(town, everybody=True)
    analyzed(town)
    sent, taken = (
        [tag for name in town.names for tag in _tags(town.of_kind(name, kind))] for kind in ("sent", "visit")
    )
    assert sorted(sent) == sorted(taken) and len(set(sent)) == town.plan.total_steps - 1


def _tags(records: list[Record]) -> list[str]:
    return [record.fields["tag"] for record in records if record.fields["tag"]]
