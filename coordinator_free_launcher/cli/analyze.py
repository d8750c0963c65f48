"""``network-dp analyze`` and ``network-dp export``: the offline side of the command line.

Exit codes of ``analyze``: 0 PASS or PARTIAL, 1 FAIL, 3 UNKNOWN, 4 OVERSPENT; 2 input that cannot be read as the logs of
one run, or a report that cannot be written; 70 a fault of the program itself (``crash``).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator_free_launcher.cli.options import Test

if TYPE_CHECKING:
    from analyzer.analysis import Analyses
    from coordinator_free_launcher.local.score import Score

Logs = Annotated[list[Path], typer.Argument(help="A run's directory, or any number of view logs (plain or gzip).")]
PlanFile = Annotated[Path | None, typer.Option("--plan", help="The plan, if it does not lie beside or above the logs.")]
Json = Annotated[bool, typer.Option("--json", help="Print the verdict as JSON (docs/ANALYZER.md).")]
Html = Annotated[Path | None, typer.Option("--html", help="Also write a report: one file, no network needed.")]
Colluders = Annotated[str, typer.Option("--colluders", help="Users that pool what they saw: a,b,c.")]
MaxColluders = Annotated[int, typer.Option("--max-colluders", min=1, help="Look for the worst sets up to this size.")]
Truth = Annotated[str | None, typer.Option("--truth", help="The true value: a number, or a file of numbers.")]
NotAUser = Annotated[
    bool,
    typer.Option(
        "--i-am-not-a-user", help="Read all logs of a hidden run: together they show the path, so never as its user."
    ),
]
Out = Annotated[Path, typer.Option("--out", help="Where to write the exported log (.gz: compressed).")]


def analyze(
    logs: Logs,
    plan: PlanFile = None,
    json: Json = False,
    html: Html = None,
    colluders: Colluders = "",
    max_colluders: MaxColluders = 1,
    truth: Truth = None,
    test: Test = None,
    i_am_not_a_user: NotAUser = False,
) -> None:
    """Check what happened in a run against what the theory promises: PASS, PARTIAL, UNKNOWN, OVERSPENT or FAIL."""
    from analyzer.analysis import analyze_runs
    from analyzer.read.truth import read_truth

    names = [name.strip() for name in colluders.split(",") if name.strip()]
    wanted = None if truth is None else read_truth(truth)
    analyses = analyze_runs(logs, plan, names, max_colluders, wanted, is_user=not i_am_not_a_user)
    scores = [] if test is None else _scores(analyses, test)
    if json:
        from analyzer.report.as_json import as_text

        text = as_text(analyses)
        typer.echo(text if test is None else _with_test(text, scores))
    else:
        from rich.console import Console

        from analyzer.report.terminal import show_all

        show_all(analyses, Console())
        for one in scores:
            typer.echo(one.sentence)
    if html is not None:
        from analyzer.report.page import write

        for path in write(analyses, html):
            typer.echo(f"Report: {path}", err=json)
    raise typer.Exit(analyses.status.exit_code)


def _scores(analyses: Analyses, test: Path) -> list[Score]:
    """How good the model of each run is on a table."""
    from coordinator_free_launcher.local.score import score_file

    found = [(one.run.plan, one.run.logs.result_value) for one in analyses.runs]
    return [score_file(plan, None if model is None else list(model), test) for plan, model in found]


def _with_test(text: str, scores: list[Score]) -> str:
    from dataclasses import asdict
    from json import dumps, loads

    return dumps({**loads(text), "test": [asdict(one) for one in scores]}, indent=1)


def export(
    log: Annotated[Path, typer.Argument(help="Your own view log.")],
    out: Out,
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite OUT if it exists; never the log itself.")
    ] = False,
) -> None:
    """Write your log as you may hand it to others: steps, neighbours and tags, no values and no times."""
    from analyzer.read.export import export as write_export

    kept = write_export(log, out, replace=replace)
    typer.echo(f"{kept} lines without values written to {out}")
