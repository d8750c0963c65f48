"""Settings of the whole suite: no deadline for a property's example, since the machine may be busy; and nothing is
written into anybody's home: what commands keep between runs goes to a folder of the suite's own. Its processes share
the laws of exposures, which only the code of the accountant decides.

One test at a time has a core: threads of linear algebra would only get in the way of the other workers. Files whose
tests take longest begin first, so that no worker is left alone with one of them at the end."""

from __future__ import annotations

import os
import tempfile

import pytest
from hypothesis import settings

settings.register_profile("busy-machine", deadline=None)
settings.load_profile("busy-machine")

LONGEST_FIRST = ("hosts", "containers", "slow", "process")
KEPT = tempfile.TemporaryDirectory(prefix="network-dp-tests-")  # processes that tests start inherit it
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["NETWORK_DP_CACHE"] = f"{KEPT.name}/laws"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["XDG_STATE_HOME"] = f"{KEPT.name}/state"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    marks = {mark.name for mark in item.iter_markers()}
    return next((turn for turn, name in enumerate(LONGEST_FIRST) if name in marks), len(LONGEST_FIRST))
