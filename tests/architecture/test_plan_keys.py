"""Every key of a plan is read by something: a key that nobody reads would be a promise that nobody keeps."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import pytest

from network_dp import plan
from network_dp.mechanism import MECHANISMS

ROOT = Path(__file__).parents[2]
PACKAGES = ("network_dp", "node", "analyzer", "coordinator_free_launcher", "simulator")
SCHEMA = {ROOT / "network_dp" / "plan.py", ROOT / "network_dp" / "plan_reader.py"}
OF_THE_OWN_TASK = {"options"}  # of a custom task: handed to its factory, with the plan
OF_A_MECHANISM = {kind.size_key for kind in MECHANISMS.values()}  # each reads its own, as ``Noise.size``
TABLES = (plan.Walk, plan.Noise, plan.Caps, plan.Timing, plan.User)
TABLES += (plan.SumTask, plan.HistogramTask, plan.SgdTask, plan.ModelTask, plan.CustomTask)


@pytest.fixture(scope="module")
def read() -> set[str]:
    """All attributes that code outside the schema reads."""
    files = {path for package in PACKAGES for path in (ROOT / package).rglob("*.py")} - SCHEMA
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text())))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_key_of_a_plan_is_read(table: type, read: set[str]) -> None:
    unread = {field.name for field in fields(table)} - read - OF_THE_OWN_TASK - OF_A_MECHANISM
    assert not unread, f"{table.__name__}: nobody reads {', '.join(sorted(unread))}"
