"""What anybody could learn about anybody: a fixed scale from 0 to 10, a map of all pairs, and the worst of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final

import numpy as np

from analyzer.checks.limits import path_sentence
from analyzer.checks.single_log import Alone
from analyzer.read.tables import Floats
from analyzer.report.svg import blocks, heat, number, png, swatch
from analyzer.report.words import learned, own_words
from analyzer.run import Analysis
from network_dp.graphs.promise import pairs_in_words
from network_dp.strength import MEDIUM, STRONG, TOP

_CELLS: Final = 60  # users up to which every pair is a cell with its own tip
_NAMES: Final = 30  # names on an axis
_PAIRS: Final = 20
_ALIKE: Final = 0.02  # of the scale: below, a map of all pairs is one colour
_LEFT, _RIGHT, _Y = 20, 695, 44

Mark = tuple[str, str, float]  # kind, what it is, epsilon


def section(analysis: Analysis) -> str:
    if analysis.alone is not None:
        return _alone(analysis, analysis.alone)
    numbers, plan = analysis.privacy, analysis.run.plan
    marks: list[Mark] = []
    if math.isfinite(numbers.worst_epsilon):
        on = "on the path that was walked" if analysis.shows_path else "in this run"
        marks.append(("worst", f"the most anybody could learn {on}", numbers.worst_epsilon))
    if math.isfinite(numbers.mean_epsilon):
        marks.append(("mean", "the average pair of users", numbers.mean_epsilon))
    if numbers.promised is not None:
        marks.append(("promise", f"promised before the run, for {plan.walk.min_live} live users", numbers.promised))
    if numbers.local is not None:
        marks.append(("local", "whoever saw every message (local DP)", numbers.local))
    average = f"{path_sentence(numbers.promised, numbers.path_limit)} {pairs_in_words(plan)}".strip()
    remark = f"<p class='soft'>{escape(average)}</p>" if average else ""
    return _panel("What anybody could learn", learned(analysis), scale(marks) + remark)


def _alone(analysis: Analysis, own: Alone) -> str:
    """One log alone bounds what its user gave and could learn, if the others kept the plan."""
    marks: list[Mark] = [("worst", f"{own.user} gave away, at most", own.spent_epsilon)]
    if own.learned_epsilon is not None:
        marks.append(("mean", f"{own.user} could learn about any one other, at most", own.learned_epsilon))
    if analysis.privacy.promised is not None:
        marks.append(("promise", "promised before the run", analysis.privacy.promised))
    said = own_words(own, analysis.run.plan.noise.delta)
    return _panel(f"What {own.user} gave away and could learn", said, scale(marks))


def _panel(title: str, said: Sequence[str], below: str) -> str:
    sentences = "".join(f"<p>{escape(text)}</p>" for text in said)
    return f"<section><h2>{escape(title)}</h2><div class='panel'>{sentences}{below}</div></section>"


def _at(epsilon: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * min(epsilon, TOP) / TOP


def scale(marks: Sequence[Mark]) -> str:
    """Strong, medium and weak on one strip that is the same in every report; what lies beyond it stands at its end."""
    zones = (("strong", 0.0, STRONG), ("medium", STRONG, MEDIUM), ("weak", MEDIUM, TOP))
    parts = [
        f'<rect class="zone {word}" x="{_at(low):.0f}" y="{_Y}" width="{_at(high) - _at(low):.0f}" height="22">'
        f"<title>{word}: epsilon {low:g} to {high:g}</title></rect>"
        f'<text class="zone-name" x="{(_at(low) + _at(high)) / 2:.0f}" y="{_Y + 16}" text-anchor="middle">{word}</text>'
        for word, low, high in zones
    ]
    parts += [
        f'<text class="tick" x="{_at(tick):.0f}" y="{_Y + 38}" text-anchor="middle">{tick:g}</text>'
        for tick in (0, STRONG, MEDIUM, 5, TOP)
    ]
    keys, labelled = [], False
    for kind, text, value in marks:
        shown = "no bound" if math.isinf(value) else number(value)
        tip = escape(f"{text}: {shown}")
        if math.isfinite(value):
            at = _at(value)
            parts.append(f'<path class="mark {kind}" d="M{at:.1f},{_Y - 2} l-8,-14 h16 z"><title>{tip}</title></path>')
            if not labelled:  # the others would overlap it; the legend has all numbers
                labelled, place = True, min(max(at, 24), _RIGHT - 20)
                parts.append(f'<text class="first" x="{place:.1f}" y="{_Y - 20}" text-anchor="middle">{shown}</text>')
        keys.append(f"<span>{swatch('triangle', f'mark {kind}')}{tip}</span>")
    label = 'role="img" aria-label="Epsilon on a scale from 0 (strong) to 10 (weak)"'
    return (
        f'<svg class="epsilon-scale" viewBox="0 0 720 {_Y + 46}" {label}>{"".join(parts)}</svg>'
        f'<div class="legend">{"".join(keys)}</div>'
    )


def pairs(analysis: Analysis) -> str:
    """A map of all pairs on the same scale; "" where nothing was measured."""
    epsilon, plan = analysis.privacy.epsilon, analysis.run.plan
    if epsilon is None:
        return ""
    shown = np.where(np.isfinite(epsilon), np.minimum(epsilon, TOP), TOP).astype(np.float64) / TOP
    np.fill_diagonal(shown, np.nan)
    if np.nanmax(shown) - np.nanmin(shown) < _ALIKE:
        return _all_alike(analysis, epsilon)
    if plan.n <= _CELLS:
        body = _cells(analysis, shown, epsilon)
    else:
        body = f'<img class="pixels" alt="Epsilon of every pair of users" src="{png(heat(blocks(shown)))}">'
    strip = png(heat(np.linspace(0, 1, 120)[None, :].repeat(8, axis=0)))
    legend = f'<div class="scale"><span>0</span><img alt="" src="{strip}"><span>10 or more</span></div>'
    blocked = (
        " Each point shows the largest value of a block of users; the table names the pairs." if plan.n > 160 else ""
    )
    words = f"Epsilon at delta {plan.noise.delta:g} of what each user (row) gave away to each other (column).{blocked}"
    return (
        f"<figure><h3>Who could learn about whom</h3><div class='square'>{body}{legend}</div>"
        f"<figcaption>{escape(words)}{_worst(analysis)}</figcaption></figure>"
    )


def _all_alike(analysis: Analysis, epsilon: Floats) -> str:
    others = epsilon[~np.eye(len(epsilon), dtype=np.bool_)]
    words = f"All pairs of users are alike: epsilon {number(float(others.min()))} to {number(float(others.max()))}."
    return (
        "<figure class='words'><h3>Who could learn about whom</h3>"
        f"<figcaption><p>{words}</p>{_worst(analysis)}</figcaption></figure>"
    )


def _cells(analysis: Analysis, shown: Floats, epsilon: Floats) -> str:
    n, name = analysis.run.plan.n, analysis.run.logs.name
    names = [name(user) for user in range(n)]
    colours = heat(shown)[..., :3]
    room, size = 90.0, 360.0 / n
    parts = []
    for u in range(n):
        for v in range(n):
            if u != v:
                colour = "#" + "".join(f"{int(part):02x}" for part in colours[u, v])
                tip = escape(f"{names[u]} to {names[v]}: {number(float(epsilon[u, v]))}")
                parts.append(f'<rect x="{v}" y="{u}" width="1" height="1" fill="{colour}"><title>{tip}</title></rect>')
    every = max(1, math.ceil(n / _NAMES))
    font = min(11.0, max(6.0, size * every * 0.8))
    labels = []
    for i in range(0, n, every):
        at, text = room + (i + 0.5) * size + font / 3, escape(_short(names[i]))
        look = f'class="tick" style="font-size:{font:.1f}px"'
        labels.append(f'<text {look} x="{room - 5}" y="{at:.1f}" text-anchor="end">{text}</text>')
        labels.append(f'<text {look} transform="translate({at:.1f} {room - 5}) rotate(-90)">{text}</text>')
    return (
        '<svg viewBox="0 0 452 452" role="img" aria-label="Epsilon of every pair of users">'
        f'<g shape-rendering="crispEdges" transform="translate({room} {room}) scale({size:.4f})">{"".join(parts)}</g>'
        f"{''.join(labels)}"
        '<text class="label" style="font-size:11px" x="2" y="20">gave ↓ to →</text></svg>'
    )


def _short(name: str) -> str:
    return name if len(name) <= 12 else f"{name[:11]}…"


def _worst(analysis: Analysis) -> str:
    """The pairs that gave away most, as a table that opens."""
    numbers, name = analysis.privacy, analysis.run.logs.name
    assert numbers.epsilon is not None
    order = np.argsort(-numbers.epsilon, axis=None, kind="stable")[: _PAIRS + len(numbers.epsilon)]
    found = [(int(u), int(v)) for u, v in zip(*np.unravel_index(order, numbers.epsilon.shape), strict=True) if u != v]
    rows = "".join(
        f"<tr><td>{escape(name(u))}</td><td>{escape(name(v))}</td><td>{number(float(numbers.epsilon[u, v]))}</td></tr>"
        for u, v in found[:_PAIRS]
    )
    head = "<tr><th>user</th><th>to</th><th>epsilon</th></tr>"
    return (
        f"<details class='fold'><summary>The pairs that gave away most</summary><table>{head}{rows}</table></details>"
    )
