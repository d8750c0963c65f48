"""``python -m benchmarks``: what this system costs, in one table, in under ten minutes.

Exit code 0: everything was measured and every target met; 1: a target was missed; 3: a section was not measured.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import analysis, crowd, guard, hops, memory, recovery, report, rounds, theory
from benchmarks.bench import Bench
from benchmarks.rows import Row
from benchmarks.turns import NotMeasuredError

FILE_WIDTH = 150  # columns, where nobody's terminal says
MINUTES = 10.0
SECTION_MAX_S = 300.0  # no section keeps the others from their numbers
CLEANING_UP_S = 15.0

#: On a machine too slow for all of them the last ones are left out.
SECTIONS: Mapping[str, Callable[[Bench], Iterable[Row]]] = {
    "warm": hops.warm,
    "cold": hops.cold,
    "large": hops.large,
    "noise": theory.noise,
    "rounds": rounds.rounds,
    "recovery": recovery.recovery,
    "bounds": theory.bounds,
    "exposure": theory.exposure,
    "faults": theory.faults,
    "analyzer": analysis.analyzer,
    "memory": memory.memory,
    "crowd": crowd.crowd,
}
ASKED_FOR = ("crowd",)  # only by name: it takes minutes


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=form)
    names = f"of {', '.join(SECTIONS)} (all but {', '.join(ASKED_FOR)})"
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="NAME", help=names)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that everything works")
    parser.add_argument("--users", type=_users, default=2000, metavar="N", help="of section crowd (2000)")
    text = f"what does not fit into so many is not measured, and a row says so ({MINUTES:g})"
    parser.add_argument("--minutes", type=float, default=MINUTES, metavar="M", help=text)
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="JSON too (default: standard output)")
    parser.add_argument("--update-baseline", action="store_true", help="compare later runs with this one")
    return parser.parse_args(words)


def _users(text: str) -> int:
    if not text.isdecimal() or not 3 <= int(text) <= 4000:
        raise argparse.ArgumentTypeError("from 3 to 4000 users")
    return int(text)


def _measure(arguments: argparse.Namespace, console: Console) -> list[Row]:
    """Rows of all sections; one that cannot be measured is a row that says why, and costs the others nothing."""
    names = arguments.only or [name for name in SECTIONS if name not in ASKED_FOR]
    over_at = time.monotonic() + 60.0 * arguments.minutes - CLEANING_UP_S
    rows: list[Row] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:

        def say(text: str) -> None:
            bar.console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {text}", highlight=False)

        task = bar.add_task("benchmarks", total=len(names))
        for name in names:
            bar.update(task, description=name)
            try:
                with (
                    tempfile.TemporaryDirectory(prefix="network-dp-bench-") as folder,
                    _at_most(min(SECTION_MAX_S, over_at - time.monotonic())),
                ):
                    bench = Bench(Path(folder), arguments.quick, say, arguments.users)
                    rows.extend(SECTIONS[name](bench))  # one by one: what was measured before a stumble counts
            except Exception as error:
                why = str(error) if isinstance(error, NotMeasuredError) else f"{type(error).__name__}: {error}"
                rows.append(Row.missing(name, " ".join(why.split())))
                say(f"section {name} was not measured: {rows[-1].note}")
            bar.advance(task)
    return rows


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """However slow the machine is, the benchmark ends: a section is interrupted and cleans up after itself."""
    if seconds <= 0.0:
        raise NotMeasuredError("no time was left for it; --only measures it alone, --minutes gives more")

    def interrupt(number: int, frame: object) -> None:
        raise NotMeasuredError(f"not done within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


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
    rows = _measure(arguments, console)
    warnings = [] if arguments.quick else guard.compare(rows, guard.read())
    console.print(report.table(rows))
    for warning in warnings:
        console.print(f"[yellow]worse than the baseline? {warning}[/]", highlight=False)
    seconds = time.monotonic() - started
    code, verdict = report.verdict(rows, warnings, seconds, judged=not arguments.quick)
    console.print(", ".join(f"{name} {value}" for name, value in machine.items()), highlight=False)
    console.print(f"[bold]{verdict}[/]", highlight=False)
    if arguments.json:
        text = json.dumps(report.as_dict(rows, machine, seconds, warnings, verdict), indent=2)
        if quiet_output:
            print(text)
        else:
            Path(arguments.json).write_text(text + "\n")
    if arguments.update_baseline:
        guard.write(rows, machine)
    return code


if __name__ == "__main__":
    _end_in_order()
    sys.exit(main())
