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

from coordinator_free_launcher.identity.finalise import finalise
from coordinator_free_launcher.local.demo_data import DemoTruth, demo_data
from coordinator_free_launcher.local.launch import Progress
from coordinator_free_launcher.local.rivals import local_dp, simulated_accuracies
from coordinator_free_launcher.local.run import LocalRun, Watcher, run_locally
from network_dp.errors import UserError
from network_dp.plan import Plan
from network_dp.plan_reader import from_dict

SHOWN = {"model-hidden": "  path hidden"}  # below the same model with its path known
MARKER = "made-by-network-dp-demo"
USERS = 200
LEARNERS = 150  # users of the models: every round of a hidden path costs all of them a block
KNOWN_STEPS, HIDDEN_STEPS = 3000, 150  # so many that one run is a good model in most cases, not by luck


def _users(count: int) -> list[dict[str, object]]:
    # Ports are placeholders: the demo moves everybody to free ones.
    return [{"name": f"user-{i}", "address": f"127.0.0.1:{20000 + i}"} for i in range(count)]


def _plan(name: str, users: int, walk: dict[str, object], task: dict[str, object]) -> Plan:
    noise = {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-6}
    return from_dict({"name": name, "walk": walk, "task": task, "noise": noise, "users": _users(users)})


def _model(name: str, steps: int, path: str) -> Plan:
    task: dict[str, object] = {"kind": "sgd", "features": 2, "intercept": False, "radius": 10.0}
    return _plan(name, LEARNERS, {"topology": "complete", "steps": steps, "path": path}, task)


def demo_plans() -> list[Plan]:
    """A mean and a histogram on a ring; one model on a known path, and on a hidden one, which needs fewer steps. All
    at epsilon 1."""
    ring: dict[str, object] = {"topology": "ring", "rounds": 5}
    return [
        _plan("mean", USERS, ring, {"kind": "mean", "lower": 0.0, "upper": 1.0}),
        _plan("histogram", USERS, ring, {"kind": "histogram", "buckets": 6}),
        _model("model", KNOWN_STEPS, "known"),
        _model("model-hidden", HIDDEN_STEPS, "hidden"),
    ]


def what_hiding_buys() -> str:
    """What the hidden run's few steps would reach if its path were known: another plan, simulated."""
    hidden, known = (finalise(_model("model", HIDDEN_STEPS, path)) for path in ("hidden", "known"))
    less, reached = known.mechanism.size / hidden.mechanism.size, simulated_accuracies(known, demo_data(known)).mean()
    return (
        f"path hidden: nobody learns who holds the token, so {less:.1f} times less noise is enough; on a known path "
        f"{HIDDEN_STEPS} steps reach {reached:.0%} on average."
    )


#: Shows how far the run of this name is.
Bar = Callable[[str], AbstractContextManager[Callable[[Progress], None]]]


def demo(out: Path, *, as_json: bool, bar: Bar, watcher: Watcher | None = None, pace: float | None = None) -> int:
    """Run all of them into ``out`` (emptied first when an earlier demo made it) and show what came of it."""
    console = Console(stderr=as_json)
    if out.exists():
        if not (out / MARKER).exists():
            raise UserError(f"{out} exists and is not an earlier demo's: give another folder with --out")
        shutil.rmtree(out)
    out.mkdir(parents=True)
    (out / MARKER).touch()
    rows = []
    for plan in demo_plans():
        started = time.monotonic()
        with bar(plan.name) as show:
            done = run_locally(plan, out / plan.name, show=show, watcher=watcher, pace=pace)
        rows.append((done, time.monotonic() - started))
        console.print(f"{plan.name}: {plan.n} processes, {plan.total_steps} steps, {rows[-1][1]:.1f} s")
    if as_json:
        print(json.dumps([{**done.as_dict(), "seconds": seconds} for done, seconds in rows], indent=1))
    else:
        _show(rows, console)
    return 0 if all(done.outcome.ok and done.verdict in ("PASS", "PARTIAL") for done, _ in rows) else 1


def _show(rows: list[tuple[LocalRun, float]], console: Console) -> None:
    table = Table(title="Everything at epsilon 1: no server, nobody's data left its process")
    for column in ("run", "users", "steps", "no privacy", "network DP", "local DP"):
        table.add_column(column, justify="left" if column == "run" else "right", no_wrap=True)
    for done, _ in rows:
        table.add_row(*cells(done))
    console.print(table)
    console.print(
        "mean, histogram: the value (the largest share) and how far a number is off. model: how many of 100 new cases "
        f"it gets right in this run, and in brackets what 8 of 10 simulated runs reach.\n{what_hiding_buys()}\n"
        "local DP, where nobody trusts anybody, is simulated on the same data and epsilon.",
        highlight=False,
    )
    verdicts = ", ".join(f"{done.plan.name} {done.verdict}" for done, _ in rows)
    console.print(f"Verdicts: {verdicts}. Open the reports in a browser:", highlight=False)
    for done, _ in rows:
        console.print(f"  {done.report}", highlight=False, soft_wrap=True)


def cells(done: LocalRun) -> tuple[str, ...]:
    """One run, beside what a run without privacy and one under local DP would have found."""
    plan, known = done.plan, done.comparison
    made = demo_data(plan)
    rival = local_dp(plan, made, plan.noise.epsilon or 0.0)
    size = SHOWN.get(plan.name, plan.name), str(plan.n), str(plan.total_steps)
    if known is None or rival is None:
        return *size, "-", "-", "-"
    if plan.task.classifies:
        low, high = np.quantile(simulated_accuracies(plan, made), (0.1, 0.9))
        return *size, f"{known.truth:.0%}", f"{known.estimate:.0%} ({low:.0%} to {high:.0%})", f"{rival:.0%}"
    truth, estimate = true_values(made.truth), np.array((done.outcome.result or {})["value"])
    largest, off = int(np.argmax(truth)), float(np.sqrt(((estimate - truth) ** 2).mean()))
    return *size, f"{truth[largest]:.3f}", f"{estimate[largest]:.3f} (off {off:.3f})", f"off {rival:.3f}"


def true_values(truth: DemoTruth) -> NDArray[np.float64]:
    """Of a mean, or the shares of a histogram."""
    if truth.histogram is not None:
        return np.asarray(np.array(truth.histogram) / np.sum(truth.histogram))
    return np.array(truth.mean)
