"""What the launcher shows: a progress bar while users walk, and how a run ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from coordinator_free_launcher.cli.answer import value_rows
from coordinator_free_launcher.local.comparison import Comparison, result_remark
from coordinator_free_launcher.local.launch import Progress as Status
from network_dp.in_words import count
from network_dp.plan import Plan
from node.storage.result_file import OWN

_OWN_LINES = 5
_LINE_EVERY_S: Final = 10.0  # where the screen is a file


class Screen:
    """A bar, under it for whom the run waits, and above both what users warn of. Without a terminal: plain lines."""

    def __init__(self, title: str, console: Console) -> None:
        self._title, self._console = title, console
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[done]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            expand=True,
        )
        self._task = self._bar.add_task(title, total=None, done="")
        self._waiting, self._said_at = "", -math.inf
        self.live = Live(console=console, transient=True, refresh_per_second=8, get_renderable=self._draw)

    def _draw(self) -> Group:
        return Group(self._bar, Text(self._waiting, style="yellow")) if self._waiting else Group(self._bar)

    def show(self, status: Status) -> None:
        for text in status.told:
            self._console.print(f"[yellow]{escape(text)}[/]", highlight=False, soft_wrap=not self._console.is_terminal)
        self._tell_waiting(status.waiting)
        if status.phase:
            self._bar.update(self._task, description=f"{self._title}: {status.phase}", total=None, done="")
        elif status.step > 0:
            speed = self._bar.tasks[0].speed
            done = f"{status.step}/{status.total}" + (f" {speed:.0f} hops/s" if speed else "")
            self._bar.update(self._task, description=self._title, total=status.total, completed=status.step, done=done)
        else:
            # No total: a bar that is full would look finished while everybody waits for the token.
            text = f"{self._title}: {status.serving} of {count(status.users, 'user')} here"
            self._bar.update(self._task, description=f"{text} {'serves' if status.users == 1 else 'serve'}", total=None)

    def _tell_waiting(self, text: str) -> None:
        now = time.monotonic()
        if text and text != self._waiting and not self._console.is_terminal and now - self._said_at > _LINE_EVERY_S:
            self._said_at = now
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)
        self._waiting = text


@contextmanager
def progress_bar(title: str, console: Console) -> Iterator[Callable[[Status], None]]:
    """Steps done, hops per second, time left; first how many users serve."""
    screen = Screen(title, console)
    with screen.live:
        yield screen.show


def show_own(results: Mapping[str, Mapping[str, Any]], console: Console) -> None:
    """What users here were told of their own data: each count is from that user's own result."""
    own = {name: result.get(OWN) or {} for name, result in results.items()}
    clipped = {name: counts for name, counts in own.items() if counts.get("clipped")}
    for name, counts in list(clipped.items())[:_OWN_LINES]:
        text = f"{name}: {counts['clipped']} of {counts['checked']} own values were clipped to the public bounds"
        console.print(text, markup=False)
    if len(clipped) > _OWN_LINES:
        console.print(f"... and values of {len(clipped) - _OWN_LINES} more users")


def show_result(plan: Plan, result: dict[str, Any], comparison: Comparison | None, console: Console) -> None:
    title = f"Result of {plan.name}" + (" (INSECURE: seeded)" if plan.insecure_seed is not None else "")
    table = Table(title=title, show_header=False)
    for what, text in value_rows(plan, result):
        table.add_row(escape(what), text)
    table.add_row("contributions", str(result.get("contributions", "-")))
    if comparison is not None:
        table.add_row(comparison.what, f"{comparison.estimate:.4g} against {comparison.truth:.4g}")
        if comparison.error_in_stds is not None:
            table.add_row("error", f"{comparison.error:+.4g} = {comparison.error_in_stds:+.2f} expected stds")
    said = result_remark(plan, result)
    if said is not None:
        table.add_row("remark", said)
    console.print(table)
