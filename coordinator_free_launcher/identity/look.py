"""A look at the users' data before anything starts: what cannot be used is refused, what will be clipped is said.

For whoever holds the files. A task of one's own is not looked at here: its code runs in the users' processes alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from coordinator_free_launcher.identity.bundle import ProvisionError
from network_dp.plan import Plan
from node.tasks import DataError, TaskError, load_table, make_task
from node.tasks.rows import remark

_NAMED: Final = 5  # users named in one sentence


def look(plan: Plan, files: Mapping[str, Path], *, allow_clipping: bool = False) -> list[str]:
    """What to tell about the data of a calibrated plan; an error names the file, row and column as they were given."""
    task = None if plan.task.own_code else make_task(plan)
    known: dict[Path, tuple[int, int, int]] = {}  # clipped, checked, rows that take turns: many users may share a file
    for path in files.values():
        if path not in known:
            try:
                table = load_table(path, plan.task.reading)
                data = None if task is None else task.prepare(table)
            except (DataError, TaskError) as error:
                raise ProvisionError(str(error)) from None
            known[path] = (0, 1, 1) if data is None else (data.clipped, data.checked, len(data.rows))
    found = {name: known[path] for name, path in files.items()}
    return [*_clipping(plan, found, allow_clipping), *_rows(plan, found)]


def _clipping(plan: Plan, found: Mapping[str, tuple[int, int, int]], allowed: bool) -> list[str]:
    """Every user counts alike: refused when more than half of an average user's values would be clipped."""
    users = {name: f"{name}: {clipped} of {checked}" for name, (clipped, checked, _) in found.items() if clipped}
    if not users:
        return []
    clipped, checked = (sum(counts[i] for counts in found.values()) for i in (0, 1))
    where, who = plan.task.bounds_in_words, _named(list(users.values()))
    text = f"{clipped} of {checked} values lie outside the public bounds {where} and are clipped to them ({who})"
    if not allowed and sum(counts[0] / counts[1] for counts in found.values()) > len(found) / 2:
        raise ProvisionError(f"{text}: change the bounds in the plan, or give --allow-clipping if this is meant")
    return [text]


def _rows(plan: Plan, found: Mapping[str, tuple[int, int, int]]) -> list[str]:
    said = {name: remark(plan, counts[2]) for name, counts in found.items()}
    users = [name for name, text in said.items() if text is not None]
    return [f"{_named(users)}: {said[users[0]]}"] if users else []


def _named(texts: list[str]) -> str:
    return ", ".join(texts[:_NAMED]) + (f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else "")
