"""What the checks of chance find, and how often they cry wolf: both measured on generated runs.

    python -m benchmarks.power                  the table of docs/ANALYZER.md
    python -m benchmarks.power --honest 5000    false alarms in so many honest runs of all shapes
    python -m benchmarks.power --disasters 2000 whole verdicts on so many schedules of the fault simulator
    ... --json                                  the same numbers for a program

But for the disasters only the checks of chance are asked (``noise``, ``fresh``, ``elements``, ``uniform``): the others
do not guess.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

from analyzer.analysis import analyze_runs
from analyzer.checks import fresh, randomness, walk_law
from analyzer.checks.integrity import Run
from analyzer.read import load
from analyzer.reconstruct import increments, lineage
from analyzer.verdict import Status
from benchmarks.generated_logs import GRID, HISTOGRAM, SGD, Faults, plan_text, write_run
from benchmarks.simulated_logs import write_disaster

SIZES: Final = (5, 20, 50, 200)  # visits per user
LAPLACE: Final = f'mechanism = "laplace"\nscale = 2.0\n{GRID}'


def failed_checks(text: str, seed: int, faults: Faults) -> list[str]:
    """The checks of chance that one generated run fails."""
    with tempfile.TemporaryDirectory(prefix="network-dp-power-") as folder:
        write_run(Path(folder), text, seed, faults)
        logs = load.load([Path(folder)])
        tree = lineage.build(logs)
        run = Run(logs, tree, increments.build(tree, logs.plan.n))
        found = [*walk_law.checks(run), *randomness.checks(run), *fresh.checks(run)]
    return [check.id for check in found if check.status is Status.FAIL]


# ---- honest runs ------------------------------------------------------------------------------------------------


def _vector(size: int) -> str:
    return f'kind = "mean"\ndimension = {size}'


def _loose(text: str, n: int) -> str:
    return text.replace(f"min_live = {n}", "min_live = 3")


@dataclass(frozen=True)
class Shape:
    """One kind of honest run."""

    text: str
    faults: Callable[[], Faults] = field(default=Faults)


SHAPES: Final = {
    "tiny graph": Shape(plan_text(n=3, length=3)),
    "tiny ring": Shape(plan_text("ring", 3, 1)),
    "numbers": Shape(plan_text(n=5, length=100)),
    "vectors of 3": Shape(plan_text(n=5, length=60, task=_vector(3))),
    "vectors of 100": Shape(plan_text(n=4, length=40, task=_vector(100))),
    "vectors of 1500": Shape(plan_text(n=3, length=12, task=_vector(1500))),
    "coarse grid": Shape(plan_text(n=5, length=100, noise="sigma = 1.0\ngrid = 1.0")),
    "coarse vectors": Shape(plan_text(n=4, length=60, task=_vector(20), noise="sigma = 2.0\ngrid = 1.0")),
    "very coarse grid": Shape(plan_text(n=5, length=100, noise="sigma = 1.0\ngrid = 2.0")),
    "coarse laplace": Shape(
        plan_text("ring", 5, 20, noise='mechanism = "laplace"\nscale = 1.0\ngrid = 1.0'),
        lambda: Faults(more_units={2: 2}),
    ),
    "many users": Shape(plan_text(n=30, length=300)),
    "ring": Shape(plan_text("ring", 5, 20)),
    "spread ring": Shape(plan_text("ring", 6, 10, noise=f"sigma = 2.0\n{GRID}\nspread = true")),
    "laplace": Shape(plan_text("ring", 5, 30, noise=LAPLACE), lambda: Faults(more_units={2: 2, 3: 1})),
    "sgd": Shape(plan_text(n=4, length=50, task=SGD, noise="sigma = 3.0")),
    "sgd on a ring": Shape(plan_text("ring", 4, 8, task=SGD, noise="sigma = 3.0")),
    "responses": Shape(plan_text(n=5, length=100, task=HISTOGRAM, noise="gamma = 0.3")),
    "responses on a ring": Shape(plan_text("ring", 12, 3, task=HISTOGRAM, noise="gamma = 0.5")),
    "responses, capped": Shape(
        plan_text(n=5, length=100, task=HISTOGRAM, noise="gamma = 0.3", caps="contributions = 4")
    ),
    "capped": Shape(plan_text(n=5, length=100, caps="contributions = 6\nedge = 3")),
    "forward past the cap": Shape(
        plan_text(
            n=5,
            length=100,
            noise=f'sigma = 2.0\nagainst = "local"\n{GRID}',
            caps='contributions = 6\npast = "forward"',
        )
    ),
    "re-issued": Shape(plan_text(n=5, length=60, task=_vector(20)), lambda: Faults(lose_at=20, lose_after=4)),
    "re-issued ring": Shape(plan_text("ring", 6, 5), lambda: Faults(lose_at=12, lose_after=3)),
    "refused": Shape(plan_text(n=5, length=60, task=_vector(20)), lambda: Faults(refuse_at=20)),
    "refused on a ring": Shape(plan_text("ring", 5, 6, task=_vector(20)), lambda: Faults(refuse_at=12)),
    "users skipped": Shape(plan_text("ring", 5, 8, noise=LAPLACE), lambda: Faults(away=frozenset({10, 14, 23}))),
    "one down": Shape(
        _loose(plan_text(n=8, length=300), 8), lambda: Faults(gone=lambda user, step: user == 3, down_steps=20)
    ),
    "down in turns": Shape(
        _loose(plan_text(n=6, length=300), 6),
        lambda: Faults(gone=lambda user, step: user == (step // 30) % 6, down_steps=10),
    ),
    "flapping": Shape(
        _loose(plan_text(n=6, length=300), 6),
        lambda: Faults(gone=lambda user, step: user == 4 and step % 7 < 3, down_steps=3),
    ),
}


def honest(runs: int, first_seed: int) -> dict[str, Any]:
    """False alarms per check over so many runs, the shapes in turn."""
    alarms: Counter[str] = Counter()
    wrong: list[tuple[str, int, list[str]]] = []
    names = list(SHAPES)
    for i in range(runs):
        shape = SHAPES[names[i % len(names)]]
        failed = failed_checks(shape.text, first_seed + i, shape.faults())
        alarms.update(failed)
        if failed:
            wrong.append((names[i % len(names)], first_seed + i, failed))
    return {"runs": runs, "shapes": len(names), "runs_with_alarms": len(wrong), "alarms": dict(alarms), "which": wrong}


def disasters(runs: int, first_seed: int) -> dict[str, Any]:
    """Verdicts on the logs of simulated schedules: everybody is honest, so none may be FAIL."""
    verdicts: Counter[str] = Counter()
    wrong: list[tuple[int, list[str]]] = []
    for seed in range(first_seed, first_seed + runs):
        with tempfile.TemporaryDirectory(prefix="network-dp-power-") as folder:
            write_disaster(Path(folder), seed)
            found = analyze_runs([Path(folder)])
        verdicts[found.status.value] += 1
        failed = [check.id for run in found.runs for check in run.checks if check.status is Status.FAIL]
        if failed:
            wrong.append((seed, failed))
    return {"runs": runs, "verdicts": dict(verdicts), "which": wrong}


# ---- power ------------------------------------------------------------------------------------------------------


def smaller(user: int | None, factor: float) -> Callable[[], Faults]:
    """One user's noise, or everybody's, is too small."""
    return lambda: Faults(noise_scale={u: factor for u in range(5) if user in (None, u)})


def one_stream() -> Faults:
    streams: dict[int, np.random.Generator] = {}
    return Faults(source=lambda user: streams.setdefault(user, np.random.default_rng(5)))


def partly_shared(share: float) -> Callable[[], Faults]:
    """A share of every noise's variance comes from one stream that all users have."""

    def make() -> Faults:
        common: dict[int, Iterator[np.random.Generator]] = {}

        def bend(user: int, noise: list[Any]) -> list[Any]:
            stream = common.setdefault(user, (np.random.default_rng([9, k]) for k in count()))
            std = 2048.0 if isinstance(noise[0], int) else 3.0
            drawn = next(stream).normal(0, std, len(noise))
            mixed = (1 - share) ** 0.5 * np.array(noise) + share**0.5 * drawn
            return [type(noise[0])(x) for x in mixed]

        return Faults(bend=bend)

    return make


def again(kept: int) -> Callable[[], Faults]:
    """User 2 uses its first ``kept`` noises over and over."""

    def make() -> Faults:
        used: list[list[Any]] = []

        def bend(user: int, noise: list[Any]) -> list[Any]:
            if user != 2:
                return noise
            used.append(noise if len(used) < kept else used[-kept])
            return used[-1]

        return Faults(bend=bend)

    return make


def after_another(weight: float) -> Callable[[], Faults]:
    """User 3 adds ``weight`` times user 2's last noise to its own, scaled back to its size."""

    def make() -> Faults:
        last: dict[int, list[Any]] = {}

        def bend(user: int, noise: list[Any]) -> list[Any]:
            if user == 2:
                last[2] = noise
            if user != 3 or 2 not in last:
                return noise
            mixed = (np.array(noise) + weight * np.array(last[2])) / (1 + weight**2) ** 0.5
            return [type(noise[0])(x) for x in mixed]

        return Faults(bend=bend)

    return make


def one_without() -> Faults:
    drawn = count()
    return Faults(bend=lambda user, noise: [0 * x for x in noise] if next(drawn) == 3 else noise)


CHEATS: Final[dict[str, Callable[[], Faults]]] = {
    "one user's noise is half as large": smaller(2, 0.5),
    "one user's noise is a tenth": smaller(2, 0.1),
    "one user's noise is missing": smaller(2, 0.0),
    "everybody's noise is 0.8 of its size": smaller(None, 0.8),
    "everybody's noise is half as large": smaller(None, 0.5),
    "one draw of all is zero": one_without,
    "all users draw one stream": one_stream,
    "half of everybody's variance is one stream": partly_shared(0.5),
    "a fifth of everybody's variance is one stream": partly_shared(0.2),
    "one user has 6 noises": again(6),
    "one user takes back another's last noise": after_another(-1.0),
    "one user takes back half of another's last noise": after_another(-0.5),
}
PLANS: Final = {
    "d = 1": 'kind = "sum"',
    "d = 10": _vector(10),
    "d = 100": _vector(100),
}


def power(runs: int) -> list[dict[str, Any]]:
    """Per cheat and dimension: in how many of ``runs`` runs it was found, by the visits per user (n = 5)."""
    table = []
    for cheat, make in CHEATS.items():
        for plan, task in PLANS.items():
            row: dict[str, Any] = {"cheat": cheat, "plan": plan}
            for size in SIZES:
                text = plan_text(n=5, length=5 * size, task=task)
                row[str(size)] = sum(bool(failed_checks(text, seed, make())) for seed in range(runs))
            table.append(row)
    return table


def elements(runs: int) -> list[dict[str, Any]]:
    """All elements that cover the ends of a ring in one bucket of 4, by how many there are."""
    rows = []
    for n in (8, 12, 16, 22, 42):
        text = plan_text("ring", n, 2, task=HISTOGRAM, noise="gamma = 0.5")
        cheat = Faults(elements=lambda number, buckets: [number] + [0] * (buckets - 1))
        rows.append({"elements": n - 2, "found": sum(bool(failed_checks(text, seed, cheat)) for seed in range(runs))})
    return rows


def _as_text(runs: int, table: list[dict[str, Any]], cover: list[dict[str, Any]]) -> str:
    lines = [
        f"| cheat, n = 5, by visits per user; found in ... of {runs} runs | plan | "
        + " | ".join(map(str, SIZES))
        + " |"
    ]
    lines.append("|---|---|" + "---|" * len(SIZES))
    for row in table:
        found = " | ".join(str(row[str(size)]) for size in SIZES)
        lines.append(f"| {row['cheat']} | {row['plan']} | {found} |")
    lines += ["", "Elements all in one bucket of 4: " + ", ".join(f"{r['elements']}: {r['found']}" for r in cover)]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--honest", type=int, metavar="RUNS", help="count false alarms instead")
    parser.add_argument("--disasters", type=int, metavar="RUNS", help="judge simulated schedules instead")
    parser.add_argument("--runs", type=int, default=5, help="runs per cell of the table")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.honest or chosen.disasters:
        first = chosen.first_seed
        found = honest(chosen.honest, first) if chosen.honest else disasters(chosen.disasters, first)
        print(json.dumps(found, indent=None if chosen.json else 1))
        return
    table, cover = power(chosen.runs), elements(chosen.runs)
    if chosen.json:
        print(json.dumps({"runs": chosen.runs, "table": table, "elements": cover}))
    else:
        print(_as_text(chosen.runs, table, cover))


if __name__ == "__main__":
    main()
