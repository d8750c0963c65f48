"""What a finished run must show, read from the view logs alone and without the analyzer's code.

Walks back from the finish to the start: every link's two ends agree, every step's sum is exact, no step is missing or
doubled, no noise was drawn twice or used twice, and between two observations of a user others added a full noise.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from analyzer.analysis import analyze_runs
from analyzer.verdict import Status
from network_dp.view import Record
from tests.system.harness import Harness


@dataclass(frozen=True)
class Hop:
    """One visit of the accepted branch and what it sent."""

    user: str
    visit: Record
    sent: Record


def check(town: Harness, *, everybody: bool = True) -> list[Hop]:
    """All invariants; returns the accepted branch from start to finish."""
    same_result(town, everybody=everybody)
    branch = accepted_branch(town)
    conserved(town, branch)
    every_step_once(town, branch)
    no_hop_twice(town)
    no_noise_redrawn(town)
    increments_covered(town, branch)
    analyzed(town)
    return branch


def same_result(town: Harness, *, everybody: bool) -> None:
    texts = {name: town.state(name) / "result.json" for name in town.names}
    found = {name: path.read_text() for name, path in texts.items() if path.exists()}
    assert len(set(found.values())) == 1, found
    assert not everybody or len(found) == town.plan.n, f"no result at {set(town.names) - found.keys()}"


def accepted_branch(town: Harness) -> list[Hop]:
    views = {name: town.view(name) for name in town.names}
    # A result may be published again under a newer epoch; the walk itself ended where a finish has its value.
    value = next(r.fields["value"] for view in views.values() for r in view if r.kind == "result")
    finishes = [(n, r) for n, view in views.items() for r in view if r.kind == "finish" and r.fields["sent"] == value]
    assert len({(name, r.fields["visit"]) for name, r in finishes}) == 1, finishes
    user, sent = finishes[0]
    branch: list[Hop] = []
    while True:
        visits = [r for r in views[user] if r.kind == "visit" and r.fields["visit"] == sent.fields["visit"]]
        assert len(visits) == 1, f"{user}: visit {sent.fields['visit']} is logged {len(visits)} times"
        branch.append(Hop(user, visits[0], sent))
        if visits[0].fields["cause"] == "start":
            return branch[::-1]
        user, sent = _source(views, user, visits[0])


def _source(views: dict[str, list[Record]], user: str, visit: Record) -> tuple[str, Record]:
    """The send a visit came from: the other end of the hop, or the user's own older one when taken up again."""
    if visit.fields["cause"] == "reissue":
        sender, (counter, issuer, step), tag = user, visit.fields["base"], None
        epoch: tuple[int, int] = (counter, issuer)
    else:
        sender, epoch, step, tag = visit.fields["from"], visit.epoch, visit.step, visit.fields["tag"]
    found = [
        r
        for r in views[sender]
        if r.kind == "sent" and r.epoch == epoch and r.step == step and tag in (None, r.fields["tag"])
    ]
    assert found, f"{user} at step {visit.step}: {sender} never logged sending it"
    assert found[-1].fields["sent"] == visit.fields["received"], f"step {visit.step}: received is not what was sent"
    return sender, found[-1]


def _added(hop: Hop) -> Any:
    fields = hop.sent.fields
    parts = [fields["noise"], fields.get("cover"), fields["contribution"] if fields["real"] else None]
    return sum((np.array(part, dtype=object) for part in parts if part is not None), start=_nothing(hop))


def _nothing(hop: Hop) -> Any:
    return np.zeros(len(hop.sent.fields["sent"]), dtype=object)


def conserved(town: Harness, branch: list[Hop]) -> None:
    """Bit for bit: the published payload is the exact sum of everything the accepted branch logged."""
    total = _nothing(branch[0])
    for hop in branch:
        total = total + _added(hop)
        assert total.tolist() == hop.sent.fields["sent"], f"step {hop.visit.step} of {hop.user} does not add up"
    counted = sum(hop.sent.fields["real"] for hop in branch)
    for name in town.names:
        for record in town.of_kind(name, "result"):
            assert record.fields["value"] == total.tolist()
            assert record.fields["contributions"] == counted


def every_step_once(town: Harness, branch: list[Hop]) -> None:
    """No step lost, none doubled. Ring: a position is left out only if the one who left it out found its user down."""
    visits = [hop for hop in branch if hop.visit.fields["cause"] != "reissue"]
    steps = [hop.visit.step for hop in visits]
    if town.plan.topology.drawn:
        assert steps == list(range(town.plan.total_steps + 1))
        return
    start = town.names.index(town.plan.walk.starter)
    assert steps == sorted(set(steps))
    for hop, following in zip(branch, [*branch[1:], None], strict=True):
        last = hop.visit.step
        end = town.plan.total_steps + 1 if following is None else hop.sent.step
        for position in range(last + 1, end):
            skipped = town.names[(start + position - 1) % town.plan.n]
            down = {r.fields["peer"] for r in town.of_kind(hop.user, "peer") if r.fields["state"] == "down"}
            assert skipped in down, f"{hop.user} left out {skipped} (position {position}) without finding it down"
    for name in town.names:
        assert sum(hop.user == name and hop.sent.fields["real"] for hop in branch) <= (town.plan.walk.rounds or 0)


def no_hop_twice(town: Harness) -> None:
    holders: dict[tuple[Any, int], set[tuple[str, int]]] = defaultdict(set)
    lines = 0
    for name in town.names:
        for record in town.of_kind(name, "visit"):
            if record.fields["cause"] != "reissue":
                holders[record.epoch, record.step].add((name, record.fields["visit"]))
                lines += 1
    assert lines == len(holders), {hop: who for hop, who in holders.items() if len(who) > 1} or "a line twice"


def no_noise_redrawn(town: Harness) -> None:
    """Same visit and same units: same noise and contribution. Another visit: another noise."""
    used: dict[str, tuple[str, int]] = {}
    for name in town.names:
        per_visit: dict[tuple[int, int], set[str]] = defaultdict(set)
        for record in town.view(name):
            if record.kind in ("sent", "finish") and record.fields["units"]:
                key = (record.fields["visit"], record.fields["units"])
                per_visit[key].add(str((record.fields["noise"], record.fields["contribution"])))
                owner = used.setdefault(str(record.fields["noise"]), (name, key[0]))
                assert owner == (name, key[0]), f"the same noise at {owner} and {(name, key[0])}"
        redrawn = {key: drawn for key, drawn in per_visit.items() if len(drawn) > 1}
        assert not redrawn, f"{name}: {redrawn}"


def increments_covered(town: Harness, branch: list[Hop]) -> None:
    """Between two observations of a user, others that added data added a full noise (THEORY.md#ring, #release)."""
    full = town.plan.unit_count
    for name in town.names:
        data = noise = 0
        for hop in branch:
            if hop.user == name:
                where = f"{name} at step {hop.visit.step}"
                assert noise >= full or data == 0, f"{where}: {data} contributions under {noise} of {full} units"
                data = noise = 0
            else:
                data += hop.sent.fields["real"]
                noise += hop.sent.fields["units"]
        released = town.plan.walk.release == "all" and branch[-1].user != name
        assert not released or noise >= full or data == 0, f"the result shows {name} {data} under {noise}/{full}"


def analyzed(town: Harness) -> None:
    analyses = analyze_runs([town.folder])
    failed = [check for run in analyses.runs for check in run.checks if check.status is Status.FAIL]
    assert not failed, "\n".join(f"{c.title}: {c.observed} (bound {c.bound}) {c.evidence}" for c in failed)
