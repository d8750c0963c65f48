"""The regression guard: ratios of this run against those of a committed one. It warns and never fails.

Only numbers that mean the same on every machine are compared: ratios to a rival in the same run, exponents of growth.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.rows import EXPONENT, Row

BASELINE = Path(__file__).with_name("baseline.json")
TOLERANCE = 0.25  # of a ratio: two runs on a quiet machine differ by about a tenth
EXPONENT_TOLERANCE = 0.3


def compare(rows: Sequence[Row], baseline: dict[str, float]) -> list[str]:
    """One sentence for every row that became clearly worse."""
    warnings = []
    for row in rows:
        before, now = baseline.get(row.key), row.guarded
        if before is None or now is None:
            continue
        if row.unit == EXPONENT:
            worse = now > before + EXPONENT_TOLERANCE
        elif row.better == "low":
            worse = now > before * (1.0 + TOLERANCE)
        else:
            worse = now < before * (1.0 - TOLERANCE)
        if worse:
            warnings.append(f"{row.key}: {now:.3g}, was {before:.3g} in the baseline")
    return warnings


def read(path: Path = BASELINE) -> dict[str, float]:
    """Guarded numbers by key; empty when there is no baseline yet."""
    if not path.exists():
        return {}
    ratios: dict[str, float] = json.loads(path.read_text())["ratios"]
    return ratios


def write(rows: Sequence[Row], machine: dict[str, Any], path: Path = BASELINE) -> None:
    """Keep this run as what later ones are compared with; rows that were not measured keep their old number."""
    ratios = read(path) | {row.key: round(row.guarded, 4) for row in rows if row.guarded is not None}
    path.write_text(json.dumps({"machine": machine, "ratios": ratios}, indent=2) + "\n")
