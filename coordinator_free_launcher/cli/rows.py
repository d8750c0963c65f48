"""One line of the tables that `bounds`, `calibrate` and `plan check` show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """`value` is infinite where there is no guarantee and None where there is no number."""

    key: str
    label: str
    value: float | None
    note: str

    @property
    def plain(self) -> float | str | None:
        """The value as JSON can hold it."""
        return "infinity" if self.value is not None and math.isinf(self.value) else self.value

    @property
    def text(self) -> str:
        """The value as people read it."""
        if self.value is None:
            return "-"
        return "none (infinite)" if math.isinf(self.value) else f"{self.value:.4g}"


def print_rows(title: str, rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", "value", "meaning", title=title)
    for row in rows:
        table.add_row(row.label, row.text, row.note)
    Console().print(table)
