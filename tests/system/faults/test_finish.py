"""The end survives: whoever crashes around publishing, there is one result, the same everywhere."""

from __future__ import annotations

import pytest

from tests.system.faults.conftest import MakeTown
from tests.system.faults.evidence import check

pytestmark = pytest.mark.process

RING = {"topology": "ring", "rounds": 4}
LAST = "user-4"  # at the last of 5 * 4 positions
#: Nothing left yet; two users have it; a majority has it and one user was told that it is final.
MOMENTS = {"before": "Publish", "during": "Publish:3", "after": "Finished"}


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_last_holder_crashes_while_publishing_and_comes_back(make_town: MakeTown, moment: str) -> None:
    town = make_town(5, **RING)
    town.start_all(crash={LAST: MOMENTS[moment]})
    assert town.wait_code(LAST) == -9
    town.start(LAST)
    town.wait_all()
    check(town)


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_last_holder_is_lost_while_publishing_and_returns_late(make_town: MakeTown, moment: str) -> None:
    """The others end without it; back again it gets their result, and never makes a second one."""
    town = make_town(5, timing={"linger_s": 60.0}, **RING)
    town.start_all(crash={LAST: MOMENTS[moment]})
    assert town.wait_code(LAST) == -9
    others = town.names[:-1]
    town.until("the others have a result", lambda: all((town.state(n) / "result.json").exists() for n in others))
    town.start(LAST)
    town.until("the late one has it too", lambda: (town.state(LAST) / "result.json").exists())
    check(town)


def test_users_that_were_away_fetch_the_result_when_back(make_town: MakeTown) -> None:
    town = make_town(5, **RING)
    town.start_all(crash={"user-2": "Reply:3"})
    assert town.wait_code("user-2") == -9
    town.wait_all(*(name for name in town.names if name != "user-2"))
    # Everybody else has left; a relaunch serves late-comers.
    town.start(*town.names)
    town.wait_all()
    check(town)


def test_the_value_stays_with_the_last_holder_also_after_a_crash(make_town: MakeTown) -> None:
    town = make_town(5, release="holder", **RING)
    town.start_all(crash={LAST: "Publish:3"})
    assert town.wait_code(LAST) == -9
    town.start(LAST)
    town.wait_all()
    values = {name: [r.fields["value"] for r in town.of_kind(name, "result")] for name in town.names}
    assert len(values.pop(LAST)) == 1 and all(found == [None] for found in values.values())
    assert town.of_kind(LAST, "result")[0].fields["value"] == town.of_kind(LAST, "finish")[0].fields["sent"]
