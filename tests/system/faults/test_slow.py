"""Slow is not dead: a user that computes for longer than the lease keeps it alive by answering."""

from __future__ import annotations

import pytest

from node.protocols import exits
from tests.system.faults.conftest import MakeTown
from tests.system.faults.evidence import check
from tests.system.harness import slow_task

pytestmark = pytest.mark.process


def test_computing_for_longer_than_the_lease_is_no_loss(make_town: MakeTown) -> None:
    town = make_town(
        4, task=slow_task(2.0), timing={"lease_s": 0.5, "locate_timeout_s": 5.0}, topology="complete", steps=3
    )
    town.start_all()
    town.wait_all()
    check(town)
    assert not town.reissues()


def test_a_crash_while_computing_starts_the_computation_anew(make_town: MakeTown) -> None:
    town = make_town(4, task=slow_task(0.2), timing={"lease_s": 10.0}, topology="ring", rounds=3)
    town.start_all(crash={"user-2": "Compute:2"})
    assert town.wait_code("user-2") == -9 != exits.DONE
    town.start("user-2")
    town.wait_all()
    check(town)
