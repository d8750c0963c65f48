"""The status of a run's users on this machine, without disturbing them."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from coordinator_free_launcher.identity.bundle import user_folder
from coordinator_free_launcher.local.launch import local_users, read_run
from node.process import last_exit
from node.protocols import exits


def running_pid(state: Path) -> int | None:
    """The process that is this user: it holds the lock of its state folder and wrote its number into it. None: none."""
    lock = state / "lock"
    if not lock.exists():
        return None
    with lock.open("r") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            number = file.read(20).strip()
            return int(number) if number.isdigit() else 0
    return None


def is_running(state: Path) -> bool:
    return running_pid(state) is not None


ONLY_MAX: Final = 5
_ENDED: Final = {
    exits.DONE: "finished",
    exits.STOPPED: "stopped",
    exits.STALLED: "stalled",  # it gave up: too few users were alive for too long
    None: "killed",  # without a word
}


def status_of(state: Path) -> str:
    """running, finished, never started, stopped, stalled, killed or failed."""
    if is_running(state):
        return "running"
    if (state / "result.json").exists():
        return "finished"
    if not (state / "lives").exists() and last_exit(state) is None:
        return "never started"
    return _ENDED.get(last_exit(state), "failed")


def _furthest(view: Path, *, hidden: bool) -> tuple[int | None, int]:
    """(visits, furthest step) in a view log; steps are public, values are not looked at. In anonymous rounds every user
    hears of every step, and who visited is nobody's business."""
    kind, visits, furthest = "round" if hidden else "visit", 0, 0
    if view.exists():
        with view.open() as file:
            for line in file:
                if line.startswith(f'{{"kind":"{kind}"') and line.endswith("\n"):
                    visits += 1
                    furthest = max(furthest, int(json.loads(line)["step"]))
    return (None, max(0, furthest - 1)) if hidden else (visits, furthest)


def read_status(run: Path) -> list[dict[str, Any]]:
    """One row per user whose bundle is here."""
    rows, plan = [], read_run(run)
    for name in local_users(run, plan, None):
        state = user_folder(run, name) / "state"
        visits, furthest = _furthest(state / "view.jsonl", hidden=plan.walk.anonymous)
        rows.append(
            {
                "user": name,
                "status": status_of(state),
                "pid": running_pid(state) or None,
                "final": (state / "result.json").exists(),
                "visits": visits,
                "furthest_step": furthest,
            }
        )
    return rows


def show_status(run: Path, rows: list[dict[str, Any]]) -> None:
    total, furthest = read_run(run).total_steps, max(row["furthest_step"] for row in rows)
    over = any(row["final"] for row in rows)
    table = Table(title=f"{run}: " + ("the result is final" if over else f"step {furthest} of {total}, as seen here"))
    for column in ("user", "status", "pid", "result", "visits", "own last step"):
        table.add_column(column)
    for row in rows:
        final, pid = "final" if row["final"] else "-", str(row["pid"] or "-")
        visits = "-" if row["visits"] is None else str(row["visits"])
        table.add_row(row["user"], row["status"], pid, final, visits, str(row["furthest_step"]))
    console = Console()
    console.print(table)
    down = [row["user"] for row in rows if row["status"] not in ("running", "finished")]
    if down:
        # A launch starts everybody that does not run; beside those that do, each by name.
        alone = len(down) == len(rows) or len(down) > ONLY_MAX
        who = "" if alone else "".join(f" --only {name}" for name in down)
        console.print(f"To go on: network-dp launch {run}{who}", highlight=False, soft_wrap=True)
