"""Records are copied by the dozen in a hop: a copy changes what it says and nothing else."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from node.protocols.walk.state import Durable, State


def test_a_copy_leaves_the_original_alone() -> None:
    state = State(durable=Durable(visits=1))
    copy = state._replace(attempt=7, durable=state.durable._replace(visits=2))
    assert (state.attempt, state.durable.visits) == (0, 1)
    assert (copy.attempt, copy.durable.visits, copy.tries) == (7, 2, 0)
    assert copy != state and copy._replace(attempt=0, durable=state.durable) == state


def test_a_field_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AssertionError, match="attemps"):
        State(durable=Durable())._replace(attemps=1)


def test_a_record_cannot_be_changed_in_place() -> None:
    with pytest.raises(FrozenInstanceError):
        Durable().visits = 3  # type: ignore[misc]
