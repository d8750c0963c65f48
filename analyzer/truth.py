"""The true value, as a user gives it: a number, a file of numbers, or the truth.json of a demo."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzer.errors import InputError
from network_dp.plan import Plan


@dataclass(frozen=True, slots=True)
class Truth:
    """Plain numbers, or a demo's table of named ones (mean, sum, histogram)."""

    numbers: tuple[float, ...] = ()
    named: dict[str, tuple[float, ...]] | None = None

    def for_plan(self, plan: Plan) -> tuple[float, ...] | None:
        """What the plan's estimate should be; histograms as shares. None: nothing fits."""
        values = self.numbers if self.named is None else self.named.get(plan.task.kind)
        if values is None:
            return None
        total = sum(values)
        if plan.task.kind == "histogram" and total > 0:
            return tuple(value / total for value in values)
        return values


def read_truth(text: str) -> Truth:
    """From ``text`` itself, or from the file it names (JSON, or numbers separated by commas or white space)."""
    path = Path(text)
    source = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else text
    if source.lstrip().startswith("{"):
        return Truth(named=_named(text, source))
    numbers = []
    for line_number, line in enumerate(source.splitlines() or [""], start=1):
        numbers += [_finite(text, line_number, word) for word in re.split(r"[\s,;\[\]]+", line) if word]
    if not numbers:
        raise InputError(text, None, "holds no number")
    return Truth(tuple(numbers))


def _finite(text: str, line: int, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        raise InputError(text, line, f'"{word}" is not a number (nor the name of a file)') from None
    if not math.isfinite(value):
        raise InputError(text, line, f'"{word}" is not a finite number')
    return value


def _named(text: str, source: str) -> dict[str, tuple[float, ...]]:
    try:
        table: dict[str, Any] = json.loads(source)
    except ValueError as error:
        raise InputError(text, None, f"is not JSON: {error}") from None
    found = {}
    for name in ("mean", "sum", "histogram"):
        values = table.get(name)
        if isinstance(values, list) and all(isinstance(value, int | float) for value in values):
            found[name] = tuple(float(value) for value in values)
    return found
