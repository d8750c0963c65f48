"""``make demo``: four real runs on embedded defaults, one table at the end, a report for each."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from coordinator_free_launcher.local.demo_data import DemoTruth, demo_data
from coordinator_free_launcher.local.launch import Progress
from coordinator_free_launcher.local.rivals import local_dp, typical_accuracy
from coordinator_free_launcher.local.run import LocalRun, Watcher, run_locally
from network_dp.plan import Plan
from network_dp.plan_reader import from_dict

SHOWN = {"model-hidden": "  path hidden"}  # below the same model with its path known
MARKER = "made-by-network-dp-demo"
USERS = 200
LEARNERS = 100  # users of the models: every round of a hidden path costs all of them a block


def _users(count: int) -> list[dict[str, object]]:
    # Ports are placeholders: the demo moves everybody to free ones.
    return [{"name": f"user-{i}", "address": f"127.0.0.1:{20000 + i}"} for i in range(count)]


def demo_plans() -> list[Plan]:
    """A mean and a histogram on a ring; one model twice, so that only the path differs. All at epsilon 1."""

    def plan(name: str, users: int, walk: dict[str, object], task: dict[str, object]) -> Plan:
        noise = {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-6}
        return from_dict({"name": name, "walk": walk, "task": task, "noise": noise, "users": _users(users)})

    ring, drawn = {"topology": "ring", "rounds": 5}, {"topology": "complete", "steps": 300}
    model = {"kind": "sgd", "features": 2, "radius": 10.0}
    return [
        plan("mean", USERS, ring, {"kind": "mean", "lower": 0.0, "upper": 1.0}),
        plan("histogram", USERS, ring, {"kind": "histogram", "buckets": 6}),
        plan("model", LEARNERS, drawn, model),
        plan("model-hidden", LEARNERS, {**drawn, "path": "hidden"}, model),
    ]


#: Shows how far the run of this name is.
Bar = Callable[[str], AbstractContextManager[Callable[[Progress], None]]]


def demo(out: Path, *, as_json: bool, bar: Bar, watcher: Watcher | None = None, pace: float | None = None) -> int:
    """Run all of them into ``out`` (emptied first when an earlier demo made it) and show what came of it."""
    console = Console(stderr=as_json)
    if out.exists():
        if not (out / MARKER).exists():
            console.print(f"{out} exists and is not an earlier demo's: give another folder with --out")
            return 2
        shutil.rmtree(out)
    out.mkdir(parents=True)
    (out / MARKER).touch()
    rows = []
    for plan in demo_plans():
        started = time.monotonic()
        with bar(plan.name) as show:
            done = run_locally(
                plan, out / plan.name, data=None, keep_ports=False, show=show, watcher=watcher, pace=pace
            )
        rows.append((done, time.monotonic() - started))
        console.print(f"{plan.name}: {plan.n} processes, {plan.total_steps} steps, {rows[-1][1]:.1f} s")
    if as_json:
        print(json.dumps([{**done.as_dict(), "seconds": seconds} for done, seconds in rows], indent=1))
    else:
        _show(rows, console)
    return 0 if all(done.outcome.ok and done.verdict in ("PASS", "PARTIAL") for done, _ in rows) else 1


def _show(rows: list[tuple[LocalRun, float]], console: Console) -> None:
    table = Table(title="Everything at epsilon 1: no server, nobody's data left its process")
    columns = ("run", "users", "no privacy", "network DP", "local DP", "verdict")
    for column in columns:
        table.add_column(column, justify="left" if column in ("run", "verdict") else "right", no_wrap=True)
    for done, _ in rows:
        table.add_row(*cells(done))
    console.print(table)
    console.print(
        "mean, histogram: the value (the largest share) and how far a number is off, typically. model: how many of 100 "
        "new cases it gets right in this run, and on average.\npath hidden: the same users, steps and epsilon, nobody "
        "learns who holds the token, so less noise is enough.\nlocal DP, where nobody trusts anybody, is simulated on "
        "the same data and epsilon.",
        highlight=False,
    )
    console.print("Open the reports in a browser:")
    for done, _ in rows:
        console.print(f"  {done.report}")


def cells(done: LocalRun) -> tuple[str, ...]:
    """One run, beside what a run without privacy and one under local DP would have found."""
    plan, known = done.plan, done.comparison
    made = demo_data(plan)
    rival = local_dp(plan, made, plan.noise.epsilon or 0.0)
    name = SHOWN.get(plan.name, plan.name)
    if known is None or rival is None:
        return name, str(plan.n), "-", "-", "-", done.verdict
    if plan.task.classifies:
        ours = f"{known.estimate:.0%} (usually {typical_accuracy(plan, made):.0%})"
        return name, str(plan.n), f"{known.truth:.0%}", ours, f"{rival:.0%}", done.verdict
    truth, estimate = true_values(made.truth), np.array((done.outcome.result or {})["value"])
    largest, off = int(np.argmax(truth)), float(np.sqrt(((estimate - truth) ** 2).mean()))
    found = [f"{truth[largest]:.3f}", f"{estimate[largest]:.3f} (off {off:.3f})", f"off {rival:.3f}"]
    return name, str(plan.n), *found, done.verdict


def true_values(truth: DemoTruth) -> NDArray[np.float64]:
    """Of a mean, or the shares of a histogram."""
    if truth.histogram is not None:
        return np.asarray(np.array(truth.histogram) / np.sum(truth.histogram))
    return np.array(truth.mean)
