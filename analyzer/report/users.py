"""Each user's own card, and what users could learn together."""

from __future__ import annotations

from html import escape
from typing import Final

from analyzer.report.svg import number
from analyzer.run import Analysis, UserCard
from network_dp.in_words import count

_CARDS: Final = 40


def _card(card: UserCard) -> str:
    lines = [f"{count(card.visits, 'visit')}, {count(card.contributions, 'contribution')}"]
    if card.gave_epsilon is not None:
        lines.append(f"gave away at most ε {number(card.gave_epsilon)}, to {card.gave_to}")
    if card.learned_epsilon is not None:
        lines.append(f"could learn at most ε {number(card.learned_epsilon)}, about {card.learned_about}")
    if not card.has_log:
        lines.append("handed over no log")
    if card.events:
        lines.append(f"{count(card.events, 'fault')} noticed")
    if card.clipped:
        was = "was" if card.clipped == 1 else "were"
        lines.append(f"{count(card.clipped, 'value')} of its data lay outside the public bounds and {was} clipped")
    return f"<div class='card'><b>{escape(card.name)}</b>" + "".join(f"<p>{escape(x)}</p>" for x in lines) + "</div>"


def cards(analysis: Analysis) -> str:
    """Folded: a reader who wants to know about one user opens them."""
    if not analysis.shows_path:
        return ""
    found = analysis.cards()
    first = sorted(found, key=lambda card: -(card.gave_epsilon or 0.0))[:_CARDS] if len(found) > _CARDS else found
    body = f"<div class='cards'>{''.join(map(_card, first))}</div>"
    if len(found) > _CARDS:
        rows = "".join(
            f"<tr><td>{escape(c.name)}</td><td>{c.visits}</td><td>{c.contributions}</td>"
            f"<td>{'' if c.gave_epsilon is None else number(c.gave_epsilon)}</td>"
            f"<td>{'' if c.learned_epsilon is None else number(c.learned_epsilon)}</td></tr>"
            for c in found
        )
        head = "<tr><th>user</th><th>visits</th><th>contributions</th><th>gave ε</th><th>could learn ε</th></tr>"
        body = (
            f"<p>The {_CARDS} users that gave away most:</p>{body}<details class='fold'><summary>All {len(found)} users"
            f"</summary><div class='wide'><table>{head}{rows}</table></div></details>"
        )
    return f"<details class='fold'><summary>Each user's own card ({len(found)})</summary>{body}</details>"


def collusions(analysis: Analysis) -> str:
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
    head = "<tr><th>together</th><th>about</th><th>epsilon</th><th>promised</th></tr>"
    table = f"<div class='wide'><table>{head}{''.join(rows)}</table></div>" if rows else ""
    return f"<section><h2>If users collude</h2>{remark}{table}</section>"
