"""One page per run: verdict first, then the numbers, the pictures, every check with its rule, and each user's card."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from analyzer import integrity
from analyzer.analysis import Analyses
from analyzer.judge import Analysis, UserCard
from analyzer.limits import path_sentence
from analyzer.report.charts import all_charts
from analyzer.report.style import STYLE
from analyzer.report.svg import number
from analyzer.verdict import Check, Status, left_out, worst_first

_CARDS: Final = 40
_SAYS: Final = {
    Status.PASS: "Everything that could be checked is as the theory promises.",
    Status.PARTIAL: "Everything that was handed over is as the theory promises; some things were kept back on purpose.",
    Status.OVERSPENT: "The run is right, but its faults cost more than the plan reserved for them.",
    Status.FAIL: "Something is not as it must be. Look at the checks marked FAIL.",
    Status.UNKNOWN: "Nothing is wrong in what was handed over, but it is too little to say that all is well.",
}


def write(analyses: Analyses, target: Path) -> list[Path]:
    """Write the report (several runs: one file each, numbered); the paths written."""
    if len(analyses.runs) == 1:
        paths = [target]
    else:
        paths = [target.with_stem(f"{target.stem}-{i}") for i in range(1, len(analyses.runs) + 1)]
    for path, analysis in zip(paths, analyses.runs, strict=True):
        path.write_text(page(analysis, analyses.together), encoding="utf-8")
    return paths


def page(analysis: Analysis, together: Sequence[Check] = ()) -> str:
    plan, run = analysis.run.plan, analysis.run
    status = analysis.status
    notes = [escape(note) for note in run.logs.notes]
    if missed := left_out(analysis.checks):
        notes.append(escape(missed))
    if run.logs.insecure:
        notes.insert(0, "<b>INSECURE:</b> this run drew its noise from a seed. Its privacy is a rehearsal.")
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{status.value}: {escape(plan.name)}</title><style>{STYLE}</style></head><body><main>"
        f"<header class='{status.value}'><p class='verdict'>{status.value}</p>"
        f"<div><h1>{escape(plan.name)}: {escape(plan.task.kind)} on {plan.topology.title}</h1>"
        f"<p>{plan.n} users, {plan.topology.length}, run {run.logs.run[:12]}. {_SAYS[status]}</p></div></header>"
        + "".join(f"<p class='note'>{note}</p>" for note in notes)
        + _failed(analysis)
        + _tiles(analysis)
        + f"<section class='charts'>{all_charts(analysis)}</section>"
        + _checks("Checks", analysis.checks)
        + (_checks("All runs together", together) if together else "")
        + _collusions(analysis)
        + _cards(analysis)
        + f"<footer>plan {plan.hash[:16]} · {escape(plan.noise.mechanism)} noise · docs/THEORY.md and docs/ANALYZER.md "
        "explain every rule</footer></main></body></html>"
    )


def _tiles(analysis: Analysis) -> str:
    numbers, plan = analysis.privacy, analysis.run.plan
    tiles: list[tuple[str, str, str]] = []
    own = analysis.alone
    if own is not None:
        tiles.append(
            (number(own.spent_epsilon), f"epsilon {own.user} spent at most", f"{own.contributions} contributions")
        )
        seen = f"from {own.received_from} users, handed to {own.handed_to}"
        tiles.append((str(own.tokens_seen), f"times {own.user} saw the token", seen))
        if own.learned_epsilon is not None:
            text = f"if the others kept the plan; longest gap: {own.longest_gap} steps of others"
            tiles.append((number(own.learned_epsilon), "epsilon it could learn of any one user, at most", text))
    elif numbers.worst is not None:
        most = "at most " if numbers.upper_bound else ""
        tiles.append((f"{most}{number(numbers.worst_epsilon)}", "epsilon of the worst pair", numbers.words))
        tiles.append((number(numbers.mean_epsilon), "epsilon of the mean pair", f"at delta {plan.noise.delta:g}"))
    else:
        tiles.append(("?", "epsilon", numbers.unknown))
    if numbers.promised is not None:
        average = path_sentence(numbers.promised, numbers.path_limit)
        text = f"for {plan.walk.min_live} live users. {average}".strip()
        tiles.append((number(numbers.promised), "epsilon promised before the run", text))
    if numbers.local is not None:
        tiles.append((number(numbers.local), "epsilon of local DP", "if somebody saw every message"))
    result = analysis.utility
    if result.noise_std is not None:
        error = ""
        if result.truth_error is not None:
            error = f"error against the truth {number(result.truth_error)}"
        elif result.noise_error is not None:
            error = f"noise in it {number(max(abs(x) for x in result.noise_error))}"
        tiles.append((number(result.noise_std), f"expected error of the {result.what}", error))
    if result.remark is not None:
        tiles.append(("!", "outside the public bounds", result.remark))
    beside = integrity.abandoned(analysis.run)
    if beside["sent"] or beside["reissues"]:
        again = f"{beside['reissues']} re-issue{'s' if beside['reissues'] != 1 else ''}"
        text = f"{beside['contributions']} contributions in them, {again}"
        tiles.append((str(beside["sent"]), "tokens beside the accepted branch", text))
    return (
        "<section class='tiles'>"
        + "".join(
            f"<div class='tile'><b>{escape(big)}</b><span>{escape(what)}</span><small>{escape(more)}</small></div>"
            for big, what, more in tiles
        )
        + "</section>"
    )


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


def _collusions(analysis: Analysis) -> str:
    plan, name = analysis.run.plan, analysis.run.logs.name
    rows = [
        f"<tr><td>{escape(', '.join(name(v) for v in item.members))}</td><td>{escape(name(item.user))}</td>"
        f"<td>{'' if item.exact else '≥ '}{number(item.epsilon)}</td>"
        f"<td>{'none' if item.promised is None else number(item.promised)}</td></tr>"
        for item in analysis.privacy.collusions
    ]
    remark = f"<p>{plan.topology.collusion}</p>" if plan.topology.collusion else ""
    if not rows and not remark:
        return ""
    table = (
        "<div class='wide'><table><tr><th>together</th><th>about</th><th>epsilon</th><th>promised</th></tr>"
        f"{''.join(rows)}</table></div>"
        if rows
        else ""
    )
    return f"<section><h2>If users collude</h2>{remark}{table}</section>"


def _card(card: UserCard) -> str:
    lines = [f"{card.visits} visits, {card.contributions} contributions"]
    if card.gave_epsilon is not None:
        lines.append(f"gave away at most ε {number(card.gave_epsilon)}, to {card.gave_to}")
    if card.learned_epsilon is not None:
        lines.append(f"could learn at most ε {number(card.learned_epsilon)}, about {card.learned_about}")
    if not card.has_log:
        lines.append("handed over no log")
    if card.events:
        lines.append(f"{card.events} faults noticed")
    if card.clipped:
        lines.append(f"{card.clipped} values of its data lay outside the public bounds and were clipped")
    return f"<div class='card'><b>{escape(card.name)}</b>" + "".join(f"<p>{escape(x)}</p>" for x in lines) + "</div>"


def _cards(analysis: Analysis) -> str:
    cards = analysis.cards()
    first = sorted(cards, key=lambda card: -(card.gave_epsilon or 0.0))[:_CARDS] if len(cards) > _CARDS else cards
    body = f"<div class='cards'>{''.join(map(_card, first))}</div>"
    if len(cards) > _CARDS:
        rows = "".join(
            f"<tr><td>{escape(c.name)}</td><td>{c.visits}</td><td>{c.contributions}</td>"
            f"<td>{'' if c.gave_epsilon is None else number(c.gave_epsilon)}</td>"
            f"<td>{'' if c.learned_epsilon is None else number(c.learned_epsilon)}</td></tr>"
            for c in cards
        )
        head = "<tr><th>user</th><th>visits</th><th>contributions</th><th>gave ε</th><th>could learn ε</th></tr>"
        body = (
            f"<p>The {_CARDS} users that gave away most:</p>{body}<details><summary>All {len(cards)} users</summary>"
            f"<div class='wide'><table>{head}{rows}</table></div></details>"
        )
    return f"<section><h2>Each user's own card</h2>{body}</section>"
