"""``make demo``: three real runs on embedded defaults, one table at the end, a report for each."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from coordinator_free_launcher.local_run import LocalRun, run_locally
from network_dp.plan import Plan
from network_dp.plan_reader import from_dict

MARKER = "made-by-network-dp-demo"


def _users(count: int) -> list[dict[str, object]]:
    # Ports are placeholders: the demo moves everybody to free ones.
    return [{"name": f"user-{i}", "address": f"127.0.0.1:{20000 + i}"} for i in range(count)]


def demo_plans() -> list[Plan]:
    """Ring mean, complete-graph histogram, complete-graph logistic regression."""
    return [
        from_dict(
            {
                "name": "ring-mean",
                "walk": {"topology": "ring", "rounds": 5},
                "task": {"kind": "mean", "lower": 0.0, "upper": 1.0},
                "noise": {"epsilon": 5.0, "delta": 1e-6},
                "users": _users(10),
            }
        ),
        from_dict(
            {
                "name": "histogram",
                "walk": {"topology": "complete", "steps": 600},
                "task": {"kind": "histogram", "buckets": 6},
                "noise": {"mechanism": "rr", "gamma": 0.75, "delta": 1e-6},
                "users": _users(30),
            }
        ),
        from_dict(
            {
                "name": "regression",
                "walk": {"topology": "complete", "steps": 1500},
                "task": {"kind": "sgd", "loss": "logistic", "features": 30, "step_size": 0.02, "radius": 10.0},
                "noise": {"epsilon": 10.0, "delta": 1e-6},
                "users": _users(50),
            }
        ),
    ]


def demo(out: Path, *, as_json: bool) -> int:
    """Run all three into ``out`` (emptied first when an earlier demo made it) and show what came of it."""
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
        done = run_locally(plan, out / plan.name, data=None, keep_ports=False, console=Console(quiet=True))
        rows.append((done, time.monotonic() - started))
        console.print(f"{plan.name}: {plan.n} processes, {plan.total_steps} steps, {rows[-1][1]:.1f} s")
    if as_json:
        print(json.dumps([{**done.as_dict(), "seconds": seconds} for done, seconds in rows], indent=1))
    else:
        _show(rows, console)
    return 0 if all(done.outcome.ok and done.verdict in ("PASS", "PARTIAL") for done, _ in rows) else 1


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _show(rows: list[tuple[LocalRun, float]], console: Console) -> None:
    table = Table(title="Three computations, no server, nobody's data left its process")
    for column in ("run", "users", "found", "truth", "off by", "epsilon", "local", "verdict"):
        table.add_column(column, justify="left" if column in ("run", "verdict") else "right", no_wrap=True)
    for done, _ in rows:
        known = done.comparison
        in_stds = None if known is None else known.error_in_stds
        table.add_row(
            done.plan.name,
            str(done.plan.n),
            "-" if known is None else f"{known.estimate:.3f}",
            "-" if known is None else f"{known.truth:.3f}",
            "-" if in_stds is None else f"{in_stds:+.1f} std",
            _number(done.judgement.worst_epsilon),
            _number(done.judgement.local_epsilon),
            done.verdict,
        )
    console.print(table)
    console.print(
        "found: mean over users; share of the bucket that is furthest off; accuracy on held-out data (its truth: the "
        "model trained without privacy).\nepsilon: the most any user could have learned about any other, at delta = "
        "1e-6, on the path that was walked. local: what somebody who sees every message could (none: no guarantee)."
    )
    console.print("Open the reports in a browser:")
    for done, _ in rows:
        console.print(f"  {done.report}")
