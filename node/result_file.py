"""result.json: what a run ends with, at every user (or only at the last holder, when the plan keeps it there)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from network_dp.expected import expected_error
from network_dp.plan import Plan
from node.fence import fenced
from node.protocol.effects import Finished
from node.protocol.values import Token, decode_token
from node.tasks.base import LocalData, Tally, Task

OWN = "own"  # counts of the user's own data: never handed over


def describe(plan: Plan, task: Task, data: LocalData, finished: Finished, ledger_size: int) -> dict[str, Any]:
    """The result as plain values; without a value where only the end is known. The user's own counts stay its own."""
    about: dict[str, Any] = {
        "run": plan.run_id,
        "plan": plan.hash,
        "name": plan.name,
        "task": plan.task.kind,
        "end": finished.result.end.hex(),  # names this end, under whichever epoch it was published (again)
        "insecure": plan.insecure_seed is not None,
        OWN: {"clipped": data.clipped, "checked": data.checked},
    }
    if not finished.token:
        return {**about, "value": None, "note": "the plan keeps the value with the last holder"}
    token: Token = decode_token(finished.token, dtype=task.dtype, dimension=task.dimension, ledger_size=ledger_size)
    estimate = fenced(task.finish)(token.payload, Tally(token.contributions, token.dummies))
    return {**about, **estimate, "contributions": token.contributions, "expected_std": expected_error(plan)}


def shared(values: Mapping[str, Any]) -> dict[str, Any]:
    """A result as it may be handed to others: what concerns the user's own data alone is left out."""
    return {key: value for key, value in values.items() if key != OWN}


def write(path: Path, values: dict[str, Any]) -> None:
    """Whole or not at all."""
    fresh = path.with_suffix(".new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(values, file, indent=1, allow_nan=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
