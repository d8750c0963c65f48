"""A budget on the disk of one container's user: a plan that would overspend it is refused there, before any token."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_free_launcher.engines.compose import compose_file
from network_dp import ledger

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_container_whose_user_would_overspend_ends_before_any_token(
    make_project: Any, make_plan: Any, until: Any
) -> None:
    project = make_project(make_plan(3))
    data = project.folder / "data"
    data.mkdir()
    for i, name in enumerate(project.plan.names):
        (data / f"{name}.csv").write_text(f"{i / 4}\n")
    (project.folder / "compose.yaml").write_text(compose_file(project.plan, data="./data"))

    spent = ("--epsilon", "0.1", "--ledger", f"/ledger/user-1/{ledger.FILE}")
    project.compose("run", "--rm", "--no-deps", "-T", "--entrypoint", "network-dp", "user-1", "budget", "set", *spent)
    project.up()
    refused = "from epsilon 0 to "
    until("user-1 refuses", lambda: refused in project.compose("logs", "user-1"), 120.0)
    assert "beyond its budget of 0.1" in project.compose("logs", "user-1")
    until("user-1 ended for good", lambda: project.states()["user-1"] == ("exited", 2), 120.0)
    assert project.progress() == 0
