"""Runs over real processes, and their view logs read back as one walk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from coordinator_free_launcher.identity.bundle import user_folder
from coordinator_free_launcher.local.launch import Outcome, launch, read_run
from network_dp import view
from network_dp.plan import Plan
from node.protocols.walk.values import Payload
from node.storage.result_file import shared
from node.tasks import Task, make_task
from tests.system.harness import Rows, bundles


@dataclass(frozen=True)
class Visit:
    """One visit of the token: what came, what was put in, what left (the last plan, if it changed)."""

    user: str
    came: Mapping[str, Any]
    left: Mapping[str, Any]

    @property
    def step(self) -> int:
        return int(self.came["step"])

    @property
    def next(self) -> str | None:
        return self.left.get("to")

    @property
    def parts(self) -> list[list[int]]:
        return [self.left[part] for part in ("contribution", "noise", "cover") if self.left.get(part) is not None]


class Ran:
    """A run's folder after its processes ended."""

    def __init__(self, folder: Path, outcome: Outcome) -> None:
        self.folder = folder
        self.outcome = outcome
        self.plan = read_run(folder)

    def state(self, name: str) -> Path:
        return user_folder(self.folder, name) / "state"

    @cached_property
    def task(self) -> Task:
        return make_task(self.plan)

    @cached_property
    def views(self) -> dict[str, list[view.Record]]:
        """Every line of every view log, each checked against the schema."""
        logs = {name: (self.state(name) / "view.jsonl").read_text().splitlines() for name in self.plan.names}
        return {name: [view.decode(line) for line in lines] for name, lines in logs.items()}

    @cached_property
    def results(self) -> dict[str, dict[str, Any]]:
        return {name: json.loads((self.state(name) / "result.json").read_text()) for name in self.plan.names}

    @cached_property
    def walk(self) -> list[Visit]:
        """All visits in order of steps; every visit has ended, no step was visited twice."""
        visits = []
        for name, records in self.views.items():
            left = {record.fields["visit"]: record.fields for record in records if record.kind in ("sent", "finish")}
            came = [record.fields for record in records if record.kind == "visit"]
            assert sorted(left) == sorted(fields["visit"] for fields in came)
            visits += [Visit(name, fields, left[fields["visit"]]) for fields in came]
        visits.sort(key=lambda visit: visit.step)
        assert len({visit.step for visit in visits}) == len(visits), "a step was visited twice"
        return visits

    @property
    def steps(self) -> list[Visit]:
        """The visits that count as steps of the walk: not the complete graph's draw of the first holder."""
        return [visit for visit in self.walk if visit.step >= 1]

    @cached_property
    def final(self) -> Payload:
        (fields,) = [r.fields for records in self.views.values() for r in records if r.kind == "finish"]
        return np.array(fields["sent"], dtype=self.task.dtype)


def run(plan: Plan, folder: Path, rows: Rows) -> Ran:
    """Provision, start every user as a process, wait for the end."""
    where = bundles(plan, folder, rows)
    return Ran(where, launch(where))


def check_ended_well(ran: Ran) -> None:
    """Everybody ended with code 0 and the same result, with its expected error where theory has one."""
    assert ran.outcome.codes == dict.fromkeys(ran.plan.names, 0)
    shown = [shared(result) for result in ran.results.values()]
    (result,) = {json.dumps(result, sort_keys=True): result for result in shown}.values()
    assert result["run"] == ran.plan.run_id and result["plan"] == ran.plan.hash and result["insecure"] is True
    assert (result["expected_std"] is not None) == (ran.plan.task.kind in ("sum", "mean", "histogram"))


def check_chain(ran: Ran) -> None:
    """The token is handed from visit to visit: same bytes, same tag, the user that was meant; no step is missing."""
    first = 1 if ran.plan.walk.topology == "ring" else 0
    assert [visit.step for visit in ran.walk] == list(range(first, ran.plan.total_steps + 1))
    assert ran.walk[0].came["cause"] == "start" and ran.walk[0].user == ran.plan.walk.starter
    for before, after in zip(ran.walk, ran.walk[1:], strict=False):
        assert (before.next, before.user) == (after.user, after.came["from"])
        assert before.left["sent"] == after.came["received"]
        assert before.left["tag"] == after.came["tag"] and before.left["tag"]


def check_conserved(ran: Ran) -> None:
    """Final token = initial token and all logged parts, bit for bit (SGD: every step replayed, bit for bit)."""
    task = ran.task
    if task.dtype == "float64":
        for visit in ran.steps:
            received, contribution, noise = (
                None if part is None else np.array(part)
                for part in (visit.came["received"], visit.left["contribution"], visit.left["noise"])
            )
            assert received is not None
            assert task.apply(received, contribution, noise, visit.step).tolist() == visit.left["sent"]
    else:
        total = sum((np.array(part, dtype=object) for visit in ran.walk for part in visit.parts), start=np.array(0))
        assert total.tolist() == ran.final.tolist()
    real = sum(visit.left["real"] for visit in ran.walk)
    holder = next(result for result in ran.results.values() if result.get("value") is not None)
    assert holder["contributions"] == real
    assert [visit.left["real"] for visit in ran.walk] == [visit.left["contribution"] is not None for visit in ran.walk]
