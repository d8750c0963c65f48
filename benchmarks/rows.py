"""What a benchmark measured: one row of the table, its ratio to a rival in the same run, and its target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

EXPONENT = "exponent"


@dataclass(frozen=True, slots=True)
class Target:
    """What issue or design asks of a row: of its ratio, or of its value."""

    limit: float
    better: Literal["high", "low"]
    of: Literal["ratio", "value"] = "ratio"

    def met(self, row: Row) -> bool:
        number = row.ratio if self.of == "ratio" else row.value
        if number is None:
            return False
        return number >= self.limit if self.better == "high" else number <= self.limit

    def __str__(self) -> str:
        sign = ">=" if self.better == "high" else "<="
        return f"{sign} {self.limit:g}" + (" x" if self.of == "ratio" else "")


@dataclass(frozen=True, slots=True)
class Row:
    """``ratio`` is to ``against``, measured in the same run; ``better`` says which way the number should move."""

    section: str
    what: str
    value: float | None  # None: not measured, and ``note`` says why
    unit: str
    ratio: float | None = None
    against: str = ""
    target: Target | None = None
    better: Literal["high", "low"] = "high"
    note: str = ""
    error: float | None = None  # standard error of the ratio, where it was measured in turns

    @classmethod
    def missing(cls, section: str, why: str) -> Row:
        return cls(section, section, None, "", note=why)

    @property
    def key(self) -> str:
        return f"{self.section}: {self.what}" + (f" / {self.against}" if self.against else "")

    @property
    def ok(self) -> bool | None:
        return None if self.target is None else self.target.met(self)

    @property
    def guarded(self) -> float | None:
        """The number that means the same on every machine: a ratio, or an exponent of growth."""
        return self.value if self.unit == EXPONENT else self.ratio


def growth(section: str, what: str, sizes: Sequence[float], seconds: Sequence[float]) -> Row:
    """How a time grows with a size: the slope of a straight line through (log size, log seconds)."""
    slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    assert math.isfinite(slope)
    sizes_text = ", ".join(f"{size:g}" for size in sizes)
    return Row(section, f"{what}, growth", slope, EXPONENT, better="low", note=f"n = {sizes_text}")
