"""The parts of docs/PROTOCOL.md that are made from the protocol: diagrams of its tables, talk from the simulator.

``python -m simulator.protocol_page --write`` rewrites them and the golden transcripts; a test fails when they drift.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path

import node.protocols.exits as exits
from node.protocols.walk.machine import CUSTODY, HAPPY_PATH, PROGRESS, WATCH
from node.protocols.walk.state import Phase, Watch
from simulator.faults.stories import STORIES, Story, tell, write_transcripts

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "PROTOCOL.md"
TRANSCRIPTS = ROOT / "tests" / "golden" / "scenarios"
_PART = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_MESSAGE = re.compile(r"^ +u(\d+) -> u(\d+) (.*)$")
_DEED = re.compile(r"^ +u(\d+) (journal|log|final result|compute|exit|error)(.*)$")


def _diagram(kinds: Iterable[Enum], edges: Mapping[tuple[str, str], list[str]]) -> str:
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    {kind.name}: {kind.name}<br/>{kind.value.replace(':', ',')}" for kind in kinds]
    for (start, end), labels in edges.items():
        named = " / ".join(label for label in labels if label)
        lines.append(f"    {start} --> {end}: {named}" if named else f"    {start} --> {end}")
    return "\n".join([*lines, "```", ""])


def _collect(rows: Iterable[tuple[Enum, str, Iterable[Enum]]]) -> dict[tuple[str, str], list[str]]:
    edges: dict[tuple[str, str], list[str]] = {}
    for start, outcome, ends in rows:
        for end in sorted(ends, key=lambda kind: kind.name):
            edges.setdefault((start.name, end.name), []).append(outcome)
    return edges


def custody() -> str:
    """A walk without faults; a state that leads on by itself has arrows without a name."""
    edges = _collect((start, event, [end]) for start, event, end in HAPPY_PATH)
    phases = [phase for phase in Phase if any(phase in (start, end) for start, _, end in HAPPY_PATH)]
    return _diagram(phases, edges)


def _names(phases: Iterable[Phase]) -> str:
    chosen = set(phases)
    return ", ".join(phase.name for phase in Phase if phase in chosen)


def events() -> str:
    """Every row of the table of custody: rows of one handler and one event are one line."""
    merged: dict[tuple[str, str], list[tuple[Phase, frozenset[Phase]]]] = {}
    for (phase, event), row in CUSTODY.items():
        handler = f"{row.run.__module__.rsplit('.', 1)[-1]}.{row.run.__name__}"
        merged.setdefault((event, handler), []).append((phase, row.to))
    lines = ["| event | in | handler | leads to |", "|---|---|---|---|"]
    for (event, handler), rows in merged.items():
        anywhere = len(rows) == len(Phase) - len(PROGRESS)
        stays = anywhere and all(phase in to for phase, to in rows)
        ends = frozenset.intersection(*(to for _, to in rows)) if stays else frozenset().union(*(to for _, to in rows))
        where = "any phase" if anywhere else _names(phase for phase, _ in rows)
        leads = ", ".join(filter(None, ["the same phase" if stays else "", _names(ends)]))
        lines.append(f"| {event} | {where} | `{handler}` | {leads} |")
    for phase, (run, to) in PROGRESS.items():
        handler = f"{run.__module__.rsplit('.', 1)[-1]}.{run.__name__}"
        lines.append(f"| (by itself) | {phase.name} | `{handler}` | {_names(to)} |")
    return "\n".join([*lines, ""])


def watch() -> str:
    return _diagram(Watch, _collect((kind, outcome, row.to) for (kind, outcome), row in WATCH.items()))


def exit_codes() -> str:
    source = Path(exits.__file__).read_text()
    rows = re.findall(r"^(\w+): Final = (\d+)  # (.*)$", source, re.MULTILINE)
    return "| code | name | meaning |\n|---|---|---|\n" + "".join(f"| {c} | {n} | {t} |\n" for n, c, t in rows)


def _sequence(story: Story) -> str:
    lines = tell(story)
    first, last = story.shown
    start = next(i for i, line in enumerate(lines) if first in line)
    end = next(i for i in range(start, len(lines)) if last in lines[i])
    body: list[str] = []
    for line in lines[start : end + 1]:
        message, deed = _MESSAGE.match(line), _DEED.match(line)
        if message is not None and "Locate" not in message[3]:
            arrow = "--x" if message[3].endswith("(lost)") else "->>"
            body.append(f"    u{message[1]}{arrow}u{message[2]}: {message[3].replace('#', ' step ')}")
        elif deed is not None and deed[2] in ("journal", "final result"):
            body.append(f"    Note over u{deed[1]}: {deed[2]}")
        elif line.startswith("-- "):
            user = re.search(r"u\d+", line)
            body.append(f"    Note over {user[0] if user else 'u0'}: {line[3:]}")
    users = sorted({int(user) for line in body for user in re.findall(r"\bu(\d+)\b", line)})
    people = [f"    participant u{user}" for user in users]
    return "\n".join(["```mermaid", "sequenceDiagram", *people, *body, "```"])


def sequences() -> str:
    return "\n".join(f"### {story.title}\n\n{story.text}\n\n{_sequence(story)}\n" for story in STORIES)


PARTS: Mapping[str, Callable[[], str]] = {
    "custody": custody,
    "events": events,
    "watch": watch,
    "exits": exit_codes,
    "sequences": sequences,
}


def render(page: str) -> str:
    """The page with all made parts made anew."""
    return _PART.sub(lambda part: part[1] + PARTS[part[2]]() + part[3], page)


def main() -> int:
    page = PAGE.read_text()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(render(page))
        write_transcripts(TRANSCRIPTS)
        return 0
    if render(page) != page:
        sys.stderr.write(f"{PAGE} is out of date: run python -m simulator.protocol_page --write\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
