"""The verdict for a terminal: one table of checks, the numbers of privacy, and where to look when something failed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analyzer.alone import Alone
from analyzer.analysis import Analyses
from analyzer.judge import Analysis
from analyzer.limits import path_sentence
from analyzer.report.as_printed import as_printed
from analyzer.verdict import Check, Status, left_out, worst_first

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
    walk = f"{plan.topology.title}, {plan.n} users, {plan.topology.length}"
    console.print(f"[{style}]{analysis.status.value}[/]  {plan.name}: {plan.task.kind} on {walk}")
    if run.logs.insecure:
        console.print("[yellow]INSECURE: this run drew its noise from a seed; its privacy is a rehearsal.[/]")
    for note in run.logs.notes:
        console.print(f"[yellow]{note}[/]", soft_wrap=True)
    console.print(_table(analysis.checks, console.width))
    if missed := left_out(analysis.checks):
        console.print(f"[yellow]{escape(missed)}[/]")
    _numbers(analysis, console)
    _usefulness(analysis, console)


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


def _usefulness(analysis: Analysis, console: Console) -> None:
    """How good the result is, where that can be said."""
    result = analysis.utility
    if result.noise_std is not None:
        off = "" if result.truth_error is None else f", off the truth by {result.truth_error:.4g}"
        console.print(f"The {result.what}: expected error {result.noise_std:.4g} from noise{off}.")
    if result.remark is not None:
        console.print(f"[yellow]Remark:[/] {escape(result.remark)}.", soft_wrap=True)
    if result.learning:
        step, loss, accuracy = result.learning[-1]
        right = "" if math.isnan(accuracy) else f", {accuracy:.1%} of it right"
        console.print(f"The model after step {step}: loss {loss:.4g} on the test set{right}.")


def _numbers(analysis: Analysis, console: Console) -> None:
    numbers, delta = analysis.privacy, analysis.run.plan.noise.delta
    if analysis.alone is not None:
        _alone(analysis.alone, delta, console)
        return
    if numbers.worst is None:
        console.print(f"No privacy numbers: {numbers.unknown}.")
        return
    most = "at most " if numbers.upper_bound else ""
    console.print(
        f"Privacy at delta {delta:g}, {most}eps {numbers.worst_epsilon:.4g} for the worst pair, "
        f"{numbers.mean_epsilon:.4g} on average, {numbers.least_epsilon:.4g} at least."
    )
    console.print(numbers.words)
    rivals = []
    if numbers.promised is not None:
        rivals.append(f"promised before the run {numbers.promised:.4g}")
    if numbers.local is not None:
        rivals.append(f"local DP {numbers.local:.4g}")
    printed = as_printed(analysis.run.plan)
    if printed is not None:
        rivals.append(f"the paper's printed bound {printed:.4g} (no verdict uses it)")
    if rivals:
        console.print("To compare, eps: " + ", ".join(rivals) + ".")
    average = path_sentence(numbers.promised, numbers.path_limit)
    if average:
        console.print(average)
    for item in numbers.collusions:
        who = ", ".join(analysis.run.logs.name(v) for v in item.members)
        told = "together saw" if item.exact else "together saw at least"
        console.print(f"{who} {told} eps {item.epsilon:.4g} of {analysis.run.logs.name(item.user)}.")


def _alone(own: Alone, delta: float, console: Console) -> None:
    console.print(
        f"{own.user} alone: {own.visits} visits, {own.contributions} contributions; "
        f"spent at most eps {own.spent_epsilon:.4g} at delta {delta:g}."
    )
    console.print(
        f"It saw the token {own.tokens_seen} times, from {own.received_from} users, and handed it to {own.handed_to}."
    )
    if own.learned_epsilon is not None:
        console.print(
            f"It could have learned at most eps {own.learned_epsilon:.4g} about any one other user "
            f"(longest gap between its visits: {own.longest_gap} steps of others), if the others kept the plan: "
            "one log alone cannot show that."
        )
