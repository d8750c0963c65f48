"""The last container: what came out, and whether it was private.

``python -m coordinator_free_launcher.engines.container_report PUBLIC VIEWS OUT`` reads the plan (and the truth, in a
demo) from PUBLIC, the exported views and results the users handed over from VIEWS/NAME, prints the result and the
verdict, and writes OUT/result.json and OUT/report.html. Ends with the verdict's exit code.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import typer
from rich.console import Console

from coordinator_free_launcher.cli.analyze import analyze
from coordinator_free_launcher.cli.crash import guarded
from coordinator_free_launcher.cli.errors import plain_errors
from coordinator_free_launcher.cli.show import show_result
from coordinator_free_launcher.local.comparison import compare
from coordinator_free_launcher.local.demo_data import DemoTruth
from coordinator_free_launcher.local.launch import read_result
from network_dp.plan_reader import load


def report_result(public: Path, views: Path, out: Path) -> None:
    """Print the result, beside the truth where a demo knows it, and keep it in OUT/result.json."""
    results = {path: read_result(path) for path in sorted(views.glob("*/result.json"))}
    known = [path for path, result in results.items() if result.get("value") is not None]
    if not known:
        sys.stdout.write("no user handed over a result\n")
        return
    shutil.copyfile(known[0], out / "result.json")
    plan, result, truth = load(public / "plan.toml"), results[known[0]], DemoTruth.of(public)
    comparison = None if truth is None else compare(plan, result, truth)
    show_result(plan, result, comparison, Console(width=100))


def main(public: Path, views: Path, out: Path) -> int:
    report_result(public, views, out)
    try:
        analyze([views], plan=public / "plan.toml", html=out / "report.html", i_am_not_a_user=True)
    except typer.Exit as verdict:
        return int(verdict.exit_code)
    return 0


def _main() -> None:
    with plain_errors():
        sys.exit(main(*(Path(argument) for argument in sys.argv[1:4])))


if __name__ == "__main__":
    guarded(_main)
