"""Plans for simulated runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from network_dp.plan import Plan
from network_dp.plan_reader import from_dict

MakePlan = Callable[..., Plan]


@pytest.fixture
def make_plan() -> MakePlan:
    def make(task: dict[str, Any], noise: dict[str, Any], *, n: int, topology: str, length: int, **more: Any) -> Plan:
        steps = {"rounds": length} if topology == "ring" else {"steps": length}
        return from_dict(
            {
                "walk": {"topology": topology, **steps},
                "task": task,
                "noise": noise,
                "users": [{"name": f"u{i}", "address": f"localhost:{20000 + i}"} for i in range(n)],
                **more,
            }
        )

    return make
