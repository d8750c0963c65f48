"""The tables of docs/PLAN.md, from the reader itself: every key it asks for, what it allows, and its default.

``python -m simulator.plan_page`` writes the page again; the column "meaning" is kept, by key. A test compares.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from network_dp.errors import PlanError
from network_dp.plan_reader import from_dict

PAGE: Final = Path(__file__).parents[1] / "docs" / "PLAN.md"
BEGIN, END = "<!-- from the reader -->", "<!-- end -->"
_ROW: Final = re.compile(r"^\| `([\w.]+)` \|.*\| ([^|]*) \|$", re.MULTILINE)
_USERS: Final = [{"name": f"u{i}", "address": f"h:{i + 1}"} for i in range(5)]
_RING: Final = {"topology": "ring", "rounds": 1}
_COMPLETE: Final = {"topology": "complete", "steps": 1}
_GRAPH: Final = {"topology": "graph", "steps": 1}
_PEERS: Final = [{**user, "peers": [f"u{(i - 1) % 5}", f"u{(i + 1) % 5}"]} for i, user in enumerate(_USERS)]
#: Plans that together make the reader ask for every key: (table of the page, walk, task).
_SAMPLES: Final[tuple[tuple[str, Mapping[str, Any], Mapping[str, Any]], ...]] = (
    ("sum and mean", _RING, {"kind": "mean"}),
    ("sum and mean", {**_COMPLETE, "path": "hidden"}, {"kind": "mean"}),
    ("sum and mean", _GRAPH, {"kind": "mean"}),
    ("histogram", _RING, {"kind": "histogram", "buckets": 2}),
    ("sgd", _COMPLETE, {"kind": "sgd", "features": 1}),
    (
        "model",
        {**_COMPLETE, "path": "hidden"},
        {"kind": "model", "factory": "a:b", "dimension": 2, "clip": 1.0, "step_size": 1.0},
    ),
    ("custom", _RING, {"kind": "custom", "factory": "a:b", "sensitivity": 1.0}),
)


_OF_THE_SAMPLE: Final[Mapping[str, tuple[str, object]]] = {
    "walk.starter": ("the name of a user", "the first user"),
    "walk.min_live": ("a whole number up to the number of users, at least 2 (ring: 3)", None),
    "noise.mechanism": ('one of "gaussian", "laplace", "rr", as the task and the walk allow', "the first allowed"),
    "noise.distance": ("a whole number from 1 to the number of users less 1", 1),
    "users.peers": ("a list of different users", None),
    "noise.reissues": ("a whole number from 0 to 1,000", None),
    "task.step_size": ("a finite number above 0, at most 2/beta", "1/(beta steps)"),
    "task.columns": ("a list of different texts", None),
}


@dataclass(frozen=True, slots=True)
class Key:
    path: str
    allowed: str
    default: str


def keys() -> dict[str, list[Key]]:
    """Title of a table -> its keys, in the reader's order."""
    found: dict[str, dict[str, Key]] = {}
    for title, walk, task in _SAMPLES:

        def record(path: str, allowed: str, default: object, title: str = title) -> None:
            path = re.sub(r"\[\d+\]", "", path)
            allowed, default = _OF_THE_SAMPLE.get(path, (allowed, default))
            part = path.split(".")[0] if "." in path else "top level"
            table = f"task: {title}" if part == "task" else part
            found.setdefault(table, {}).setdefault(path, Key(path, allowed.removeprefix("must be "), _said(default)))

        for noise in ({"mechanism": "gaussian", "sigma": 1.0}, {"epsilon": 1.0}):
            body = {"walk": walk, "task": task, "noise": noise, "users": _PEERS if walk is _GRAPH else _USERS}
            try:
                from_dict(body, record)
            except PlanError as error:  # a sample that is not a plan would leave keys out unseen
                raise AssertionError(f"{title}: {error}") from error
    return {title: list(table.values()) for title, table in found.items()}


def _said(default: object) -> str:
    if default is ...:
        return "required"
    if default is None or default == {}:
        return "-"
    return str(default).lower() if isinstance(default, bool) else f"{default}"


def rendered(page: str) -> str:
    """The page with its tables made anew, every meaning kept."""
    meanings = dict(_ROW.findall(page))
    lines = []
    for title, table in keys().items():
        lines += ["", f"## {title}", "", "| key | allowed | default | meaning |", "|---|---|---|---|"]
        lines += [f"| `{k.path}` | {k.allowed} | {k.default} | {meanings.get(k.path, '')} |" for k in table]
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text()))
