"""One page per run: what was computed, what anybody could learn, every check with its rule, and each user's card."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

from analyzer.analysis import Analyses
from analyzer.checks import integrity
from analyzer.report import learned, result, users
from analyzer.report.as_json import as_dict
from analyzer.report.charts import main_charts, special_charts
from analyzer.report.style import STYLE
from analyzer.report.words import band, headline
from analyzer.run import Analysis
from analyzer.verdict import Check, Status, left_out, worst_first
from network_dp import __version__
from network_dp.in_words import count, way
from network_dp.plan_reader import dump

_PLAN_CHARACTERS: Final = 40_000
_LATEST_S: Final = 253402300799.0  # the last second of the year 9999


def write(analyses: Analyses, target: Path) -> list[Path]:
    """Write the report (several runs: one file each, numbered); the paths written."""
    if len(analyses.runs) == 1:
        paths = [target]
    else:
        paths = [target.with_stem(f"{target.stem}-{i}") for i in range(1, len(analyses.runs) + 1)]
    now = datetime.now(UTC)
    for path, analysis in zip(paths, analyses.runs, strict=True):
        path.write_text(page(analysis, analyses.together, now), encoding="utf-8")
    return paths


def page(analysis: Analysis, together: Sequence[Check] = (), written: datetime | None = None) -> str:
    plan, run, status = analysis.run.plan, analysis.run, analysis.status
    title = f"{plan.name}: {plan.task.kind} {way(plan)}"
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{status.value}: {escape(plan.name)}</title><style>{STYLE}</style></head><body><main>"
        f"<header class='{status.value}'><p class='verdict'>{status.value}</p>"
        f"<div><h1>{escape(title)}</h1><p class='head'>The run {escape(headline(analysis))}.</p>"
        f"{_when(analysis)}</div></header>"
        + "".join(f"<p class='note'>{note}</p>" for note in _notes(analysis))
        + _failed(analysis)
        + result.section(analysis)
        + learned.section(analysis)
        + _charts(main_charts(analysis))
        + users.collusions(analysis)
        + _checks("Checks", analysis.checks)
        + (_checks("All runs together", together) if together else "")
        + f"<section>{users.cards(analysis)}{_special(analysis)}{_plan(analysis)}</section>"
        + f"<footer>{_downloads(analysis)}<p>network-dp {__version__}"
        + ("" if written is None else f" · report written {_minute(written)}")
        + f" · run {run.logs.run[:12]} · plan {plan.hash[:16]} · {escape(plan.noise.mechanism)} noise · docs/THEORY.md "
        "and docs/ANALYZER.md explain every rule</p></footer></main></body></html>"
    )


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _when(analysis: Analysis) -> str:
    """When the token set out, where the logs say so."""
    times = analysis.run.logs.visits["time"]
    times = times[(times > 0) & (times < _LATEST_S)]  # NaN: an exported log
    if len(times) == 0:
        return ""
    return f"<p>Run on {_minute(datetime.fromtimestamp(float(times.min()), UTC))}.</p>"


def _notes(analysis: Analysis) -> list[str]:
    notes = [escape(note) for note in analysis.run.logs.notes]
    if missed := left_out(analysis.checks):
        notes.append(escape(missed))
    if analysis.run.logs.insecure:
        notes.insert(0, "<b>INSECURE:</b> this run drew its noise from a seed. Its privacy is a rehearsal.")
    if not analysis.shows_path and not analysis.run.plan.in_one_round:
        notes.append("The path is hidden: this report leaves out who held the token, and when.")
    lost = integrity.abandoned(analysis.run)
    if lost["sent"]:
        notes.append(
            f"{count(lost['sent'], 'token')} left the accepted branch, with "
            f"{count(lost['contributions'], 'contribution')} in them; {count(lost['reissues'], 're-issue')}. They are "
            "not in the result, but they were seen and count for privacy."
        )
    return notes


def _charts(charts: Sequence[str]) -> str:
    return f"<section class='charts'>{''.join(charts)}</section>" if charts else ""


def _special(analysis: Analysis) -> str:
    charts = special_charts(analysis)
    if not charts:
        return ""
    title = f"For specialists ({count(len(charts), 'chart')})"
    return f"<details class='fold'><summary>{title}</summary>{_charts(charts)}</details>"


def _plan(analysis: Analysis) -> str:
    text = dump(analysis.run.plan)
    if len(text) > _PLAN_CHARACTERS:
        text = text[:_PLAN_CHARACTERS] + "\n# and more: the whole plan is in plan.toml beside the logs"
    return f"<details class='fold'><summary>The plan</summary><pre>{escape(text)}</pre></details>"


def _downloads(analysis: Analysis) -> str:
    """Links that hold what they offer: the page fetches nothing."""
    name = analysis.run.plan.name
    files = [(f"{name}-verdict.json", "application/json", json.dumps(as_dict(analysis), allow_nan=False))]
    if analysis.utility.estimate is not None:
        files.append((f"{name}-result.csv", "text/csv", _result_csv(analysis)))
    if analysis.privacy.epsilon is not None and analysis.run.plan.n <= 300:
        files.append((f"{name}-pairs.csv", "text/csv", _pairs_csv(analysis)))
    links = [
        f"<a download='{escape(file)}' href='data:{kind};base64,{b64encode(text.encode()).decode()}'>{escape(file)}</a>"
        for file, kind, text in files
    ]
    return f"<p>Download the numbers: {', '.join(links)}</p>"


def _result_csv(analysis: Analysis) -> str:
    found, task, half = analysis.utility, analysis.run.plan.task, band(analysis)
    lines = ["name,value,half_width_95,truth"]
    for i, value in enumerate(found.estimate or ()):
        truth = "" if found.truth is None else f"{found.truth[i]:.10g}"
        lines.append(f"{_cell(task.coordinate(i))},{value:.10g},{'' if half is None else f'{half:.6g}'},{truth}")
    return "\n".join(lines) + "\n"


def _pairs_csv(analysis: Analysis) -> str:
    name, epsilon = analysis.run.logs.name, analysis.privacy.epsilon
    assert epsilon is not None
    pairs = [(u, v) for u in range(len(epsilon)) for v in range(len(epsilon)) if u != v]
    rows = [f"{_cell(name(u))},{_cell(name(v))},{_epsilon(float(epsilon[u, v]))}" for u, v in pairs]
    return "\n".join(["user,to,epsilon", *rows]) + "\n"


def _epsilon(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else "inf"


def _cell(text: str) -> str:
    """A field of a CSV file; a spreadsheet must not take it for a formula."""
    safe = "'" + text if text[:1] in "=+-@\t" else text
    return '"' + safe.replace('"', '""') + '"' if any(mark in safe for mark in ',"\n') else safe


def _checks(title: str, checks: Sequence[Check]) -> str:
    rows = []
    for check in worst_first(checks):
        evidence = "".join(f"<li>{escape(str(finding))}</li>" for finding in check.evidence)
        more = check.evidence_count - len(check.evidence)
        evidence += f"<li>and {more} more</li>" if more > 0 else ""
        opened = " open" if check.status is Status.FAIL else ""
        rows.append(
            f"<details class='check {check.status.value}'{opened}><summary><em>{check.status.value}</em>"
            f"<span>{escape(check.title)}</span><small>{escape(check.observed)}</small></summary>"
            f"<dl><dt>allowed</dt><dd>{escape(check.bound)}</dd><dt>rule</dt><dd>{escape(check.rule)}</dd>"
            f"<dt>theory</dt><dd>{escape(check.theory)}</dd></dl>"
            + (f"<ul>{evidence}</ul>" if evidence else "")
            + "</details>"
        )
    return f"<section><h2>{escape(title)}</h2>{''.join(rows)}</section>"


def _failed(analysis: Analysis) -> str:
    """What is wrong comes first, with the lines that show it."""
    failed = [check for check in analysis.checks if check.status is Status.FAIL]
    return _checks("What is wrong", failed) if failed else ""
