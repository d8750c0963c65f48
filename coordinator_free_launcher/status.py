"""The standing of a run's users on this machine, without disturbing them."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from coordinator_free_launcher.bundle import user_folder
from coordinator_free_launcher.launch import local_users, read_run


def is_running(state: Path) -> bool:
    """A running user holds the lock of its state folder."""
    lock = state / "lock"
    if not lock.exists():
        return False
    with lock.open("r") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _furthest(view: Path) -> tuple[int, int]:
    """(visits, furthest step) in a view log; steps are public, values are not looked at."""
    visits, furthest = 0, 0
    if view.exists():
        with view.open() as file:
            for line in file:
                if line.startswith('{"kind":"visit"') and line.endswith("\n"):
                    visits += 1
                    furthest = max(furthest, int(json.loads(line)["step"]))
    return visits, furthest


def read_status(run: Path) -> list[dict[str, Any]]:
    """One row a user whose bundle is here."""
    rows = []
    for name in local_users(run, read_run(run), None):
        state = user_folder(run, name) / "state"
        visits, furthest = _furthest(state / "view.jsonl")
        final = (state / "result.json").exists()
        standing = "running" if is_running(state) else ("finished" if final else "stopped")
        rows.append({"user": name, "standing": standing, "final": final, "visits": visits, "furthest_step": furthest})
    return rows


def show_status(run: Path, rows: list[dict[str, Any]]) -> None:
    total = read_run(run).total_steps
    table = Table(title=f"{run}: step {max(row['furthest_step'] for row in rows)} of {total}")
    for column in ("user", "standing", "result", "visits", "furthest step"):
        table.add_column(column)
    for row in rows:
        final = "final" if row["final"] else "-"
        table.add_row(row["user"], row["standing"], final, str(row["visits"]), str(row["furthest_step"]))
    Console().print(table)
