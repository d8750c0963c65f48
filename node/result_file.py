"""result.json: what a run ends with, at every user (or only at the last holder, when the plan keeps it there)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from network_dp.expected import expected_error
from network_dp.plan import Plan
from node.protocol.effects import Finished
from node.protocol.values import Token, decode_token
from node.tasks.base import Tally, Task


def describe(plan: Plan, task: Task, finished: Finished, ledger_size: int) -> dict[str, Any]:
    """The result as plain values; without a value where only the end is known."""
    about: dict[str, Any] = {
        "run": plan.run_id,
        "plan": plan.hash,
        "name": plan.name,
        "task": plan.task.kind,
        "end": finished.result.end.hex(),  # names this end, under whichever epoch it was published (again)
        "insecure": plan.insecure_seed is not None,
    }
    if not finished.token:
        return {**about, "value": None, "note": "the plan keeps the value with the last holder"}
    token: Token = decode_token(finished.token, dtype=task.dtype, dimension=task.dimension, ledger_size=ledger_size)
    estimate = task.finish(token.payload, Tally(token.contributions, token.dummies))
    return {**about, **estimate, "contributions": token.contributions, "expected_std": expected_error(plan)}


def write(path: Path, values: dict[str, Any]) -> None:
    """Whole or not at all."""
    fresh = path.with_suffix(".new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(values, file, indent=1, allow_nan=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
