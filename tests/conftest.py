"""Settings of the whole suite: no deadline for a property's example, since the machine may be busy; and nothing is
written into anybody's home: what commands keep between runs goes to a folder of the suite's own. Its processes share
the laws of exposures, which only the code of the accountant decides.

A test has one thread for linear algebra: more would only get in the way of the other workers. The command line is built
once, not whenever a test calls it."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from typing import Any

import pytest
import typer.testing
from hypothesis import settings

from tests import spread

settings.register_profile("busy-machine", deadline=None)
settings.load_profile("busy-machine")
typer.testing._get_command = cache(typer.testing._get_command)

KEPT = tempfile.TemporaryDirectory(prefix="network-dp-tests-")  # processes that tests start inherit it
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["NETWORK_DP_CACHE"] = f"{KEPT.name}/laws"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["XDG_STATE_HOME"] = f"{KEPT.name}/state"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=spread.turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return spread.Together(config, log) if config.getoption("dist") == "loadscope" else None
