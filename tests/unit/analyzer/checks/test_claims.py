"""No check says more than it knows."""

from __future__ import annotations

import io

from rich.console import Console

from analyzer.analysis import analyze_runs
from analyzer.reconstruct import exposures
from analyzer.report.page import page
from analyzer.report.terminal import show_all
from analyzer.verdict import Status, left_out
from benchmarks.generated_logs import plan_text, write_run
from tests.unit.analyzer import tamper
from tests.unit.analyzer.conftest import GRID

CUSTOM = 'kind = "custom"\nfactory = "mine:task"\ndimension = 1\nsensitivity = 1.0'


def by_id(analysis):
    return {check.id: check for check in analysis.checks}


def printed(analyses):
    console = Console(width=100, file=io.StringIO())
    show_all(analyses, console)
    return " ".join(console.file.getvalue().split())


def test_sets_that_were_grown_saw_at_least_what_is_shown(tmp_path, monkeypatch):
    """Tried all: PASS. Grown from the worst pair: another set may have seen more, so it is PARTIAL at best."""
    write_run(tmp_path, plan_text(n=6, length=60), 1)
    (tried,) = analyze_runs([tmp_path], max_colluders=3).runs
    assert by_id(tried)["colluders-3"].status is Status.PASS
    monkeypatch.setattr(exposures, "_SETS_TRIED", 1)
    analyses = analyze_runs([tmp_path], max_colluders=3)
    grown = by_id(analyses.runs[0])["colluders-3"]
    assert grown.status is Status.PARTIAL and "at least eps" in grown.observed
    assert analyses.status is Status.PARTIAL
    assert "Not looked at in full: 2 colluders" in printed(analyses)


def test_colluders_of_a_run_with_a_missing_log_are_unknown(tmp_path):
    walk = write_run(tmp_path, plan_text(n=6, length=4), 1)
    idle = next(name for name in walk.names if not any(x["kind"] == "visit" for x in tamper.read(tmp_path, name)))
    paths = [tamper.log_of(tmp_path, name) for name in walk.names if name != idle]
    (analysis,) = analyze_runs(paths, max_colluders=2).runs
    assert by_id(analysis)["colluders-2"].status is Status.UNKNOWN


def test_the_bounds_of_a_task_of_ones_own_are_not_looked_at(tmp_path):
    write_run(tmp_path, plan_text(task=CUSTOM, noise=f"sigma = 2.0\n{GRID}"), 1)
    (analysis,) = analyze_runs([tmp_path]).runs
    bounds = by_id(analysis)["bounds"]
    assert bounds.status is Status.PARTIAL and "not looked at" in bounds.observed
    assert analysis.status is Status.PARTIAL
    assert left_out(analysis.checks) == "Not looked at in full: Contributions keep the public bounds."
    assert left_out(analysis.checks) in page(analysis)


def test_one_log_alone_says_what_it_takes_for_granted(tmp_path):
    write_run(tmp_path, plan_text(), 1)
    analyses = analyze_runs([tamper.log_of(tmp_path, "user-1")])
    assert "if the others kept the plan: one log alone cannot show that" in printed(analyses)
    assert "if the others kept the plan" in page(analyses.runs[0])
