"""The verdict for a terminal: what was computed, what anybody could learn, and every check."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analyzer.analysis import Analyses
from analyzer.checks.limits import path_sentence
from analyzer.report.words import answer, headline, learned, own_words
from analyzer.run import Analysis
from analyzer.verdict import Check, Status, left_out, worst_first
from network_dp.graphs.promise import pairs_in_words
from network_dp.in_words import way

_STYLE = {
    Status.PASS: "green",
    Status.PARTIAL: "green",
    Status.UNKNOWN: "yellow",
    Status.OVERSPENT: "bold yellow",
    Status.FAIL: "bold red",
}
_EVIDENCE = 3
_WIDE = 140


def show_all(analyses: Analyses, console: Console) -> None:
    """Each run in turn, then what only all of them together can show."""
    for analysis in analyses.runs:
        show(analysis, console)
    if analyses.together:
        console.print(_table(analyses.together, console.width))
        style = _STYLE[analyses.status]
        console.print(f"[{style}]{analyses.status.value}[/]  {len(analyses.runs)} runs together")


def show(analysis: Analysis, console: Console) -> None:
    run, plan = analysis.run, analysis.run.plan
    style = _STYLE[analysis.status]
    console.print(f"[{style}]{analysis.status.value}[/]  {plan.name}: {plan.task.kind} {way(plan)}")
    console.print(f"The run {headline(analysis)}.", highlight=False)
    if run.logs.insecure:
        console.print("[yellow]INSECURE: this run drew its noise from a seed; its privacy is a rehearsal.[/]")
    for note in run.logs.notes:
        console.print(f"[yellow]{note}[/]", soft_wrap=True)
    _answer(analysis, console)
    _learned(analysis, console)
    console.print(_table(analysis.checks, console.width))
    if missed := left_out(analysis.checks):
        console.print(f"[yellow]{escape(missed)}[/]")


def _table(checks: Sequence[Check], width: int) -> Table:
    """Wide terminals get every column; narrow ones the check and what was observed, limits only where they matter."""
    table = Table(box=None, pad_edge=False, show_header=width >= _WIDE, header_style="bold")
    table.add_column("verdict", no_wrap=True)
    for heading in ("check", "observed", "allowed", "theory") if width >= _WIDE else ("check",):
        table.add_column(heading, overflow="fold")
    for check in worst_first(checks):
        style = _STYLE[check.status]
        verdict = f"[{style}]{check.status.value}[/]"
        if width >= _WIDE:
            table.add_row(verdict, check.title, check.observed, check.bound, check.theory)
        else:
            allowed = "" if check.status is Status.PASS else f" [allowed: {check.bound}; {check.theory}]"
            table.add_row(verdict, f"{check.title}: {escape(check.observed + allowed)}")
        column = [""] if width >= _WIDE else []
        for finding in check.evidence[:_EVIDENCE]:
            table.add_row("", *column, f"[{style}]{escape(str(finding))}[/]")
        if check.evidence_count > _EVIDENCE:
            table.add_row("", *column, f"[{style}]... {check.evidence_count - _EVIDENCE} more[/]")
    return table


def _answer(analysis: Analysis, console: Console) -> None:
    """What was computed comes first."""
    told = answer(analysis)
    console.print(f"[bold]{escape(told.title)}: {escape(told.value)}[/]", highlight=False)
    for text in [*told.lines, *told.sentences]:
        console.print(text, markup=False, highlight=False)


def _learned(analysis: Analysis, console: Console) -> None:
    """Then what anybody could learn, and what that is to be compared with."""
    numbers = analysis.privacy
    for text in own_words(analysis.alone, analysis.run.plan.noise.delta) if analysis.alone else learned(analysis):
        console.print(text, markup=False, highlight=False)
    rivals = []
    if numbers.worst is not None and analysis.alone is None:
        rivals += [f"the average pair {numbers.mean_epsilon:.3g}", f"the least {numbers.least_epsilon:.3g}"]
    if numbers.promised is not None:
        rivals.append(f"promised before the run {numbers.promised:.3g}")
    if numbers.local is not None:
        seen = f"{numbers.local:.3g}" if math.isfinite(numbers.local) else "no bound"
        rivals.append(f"whoever saw every message (local DP) {seen}")
    if rivals:
        console.print(f"To compare, epsilon: {', '.join(rivals)}.", highlight=False)
    average = path_sentence(numbers.promised, numbers.path_limit)
    for text in (average, pairs_in_words(analysis.run.plan)):
        if text:
            console.print(text, highlight=False)
    for item in numbers.collusions:
        who = ", ".join(analysis.run.logs.name(v) for v in item.members)
        told = "together saw" if item.exact else "together saw at least"
        console.print(
            f"{who} {told} epsilon {item.epsilon:.3g} of {analysis.run.logs.name(item.user)}.", highlight=False
        )
