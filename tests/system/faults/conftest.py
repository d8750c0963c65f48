"""One run of real processes a test; whatever it left running is ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.harness import Harness, make_plan

MakeTown = Callable[..., Harness]


@pytest.fixture
def make_town(tmp_path: Path) -> Iterator[MakeTown]:
    """``make_town(n, **plan)`` provisions users (see ``harness.make_plan``); ``valid_days`` of their certificates."""
    towns: list[Harness] = []

    def make(n: int, *, valid_days: float = 1.0, **plan: Any) -> Harness:
        folder = tmp_path / f"town-{len(towns)}"
        folder.mkdir()
        towns.append(Harness(folder, make_plan(n, **plan), valid_days))
        return towns[-1]

    yield make
    for town in towns:
        town.close()
