"""Was a run right? Told by everything its users ever logged, also what they lost with a disk, without the analyzer.

``Kept`` copies a log before its disk is taken away. Lines that were written again after a restart count once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from network_dp.plan import SgdTask
from network_dp.view import Record, decode
from tests.system.harness import Harness


class Kept:
    """All lines that were ever in somebody's log."""

    def __init__(self, town: Harness) -> None:
        self._town = town
        self._lines: dict[str, dict[str, Record]] = {name: {} for name in town.names}

    def look(self, *names: str) -> None:
        """Note what is in these logs now; a last line still being written is no line yet."""
        for name in names or self._town.names:
            path = self._town.state(name) / "view.jsonl"
            if path.exists():
                for line in path.read_text().split("\n")[:-1]:
                    self._lines[name].setdefault(line.rpartition(',"time":')[0] or line, decode(line))

    def of_kind(self, name: str, *kinds: str) -> list[Record]:
        return [record for record in self._lines[name].values() if record.kind in kinds]


def wrong_with(town: Harness, kept: Kept) -> list[str]:
    """Everything that contradicts one walk, walked once; nothing: it was right."""
    kept.look()
    found = _results(town)
    if found:
        return found
    return [*_two_holders(town, kept), *_redrawn(town, kept), *_branch(town, kept)]


def _results(town: Harness) -> list[str]:
    paths: dict[str, Path] = {name: town.state(name) / "result.json" for name in town.names}
    missing = [name for name, path in paths.items() if not path.exists()]
    if missing:
        return [f"no result at {', '.join(missing)}"]
    values = {json.dumps(json.loads(path.read_text())) for path in paths.values()}
    return [] if len(values) == 1 else [f"{len(values)} results"]


def _two_holders(town: Harness, kept: Kept) -> list[str]:
    """No hop has two holders, two senders' worth of bytes, or two visits."""
    visits: dict[Any, set[str]] = defaultdict(set)
    for name in town.names:
        for record in kept.of_kind(name, "visit"):
            if record.fields["cause"] != "reissue":
                visits[record.epoch, record.step].add(f"{name} {record.fields.get('tag')} {record.fields['received']}")
    return [f"hop {hop} was held {len(held)} times" for hop, held in visits.items() if len(held) > 1]


def _visit_of(kept: Kept, name: str, sent: Record) -> Record | None:
    """The visit that a send ended: the same number and epoch, and the latest before it."""
    found = [
        visit
        for visit in kept.of_kind(name, "visit")
        if (visit.fields["visit"], visit.epoch) == (sent.fields["visit"], sent.epoch) and visit.step <= sent.step
    ]
    return max(found, key=lambda visit: visit.step, default=None)


def _reached(town: Harness, kept: Kept) -> set[str]:
    """Tags of tokens that another user took, and of what a user handed to itself before such a one."""
    took = [(name, visit) for name in town.names for visit in kept.of_kind(name, "visit") if visit.fields.get("tag")]
    reached = {visit.fields["tag"] for name, visit in took if visit.fields["from"] != name}
    on = {(n, s.fields["visit"], s.epoch): s.fields.get("tag") for n in town.names for s in kept.of_kind(n, "sent")}
    for name, visit in reversed(took):
        if on.get((name, visit.fields["visit"], visit.epoch)) in reached:
            reached.add(visit.fields["tag"])
    return reached


def _redrawn(town: Harness, kept: Kept) -> list[str]:
    """One visit and number of units, one noise. What a lost disk forgot counts if it reached somebody: else nobody can
    know of it (ADR 8)."""
    drawn: dict[Any, set[str]] = defaultdict(set)
    reached = _reached(town, kept)
    for name in town.names:
        forgot = kept.of_kind(name, "rejoined")
        for sent in kept.of_kind(name, "sent", "finish"):
            if forgot and sent.kind == "sent" and sent.fields["tag"] not in reached:
                continue
            visit = _visit_of(kept, name, sent)
            if visit is not None and sent.fields["noise"] is not None:
                key = (name, visit.epoch, visit.step, visit.fields["cause"], sent.fields["units"])
                drawn[key].add(str((sent.fields["noise"], sent.fields["contribution"])))
    return [f"noise drawn again: {key}" for key, noises in drawn.items() if len(noises) > 1]


def _branch(town: Harness, kept: Kept) -> list[str]:
    """Back from the finish to the start: every link is the same at both ends, every step once, every sum exact."""
    value = next(r.fields["value"] for name in town.names for r in kept.of_kind(name, "result"))
    ends = [(n, r) for n in town.names for r in kept.of_kind(n, "finish") if r.fields["sent"] == value]
    if len(ends) != 1:
        return [f"{len(ends)} finishes with the value of the result"]
    (user, sent), counted, steps = ends[0], 0, list[int]()
    while True:
        visit = _visit_of(kept, user, sent)
        if visit is None:
            return [f"{user} sent step {sent.step} of no visit"]
        if not _adds_up(town, visit, sent):
            return [f"{user} at step {visit.step}: the sum is wrong"]
        counted += sent.fields["real"]
        if visit.fields["cause"] != "reissue":
            steps.append(visit.step)
        if visit.fields["cause"] == "start":
            break
        source = _source(kept, user, visit)
        if source is None:
            return [f"{user} got step {visit.step}, which nobody sent"]
        user, sent = source
        if sent.fields["sent"] != visit.fields["received"]:
            return [f"step {visit.step}: received is not what was sent"]
    return _counted(town, kept, counted) + _every_step(town, steps[::-1])


def _source(kept: Kept, user: str, visit: Record) -> tuple[str, Record] | None:
    if visit.fields["cause"] == "reissue":
        counter, issuer, step = visit.fields["base"]
        sends = [s for s in kept.of_kind(user, "sent") if (s.epoch, s.step) == ((counter, issuer), step)]
        sends = [s for s in sends if s.fields["sent"] == visit.fields["received"]]
        if sends:
            return user, sends[-1]
        held = [v for v in kept.of_kind(user, "visit") if (v.epoch, v.step) == ((counter, issuer), step)]
        return _source(kept, user, held[-1]) if held and held[-1].fields["cause"] == "handoff" else None
    sender = visit.fields["from"]
    sends = [s for s in kept.of_kind(sender, "sent") if s.fields.get("tag") == visit.fields["tag"]]
    return (sender, sends[-1]) if sends else None


def _adds_up(town: Harness, visit: Record, sent: Record) -> bool:
    """In integers, to the last bit (steps of SGD are recomputed by the analyzer)."""
    if isinstance(town.plan.task, SgdTask):
        return True
    fields = sent.fields
    parts = [visit.fields["received"], fields["noise"], fields.get("cover")]
    parts += [fields["contribution"]] if fields["real"] else []
    columns = zip(*(part for part in parts if part is not None), strict=True)
    return [sum(column) for column in columns] == fields["sent"]


def _counted(town: Harness, kept: Kept, counted: int) -> list[str]:
    told = {r.fields["contributions"] for name in town.names for r in kept.of_kind(name, "result")}
    return [] if told <= {None, counted} else [f"the walk has {counted} contributions, results say {told}"]


def _every_step(town: Harness, steps: list[int]) -> list[str]:
    if town.plan.walk.topology == "complete":
        return [] if steps == list(range(town.plan.total_steps + 1)) else ["a step is missing or twice"]
    return [] if steps == sorted(set(steps)) else ["a position is twice or out of order"]
