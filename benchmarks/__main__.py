"""``python -m benchmarks``: what this system costs, in one table, in under ten minutes on two quiet cores."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import analysis, guard, hops, memory, recovery, report, rounds, theory
from benchmarks.bench import Bench
from benchmarks.rows import Row

FILE_WIDTH = 150  # columns, where nobody's terminal says

SECTIONS: Mapping[str, Callable[[Bench], list[Row]]] = {
    "warm": hops.warm,
    "cold": hops.cold,
    "large": hops.large,
    "memory": memory.memory,
    "rounds": rounds.rounds,
    "recovery": recovery.recovery,
    "faults": theory.faults,
    "exposure": theory.exposure,
    "bounds": theory.bounds,
    "analyzer": analysis.analyzer,
    "noise": theory.noise,
}


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="NAME", help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that everything works")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="JSON too (default: standard output)")
    parser.add_argument("--update-baseline", action="store_true", help="compare later runs with this one")
    return parser.parse_args(words)


def _measure(names: Sequence[str], quick: bool, console: Console) -> tuple[list[Row], list[str]]:
    """Rows of all sections; a section that fails says why and does not cost the others their numbers."""
    rows: list[Row] = []
    failed: list[str] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with tempfile.TemporaryDirectory(prefix="network-dp-bench-") as folder, Progress(*columns, console=console) as bar:
        task = bar.add_task("benchmarks", total=len(names))
        for name in names:
            bar.update(task, description=name)

            def say(text: str) -> None:
                bar.console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {text}", highlight=False)

            try:
                rows += SECTIONS[name](Bench(Path(folder), quick, say))
            except Exception as error:
                failed.append(f"section {name} failed: {type(error).__name__}: {error}")
                say(failed[-1])
            bar.advance(task)
    return rows, failed


def _end_in_order() -> None:
    """Rings without a turn are stopped: whoever ends this process must not leave them so."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))


def main(words: Sequence[str] | None = None) -> int:
    arguments = _arguments(words)
    quiet_output = arguments.json == "-"
    console = Console(stderr=quiet_output)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    machine, started = report.machine(), time.monotonic()
    rows, failed = _measure(arguments.only or list(SECTIONS), arguments.quick, console)
    warnings = [] if arguments.quick else guard.compare(rows, guard.read())
    console.print(report.table(rows))
    for text in [*(f"regression? {warning}" for warning in warnings), *failed]:
        console.print(f"[yellow]{text}[/]", highlight=False)
    missed = [row.what for row in rows if row.ok is False]
    seconds = time.monotonic() - started
    console.print(f"{len(rows)} rows, {len(missed)} targets missed, {seconds:.0f} s, {machine}", highlight=False)
    if arguments.json:
        text = json.dumps(report.as_dict(rows, machine, seconds, [*warnings, *failed]), indent=2)
        if quiet_output:
            print(text)
        else:
            Path(arguments.json).write_text(text + "\n")
    if arguments.update_baseline:
        guard.write(rows, machine)
    return 1 if failed else 0


if __name__ == "__main__":
    _end_in_order()
    sys.exit(main())
