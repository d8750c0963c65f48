"""Change one thing in a run's logs, as somebody might, and say which line it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def log_of(run: Path, user: str) -> Path:
    return run / "users" / user / "state" / "view.jsonl"


def read(run: Path, user: str) -> list[Line]:
    return [json.loads(line) for line in log_of(run, user).read_text().splitlines()]


def rewrite(run: Path, user: str, lines: list[Line]) -> None:
    log_of(run, user).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def nth(lines: list[Line], kind: str, index: int, where: Callable[[Line], bool] = lambda line: True) -> int:
    """Place (from 0) of the index-th line of a kind."""
    return [i for i, line in enumerate(lines) if line["kind"] == kind and where(line)][index]


def change(run: Path, user: str, kind: str, index: int, edit: Callable[[Line], None]) -> int:
    """Edit one line in place; its number (from 1)."""
    lines = read(run, user)
    place = nth(lines, kind, index)
    edit(lines[place])
    rewrite(run, user, lines)
    return place + 1
