"""``network-dp analyze`` and ``network-dp export``: the offline side of the command line.

Exit codes of ``analyze``: 0 PASS or PARTIAL, 1 FAIL, 3 UNKNOWN, 4 OVERSPENT; 2 input that cannot be read as the logs of
one run, or a report that cannot be written; 70 a fault of the program itself (``crash``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

BAD_INPUT: Final = 2

Logs = Annotated[list[Path], typer.Argument(help="A run's directory, or any number of view logs (plain or gzip).")]
PlanFile = Annotated[Path | None, typer.Option("--plan", help="The plan, if it does not lie beside or above the logs.")]
Json = Annotated[bool, typer.Option("--json", help="Print the verdict as JSON (docs/ANALYZER.md).")]
Html = Annotated[Path | None, typer.Option("--html", help="Also write a report: one file, no network needed.")]
Colluders = Annotated[str, typer.Option("--colluders", help="Users that pool what they saw: a,b,c.")]
MaxColluders = Annotated[int, typer.Option("--max-colluders", min=1, help="Look for the worst sets up to this size.")]
Truth = Annotated[str | None, typer.Option("--truth", help="The true value: a number, or a file of numbers.")]
Out = Annotated[Path, typer.Option("--out", help="Where to write the exported log (.gz: compressed).")]


def register(app: typer.Typer) -> None:
    """Add ``analyze`` and ``export`` to the command line."""
    app.command("analyze")(analyze)
    app.command("export")(export)


def _refuse(command: str, message: object) -> typer.Exit:
    typer.echo(f"network-dp {command}: {message}", err=True)
    return typer.Exit(BAD_INPUT)


def analyze(
    logs: Logs,
    plan: PlanFile = None,
    json: Json = False,
    html: Html = None,
    colluders: Colluders = "",
    max_colluders: MaxColluders = 1,
    truth: Truth = None,
) -> None:
    """Check what happened in a run against what the theory promises: PASS, PARTIAL, UNKNOWN, OVERSPENT or FAIL."""
    from analyzer.analysis import analyze_runs
    from analyzer.errors import InputError
    from analyzer.truth import read_truth

    names = [name.strip() for name in colluders.split(",") if name.strip()]
    try:
        wanted = None if truth is None else read_truth(truth)
        analyses = analyze_runs(logs, plan, names, max_colluders, wanted)
    except InputError as error:
        raise _refuse("analyze", error) from None
    if json:
        from analyzer.as_json import as_text

        typer.echo(as_text(analyses))
    else:
        from rich.console import Console

        from analyzer.terminal import show_all

        show_all(analyses, Console())
    if html is not None:
        from analyzer.report.page import write

        try:
            paths = write(analyses, html)
        except OSError as error:
            raise _refuse("analyze", f"{html}: cannot be written: {error.strerror}") from None
        for path in paths:
            typer.echo(f"Report: {path}", err=json)
    raise typer.Exit(analyses.status.exit_code)


def export(
    log: Annotated[Path, typer.Argument(help="Your own view log.")],
    out: Out,
    replace: Annotated[bool, typer.Option(help="Overwrite OUT if it exists; never the log itself.")] = False,
) -> None:
    """Write your log as you may hand it to others: steps, neighbours and tags, no values and no times."""
    from analyzer.errors import InputError
    from analyzer.export import export as write_export

    try:
        kept = write_export(log, out, replace=replace)
    except InputError as error:
        raise _refuse("export", error) from None
    typer.echo(f"{kept} lines without values written to {out}")
