"""How a user's table becomes numbers: which columns a task reads, and what texts and ranges stand for.

Public, so part of the plan: every user's table must be read alike.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)  # no slots: the codes are looked up in a dictionary that is made once
class Reading:
    """``names``: the columns taken, in this order; None: all of them. The last column may hold texts that stand for
    numbers (``codes``), or numbers of which only the range counts (``edges``: bucket k is [edges[k], edges[k+1]))."""

    names: tuple[str, ...] | None = None
    codes: tuple[tuple[str, float], ...] = ()
    edges: tuple[float, ...] = ()

    @property
    def translates(self) -> bool:
        return bool(self.codes or self.edges)

    @cached_property
    def _numbers(self) -> dict[str, float]:
        return dict(self.codes)

    def last(self, cell: object) -> float | None:
        """The number for a cell of the last column; None when it is none."""
        if self.codes:
            return self._numbers.get(_text(cell))
        value = number(cell)
        return self._bucket(value) if self.edges and value is not None and math.isfinite(value) else value

    def _bucket(self, value: float) -> float:
        """Below the first edge -1, above the last one more than there are: the task clips both, and counts them."""
        if value == self.edges[-1]:
            return float(len(self.edges) - 2)
        return float(bisect_right(self.edges, value) - 1)


#: All columns, by position, each a number.
PLAIN = Reading()


def number(cell: object) -> float | None:
    """A text or a JSON value as a number; None when it is not one. True and false are not numbers."""
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return None


def _text(cell: object) -> str:
    """As it stands in a CSV file: true is "true", 2.0 is "2"."""
    if isinstance(cell, bool):
        return str(cell).lower()
    return f"{cell:g}" if isinstance(cell, float) else str(cell).strip()


def as_codes(texts: tuple[str, ...] | None, numbers: tuple[float, ...] | None = None) -> tuple[tuple[str, float], ...]:
    """Each text with its number: its place, unless ``numbers`` are given."""
    found = texts or ()
    return tuple(zip(found, numbers or map(float, range(len(found))), strict=True))
