"""Plans for the tests of tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

from network_dp.plan import Plan
from network_dp.plan_reader import from_dict

MakePlan = Callable[..., Plan]
settings.register_profile("busy-machine", deadline=None)
settings.load_profile("busy-machine")


@pytest.fixture
def make_plan() -> MakePlan:
    def make(
        task: dict[str, Any],
        noise: dict[str, Any],
        *,
        n: int = 5,
        topology: str = "complete",
        length: int = 100,
        release: str = "all",
    ) -> Plan:
        steps = {"rounds": length} if topology == "ring" else {"steps": length}
        return from_dict(
            {
                "walk": {"topology": topology, "release": release, **steps},
                "task": task,
                "noise": noise,
                "users": [{"name": f"u{i}", "address": f"localhost:{20000 + i}"} for i in range(n)],
            }
        )

    return make
