"""One run of real processes under one kind of trouble, drawn from a seed; what it hits depends on the walk."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from analyzer.analysis import analyze_runs
from analyzer.verdict import Status
from network_dp.plan import Plan
from tests.system.faults.campaign_ordeal import Ordeal
from tests.system.faults.campaign_trouble import PROFILES
from tests.system.faults.custody import wrong_with
from tests.system.harness import Harness, make_plan

HOPS = 1500

TASKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sum": ({"kind": "sum", "dimension": 2, "lower": 0.0, "upper": 1.0}, {"mechanism": "gaussian", "sigma": 2.0}),
    "histogram": ({"kind": "histogram", "buckets": 4}, {"mechanism": "gaussian", "sigma": 2.0}),
    "rr": ({"kind": "histogram", "buckets": 4}, {"mechanism": "rr", "gamma": 0.4}),
    "sgd": ({"kind": "sgd", "features": 3, "step_size": 0.5, "radius": 2.0}, {"mechanism": "gaussian", "sigma": 3.0}),
}


@dataclass
class Report:
    """What came of one run."""

    profile: str
    seed: int
    topology: str
    task: str
    durability: str
    n: int
    finished: bool = False
    wrong: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)
    verdict: str = ""
    failed: list[str] = field(default_factory=list)  # checks of the analyzer
    faults: dict[str, int] = field(default_factory=dict)
    reissues: int = 0
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return self.finished and not self.wrong and not self.crashed and self.verdict != Status.FAIL.value


def plan_of(profile: str, seed: int, dice: Random) -> tuple[Plan, Report]:
    """Topologies, tasks and durabilities in turn, so that a few seeds see all of them."""
    topology = ("ring", "complete")[seed % 2]
    task = tuple(TASKS)[seed // 2 % len(TASKS)]
    durability = PROFILES[profile].durability or ("process", "machine")[(seed + seed // 2 + seed // 8) % 2]
    n = dice.randint(5, 7)
    walk = {"rounds": HOPS // n} if topology == "ring" else {"steps": HOPS}
    spec, noise = TASKS[task]
    plan = make_plan(n, task=spec, noise=noise, seed=seed + 1, topology=topology, durability=durability, **walk)
    return plan, Report(profile, seed, topology, task, durability, n)


def run_one(profile: str, seed: int, folder: Path) -> Report:
    """One run in a new folder."""
    dice, kind = Random(f"{profile} {seed}"), PROFILES[profile]
    plan, report = plan_of(profile, seed, dice)
    began = time.monotonic()
    with _ordeal(Harness(folder, plan, parent=kind.parent), dice) as ordeal:
        trouble = kind.prepare(ordeal) if kind.prepare else kind.trouble
        assert trouble is not None
        steps = [dice.randint(HOPS // 20, HOPS * 17 // 20) for _ in range(kind.times)]
        report.finished = ordeal.go(trouble, steps)
        report.faults, report.crashed = dict(ordeal.faults), ordeal.crashed
        report.reissues = len(ordeal.town.reissues())
        report.wrong = wrong_with(ordeal.town, ordeal.kept) if report.finished else []
        _judge(ordeal.town, report)
    report.seconds = round(time.monotonic() - began, 1)
    return report


@contextmanager
def _ordeal(town: Harness, dice: Random) -> Iterator[Ordeal]:
    ordeal = Ordeal(town, dice)
    try:
        yield ordeal
    finally:
        town.thaw()
        town.close()
        for undo in ordeal.undo:
            undo()


def _judge(town: Harness, report: Report) -> None:
    try:
        analysis = analyze_runs([town.folder])
    except Exception as error:  # whatever it is: an honest run must be read
        report.crashed.append(f"analyze: {type(error).__name__}: {error}")
        return
    report.verdict = analysis.status.value
    report.failed = [check.id for run in analysis.runs for check in run.checks if check.status is Status.FAIL]
