"""The table a person reads and the JSON a program reads."""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from benchmarks.rows import Row


def number(value: float) -> str:
    """Three digits that matter, thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _verdict(row: Row) -> str:
    return {None: "", True: "[green]yes[/]", False: "[bold red]NO[/]"}[row.ok]


def _spread(row: Row) -> str:
    return "" if row.error is None else f" ± {row.error:.2g}"


def table(rows: Sequence[Row]) -> Table:
    found = Table(title="network-dp benchmarks (read the ratios: absolute numbers belong to this machine)")
    found.add_column("what")
    found.add_column("value", justify="right")
    found.add_column("unit")
    found.add_column("ratio", justify="right")
    for name in ("to what", "target", "ok?"):
        found.add_column(name)
    section = None
    for row in rows:
        if section not in (None, row.section):
            found.add_section()
        section = row.section
        if row.value is None:
            found.add_row(
                f"{row.what}: [bold yellow]not measured[/]: {escape(row.note)}", *[""] * 5, "[bold yellow]?[/]"
            )
            continue
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}{_spread(row)} x"
        target = "" if row.target is None else str(row.target)
        found.add_row(row.what, number(row.value), row.unit, ratio, row.against, target, _verdict(row))
    return found


def verdict(rows: Sequence[Row], warnings: Sequence[str], seconds: float, *, judged: bool) -> tuple[int, str]:
    """The exit code and the last line: all measured and every target met (0), or what is missed (1), or missing (3)."""
    missed = [row.what for row in rows if row.ok is False] if judged else []
    missing = [row.section for row in rows if row.value is None]
    asked = sum(row.ok is not None for row in rows)
    code, word = (3, "NOT MEASURED") if missing else (1, "MISSED") if missed else (0, "OK")
    parts = [f"{len(rows) - len(missing)} rows in {seconds:.0f} s"]
    parts.append(f"{asked - len(missed)} of {asked} targets met" if judged else "tiny sizes: targets mean nothing")
    parts += [f"missed: {', '.join(missed)}"] if missed else []
    parts += [f"not measured: {', '.join(missing)}"] if missing else []
    parts += [f"{len(warnings)} worse than the baseline"] if warnings else []
    return code, f"{word}: {'; '.join(parts)}"


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(int(lines[0].split()[1]) / 1024**2, 1),
        "load_before": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "uvloop": importlib.util.find_spec("uvloop") is not None,
    }


def as_dict(
    rows: Sequence[Row], machine: dict[str, Any], seconds: float, warnings: Sequence[str], verdict: str
) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "machine": machine,
        "seconds": round(seconds, 1),
        "warnings": list(warnings),
        "rows": [{**asdict(row), "key": row.key, "ok": row.ok} for row in rows],
    }
