"""A plan of n users and its bundles, as other tests need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from network_dp.plan import Plan
from network_dp.plan_reader import from_dict

MakePlan = Callable[..., Plan]


@pytest.fixture(scope="session")
def make_plan() -> MakePlan:
    def make(n: int = 3, host: str = "127.0.0.1", **parts: Any) -> Plan:
        values: dict[str, Any] = {
            "walk": {"topology": "ring", "rounds": 2},
            "task": {"kind": "mean"},
            "noise": {"sigma": 1.0},
            "users": [{"name": f"user-{i}", "address": f"{host}:{20000 + i}"} for i in range(n)],
        }
        return from_dict(values | parts)

    return make
