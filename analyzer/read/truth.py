"""The true value, as a user gives it: a number, a file of numbers, or the truth.json of a demo."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzer.errors import InputError
from network_dp.plan import Plan
from network_dp.untrusted import FormatError, json_table, read_text


@dataclass(frozen=True, slots=True)
class Truth:
    """Plain numbers, or a demo's table of named ones (mean, sum, histogram)."""

    numbers: tuple[float, ...] = ()
    named: dict[str, tuple[float, ...]] | None = None
    test_rows: tuple[tuple[float, ...], ...] = ()
    test_labels: tuple[float, ...] = ()
    reference_accuracy: float | None = None  # of a model of the same data, trained without privacy

    def for_plan(self, plan: Plan) -> tuple[float, ...] | None:
        """What the plan's estimate should be. None: nothing fits."""
        values = self.numbers if self.named is None else self.named.get(plan.task.kind)
        return None if values is None else plan.task.in_units_of_estimate(values)


def read_truth(text: str) -> Truth:
    """From ``text`` itself, or from the file it names (JSON, or numbers separated by commas or white space)."""
    path = Path(text)
    try:
        source = read_text(path) if path.is_file() else text
    except FormatError as error:
        raise InputError(text, None, str(error)) from None
    if source.lstrip().startswith("{"):
        return _demo(text, source)
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


def _demo(text: str, source: str) -> Truth:
    """The truth.json that a demo writes: named values, and a test set for models."""
    try:
        table = json_table(source)
        named = {name: _numbers(table[name]) for name in ("mean", "sum", "histogram") if table.get(name) is not None}
        rows = tuple(_numbers(row) for row in table.get("test_features") or [])
        labels = _numbers(table.get("test_labels") or [])
        reached = None if table.get("test_accuracy") is None else float(table["test_accuracy"])
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(text, None, f"is not a table of numbers: {error}") from None
    if len(rows) != len(labels):
        raise InputError(text, None, "has not one label for each test row")
    return Truth(named=named, test_rows=rows, test_labels=labels, reference_accuracy=reached)


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
