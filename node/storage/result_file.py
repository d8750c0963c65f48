"""result.json: what a run ends with, at every user (or only at the last holder, when the plan keeps it there)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from network_dp.expected import expected_error
from network_dp.plan import Plan
from node.fence import fenced
from node.protocols.effects import Finished
from node.protocols.walk.messages import Result
from node.protocols.walk.values import Payload, Token, decode_token
from node.tasks.base import LocalData, Tally, Task

OWN = "own"  # counts of the user's own data: never handed over


def describe(plan: Plan, task: Task, data: LocalData, finished: Finished[Result], ledger_size: int) -> dict[str, Any]:
    """The result of a walk as plain values; without a value where only the end is known."""
    # The end is named, under whichever epoch it was published (again).
    about = _about(plan, data, finished.result.end.hex())
    if not finished.token:
        return {**about, "value": None, "note": "the plan keeps the value with the last holder"}
    token: Token = decode_token(finished.token, dtype=task.dtype, dimension=task.dimension, ledger_size=ledger_size)
    return {**about, **_estimate(plan, task, token.payload, Tally(token.contributions, token.cover))}


def describe_rounds(plan: Plan, task: Task, data: LocalData, payload: Payload, contributions: int) -> dict[str, Any]:
    """The result of anonymous rounds; its own digest names it, under whichever epoch it was said (again)."""
    end = hashlib.blake2b(payload.tobytes(), digest_size=16).hexdigest()
    return {**_about(plan, data, end), **_estimate(plan, task, payload, Tally(contributions, 0))}


def _about(plan: Plan, data: LocalData, end: str) -> dict[str, Any]:
    """The user's own counts stay its own."""
    return {
        "run": plan.run_id,
        "plan": plan.hash,
        "name": plan.name,
        "task": plan.task.kind,
        "end": end,
        "insecure": plan.insecure_seed is not None,
        OWN: {"clipped": data.clipped, "checked": data.checked},
    }


def _estimate(plan: Plan, task: Task, payload: Payload, tally: Tally) -> dict[str, Any]:
    estimate = fenced(task.finish)(payload, tally)
    return {**estimate, "contributions": tally.contributions, "expected_std": expected_error(plan)}


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
