"""What the launcher shows: a progress bar while users walk, and how a run ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from coordinator_free_launcher.comparison import Comparison, compare
from coordinator_free_launcher.demo_data import DemoTruth
from coordinator_free_launcher.launch import LaunchError, Outcome
from coordinator_free_launcher.launch import Progress as Standing
from network_dp import public_bounds
from network_dp.plan import Plan
from network_dp.untrusted import FormatError
from node.result_file import OWN

_OWN_LINES = 5


@contextmanager
def progress_bar(title: str, console: Console) -> Iterator[Callable[[Standing], None]]:
    """Steps done, hops per second, time left; first how many users serve."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None, speed="")

        def show(standing: Standing) -> None:
            if standing.step <= 0:
                text = f"{title}: {standing.serving} of {standing.users} users serve"
                bar.update(task, description=text, total=standing.users, completed=standing.serving)
                return
            speed = bar.tasks[0].speed
            hops = f"{speed:.0f} hops/s" if speed else ""
            bar.update(task, description=title, total=standing.total, completed=standing.step, speed=hops)

        yield show


def compared(plan: Plan, outcome: Outcome, run: Path) -> Comparison | None:
    """Result against truth, in a demo where DIR/truth.json tells it."""
    path = run / "truth.json"
    if outcome.result is None or not path.exists():
        return None
    try:
        return compare(plan, outcome.result, DemoTruth.read(path))
    except FormatError as error:
        raise LaunchError(str(error)) from None


def result_remark(plan: Plan, result: Mapping[str, Any]) -> str | None:
    """On a result outside the public bounds."""
    means = result.get("value" if plan.task.kind == "histogram" else "mean")
    return None if means is None else public_bounds.remark(plan, means)


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
    value = result.get("value")
    shown = "kept by the last holder" if value is None else ", ".join(f"{number:.4g}" for number in value[:8])
    table.add_row("value", shown + (" ..." if value is not None and len(value) > 8 else ""))
    table.add_row("contributions", str(result.get("contributions", "-")))
    if result.get("expected_std") is not None:
        table.add_row("expected std", f"{result['expected_std']:.4g}")
    if comparison is not None:
        table.add_row(comparison.what, f"{comparison.estimate:.4g} against {comparison.truth:.4g}")
        if comparison.error_in_stds is not None:
            table.add_row("error", f"{comparison.error:+.4g} = {comparison.error_in_stds:+.2f} expected stds")
    said = result_remark(plan, result)
    if said is not None:
        table.add_row("remark", said)
    console.print(table)
