"""Colluders look at somebody else: a user is in no set that is the worst for itself."""

from __future__ import annotations

import pytest

from network_dp.exposure import worst_colluders

WALK = [0, 1, 2, 3, 1, 0, 2, 1, 3, 2]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("silent", range(4))
def test_not_even_a_user_that_nobody_saw_anything_of_is_in_its_own_set(size: int, silent: int) -> None:
    contributing = [user != silent for user in WALK]
    found = worst_colluders(WALK, 4, "sum", size, contributing=contributing)
    assert found.exposure[silent] == 0.0
    assert all(user not in members for user, members in enumerate(found.members))
