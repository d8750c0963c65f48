"""Which tests stay together on one worker, and which begin first.

Containers share one engine and hosts one kernel: one worker each, the others get on with the rest meanwhile. Tests of a
file that share a fixture stay together, all others go wherever somebody is free: no worker is left with a long file.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parents[1]
MACHINES = ("tests/system/hosts", "tests/system/containers")


class Together(LoadScopeScheduling):
    """Tests in units that are given out whole, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        machines = [folder for folder in MACHINES if file.startswith(folder)]
        return machines[0] if machines else file if _shares(file) else nodeid


@cache
def _shares(file: str) -> bool:
    return 'scope="module"' in (ROOT / file).read_text()


def turn(item: pytest.Item) -> int:
    """Machines first, then what cannot be given out in parts; the short ones fill the gaps at the end."""
    marks = {mark.name for mark in item.iter_markers()}
    if marks & {"hosts", "containers"}:
        return 0
    if not marks & {"slow", "process"}:
        return 4
    if _shares(item.nodeid.split("::")[0]):
        return 1
    return 2 if "slow" in marks else 3
