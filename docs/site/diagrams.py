"""Mermaid's sequence and state diagrams as SVG: the site is read without a network, so nothing draws them in a browser.

Only what docs/PROTOCOL.md uses (simulator/protocol_page.py writes it); colours are the site's own, light and dark.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from itertools import count
from typing import Final, NamedTuple

FENCE: Final = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MESSAGE: Final = re.compile(r"(\w+)(->>|--x)(\w+): (.*)")
_NOTE: Final = re.compile(r"Note over (\w+): (.*)")
_STATE: Final = re.compile(r"(\w+): \w+<br/>(.*)")
_CHANGE: Final = re.compile(r"(\w+) --> (\w+)(?:: (.*))?")

APART, ROW, HEAD = 190, 26, 34  # of a sequence, in pixels: users, messages, the first line
BOX, PORT, GAP, LANE, LETTER = 220, 18, 22, 12, 6.2  # of states: width, arrows' ends, between boxes, arrows, text
LINE: Final = 34  # letters of a state's text


class Change(NamedTuple):
    source: str
    target: str
    label: str


def drawn(markdown: str) -> str:
    """A page with its Mermaid blocks drawn."""
    return FENCE.sub(lambda found: _drawing(found[1].strip().splitlines()), markdown)


def _drawing(lines: Sequence[str]) -> str:
    kind, *rest = (line.strip() for line in lines)
    width, height, parts = {"sequenceDiagram": _sequence, "stateDiagram-v2": _states}[kind](rest)
    arrow = '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    inner = "".join([f'<defs>{arrow}<path d="M0 0L8 4L0 8z"/></marker></defs>', *parts])
    size = f'viewBox="0 0 {width:g} {height:g}" style="width:{width:g}px"'
    svg = f'<svg {size} role="img" aria-label="{kind.split("Diagram")[0]} diagram">{inner}</svg>'
    return f'<div class="diagram">{svg}</div>'


def _text(x: float, y: float, text: str, look: str = "", anchor: str = "middle") -> str:
    return f'<text class="{look}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _sequence(lines: Sequence[str]) -> tuple[float, float, list[str]]:
    """Users as columns, time downwards; a lost message ends half-way with a cross."""
    users = [line.split()[1] for line in lines if line.startswith("participant")]
    at = {user: APART * (i + 0.5) for i, user in enumerate(users)}
    parts, y = [], float(HEAD)
    for line in lines[len(users) :]:
        y += ROW
        if message := _MESSAGE.fullmatch(line):
            source, how, target, text = message.groups()
            lost = how == "--x"
            end = (at[source] + at[target]) / 2 if lost else at[target]
            look = 'class="line lost"' if lost else 'class="line" marker-end="url(#arrow)"'
            parts.append(f'<path {look} d="M{at[source]:g} {y:g}H{end:g}"/>')
            parts.append(_text((at[source] + at[target]) / 2, y - 5, text))
            parts += [_text(end, y + 4, "×", "cross")] * lost
        elif note := _NOTE.fullmatch(line):
            wide = LETTER * len(note[2]) + 14
            place = f'x="{at[note[1]] - wide / 2:g}" y="{y - 15:g}" width="{wide:g}" height="20" rx="4"'
            parts += [f'<rect class="note" {place}/>', _text(at[note[1]], y - 1, note[2])]
    bottom = y + 12
    lives = [f'<path class="life" d="M{x:g} {HEAD}V{bottom:g}"/>' for x in at.values()]
    heads = [_text(x, HEAD - 12, user, "name") for user, x in at.items()]
    return APART * len(users), bottom, [*lives, *heads, *parts]


def _states(lines: Sequence[str]) -> tuple[float, float, list[str]]:
    """Phases as boxes below each other; what leads down runs on the right, what leads up on the left."""
    told = {found[1]: found[2] for line in lines if (found := _STATE.fullmatch(line))}
    changes = [Change(found[1], found[2], found[3] or "") for line in lines if (found := _CHANGE.fullmatch(line))]
    order = {state: i for i, state in enumerate(told)}
    sides = {
        1: [change for change in changes if order[change.target] >= order[change.source]],
        -1: [change for change in changes if order[change.target] < order[change.source]],
    }
    ports = {state: {side: list(_ports(state, sides[side])) for side in sides} for state in told}
    lanes = {side: _lanes(found, order) for side, found in sides.items()}
    begin = {
        side: max((LETTER * len(change.label) for change in found), default=0.0) + 16 for side, found in sides.items()
    }
    left, right = (begin[side] + LANE * (1 + max(lanes[side].values(), default=0)) for side in (-1, 1))
    tops, y = {}, 10.0
    for state in told:
        tops[state] = y
        y += _height(ports[state]) + GAP
    parts = [
        part for state, text in told.items() for part in _box(left, tops[state], _height(ports[state]), state, text)
    ]
    for side, found in sides.items():
        ends = {
            (change, leaves): tops[state] + 16 + PORT * ports[state][side].index((change, leaves))
            for change in found
            for state, leaves in ((change.source, True), (change.target, False))
        }
        edge = left + (BOX if side == 1 else 0)
        for change in found:
            y1, y2 = ends[change, True], ends[change, False]
            x = edge + side * (begin[side] + LANE * lanes[side][change])
            parts.append(f'<path class="line" marker-end="url(#arrow)" d="M{edge:g} {y1:g}H{x:g}V{y2:g}H{edge:g}"/>')
            parts.append(_text(edge + side * 8, y1 - 4, change.label, anchor="start" if side == 1 else "end"))
    return left + BOX + right, y - GAP + 10, parts


def _ports(state: str, changes: Sequence[Change]) -> Iterator[tuple[Change, bool]]:
    """The ends of arrows at one side of a box, from above: what comes in and what goes out."""
    yield from ((change, False) for change in changes if change.target == state)
    yield from ((change, True) for change in changes if change.source == state)


def _height(ports: dict[int, list[tuple[Change, bool]]]) -> float:
    return max(54.0, 14 + PORT * max(map(len, ports.values())))


def _lanes(changes: Sequence[Change], order: dict[str, int]) -> dict[Change, int]:
    """Short arrows nearest to the boxes; two share a lane where they do not meet."""
    lanes: dict[Change, int] = {}
    spans = {change: sorted((order[change.source], order[change.target])) for change in changes}
    for change in sorted(changes, key=lambda one: spans[one][1] - spans[one][0]):
        low, high = spans[change]
        taken = {lane for other, lane in lanes.items() if spans[other][0] <= high and spans[other][1] >= low}
        lanes[change] = next(lane for lane in count() if lane not in taken)
    return lanes


def _box(x: float, y: float, height: float, name: str, text: str) -> list[str]:
    lines = textwrap.wrap(text, LINE)
    top = y + height / 2 - 7 * len(lines)
    return [
        f'<rect class="state" x="{x:g}" y="{y:g}" width="{BOX}" height="{height:g}" rx="6"/>',
        _text(x + BOX / 2, top + 4, name, "name"),
        *(_text(x + BOX / 2, top + 4 + 14 * i, line) for i, line in enumerate(lines, start=1)),
    ]
