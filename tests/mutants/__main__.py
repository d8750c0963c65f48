"""``python -m tests.mutants``: change the protocol, the storage and the checks at random places; who notices?"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import tomllib
from collections import Counter
from functools import cache
from itertools import zip_longest
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.mutants.must_die import MUST_DIE
from tests.mutants.operators import Mutant, mutants
from tests.mutants.runner import Copy, Fate, Job, Outcome, job_of, run_all, unchanged_passes
from tests.mutants.targets import ROOT, TARGETS, target_of

FOREVER_S = 1e9
EQUIVALENT = Path(__file__).with_name("equivalent.toml")


def equivalents() -> dict[tuple[str, str, str], str]:
    """(file, operator, source line) -> why nobody can notice."""
    found = tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])
    return {(entry["file"], entry["operator"], entry["line"]): entry["reason"] for entry in found}


@cache
def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def key(mutant: Mutant, root: Path = ROOT) -> tuple[str, str, str]:
    return mutant.file, mutant.operator, _lines(root / mutant.file)[mutant.line - 1].strip()


def generic(names: list[str], root: Path = ROOT) -> list[Mutant]:
    """Every change the operators know of the targets, but for those that do nothing."""
    files = [file for target in TARGETS if target.name in names for file in target.paths(root)]
    found = [mutant for file in files for mutant in mutants(file, (root / file).read_text())]
    known = equivalents()
    return [mutant for mutant in found if key(mutant, root) not in known]


def must_die(root: Path = ROOT) -> list[Job]:
    return [Job(named.mutant(root), ((named.seen_by,),), 0) for named in MUST_DIE]


def draw(found: list[Mutant], sample: int, seed: int) -> list[Mutant]:
    """``sample`` of them from each target, or all; the targets in turn, for a run whose time is short."""
    dice = random.Random(seed)
    drawn: list[list[Mutant]] = []
    for target in TARGETS:
        files = target.paths()
        mine = [mutant for mutant in found if mutant.file in files]
        drawn.append(dice.sample(mine, min(sample, len(mine))) if sample else mine)
    return [mutant for turn in zip_longest(*drawn) for mutant in turn if mutant is not None]


def summary(outcomes: list[Outcome]) -> dict[str, dict[str, int]]:
    rows: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        target = target_of(outcome.mutant.file)
        name = "must die" if outcome.mutant.name else target.name if target else "other"
        rows.setdefault(name, Counter())[outcome.fate] += 1
    return {name: {fate: counts[fate] for fate in Fate} for name, counts in rows.items()}


def as_json(outcomes: list[Outcome], seed: int, root: Path) -> str:
    def about(outcome: Outcome) -> dict[str, object]:
        mutant = outcome.mutant
        place = {"id": mutant.id, "file": mutant.file, "line": mutant.line, "operator": mutant.operator}
        diff = mutant.diff((root / mutant.file).read_text())
        return {**place, "fate": outcome.fate, "by": outcome.by, "seconds": round(outcome.seconds, 2), "diff": diff}

    return json.dumps({"seed": seed, "summary": summary(outcomes), "mutants": [about(o) for o in outcomes]}, indent=1)


def say(outcomes: list[Outcome], root: Path) -> None:
    for name, counts in summary(outcomes).items():
        print(f"{name:10} " + ", ".join(f"{count} {fate}" for fate, count in counts.items()))
    for outcome in outcomes:
        if outcome.fate is Fate.SURVIVED:
            mutant = outcome.mutant
            print(f"\nsurvived: {mutant.file}:{mutant.line} {mutant.name or mutant.operator}")
            print(mutant.diff((root / mutant.file).read_text()))


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    names = [target.name for target in TARGETS]
    parser.add_argument("targets", nargs="*", default=names, help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--sample", type=int, default=40, help="changes of each target; 0: all (hours). Default 40")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--schedules", type=int, default=1000, help="simulated for a change of the protocol")
    parser.add_argument("--seconds", type=float, default=FOREVER_S, help="then no further change is tried")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--must-die", action="store_true", help="only the changes that are known by name")
    parser.add_argument("--only", default="", help="changes whose place (FILE:LINE:COLUMN:OPERATOR) or name has this")
    parser.add_argument("--json", action="store_true", help="the outcome as JSON")
    chosen = parser.parse_args(arguments)
    if wrong := set(chosen.targets) - set(names):
        parser.error(f"{', '.join(sorted(wrong))}: no target; there are {', '.join(names)}")
    return chosen


def chosen_jobs(chosen: argparse.Namespace, root: Path) -> list[Job]:
    named = [job for job in must_die(root) if chosen.only in job.mutant.id]
    if chosen.must_die:
        return named
    found = generic(chosen.targets, root)
    found = [m for m in found if chosen.only in m.id] if chosen.only else draw(found, chosen.sample, chosen.seed)
    jobs = [(mutant, target_of(mutant.file)) for mutant in found]
    return named + [job_of(mutant, target, chosen.schedules) for mutant, target in jobs if target is not None]


def main(arguments: list[str] | None = None) -> int:
    """0: every change was noticed; 1: some were not; 2: the tests fail as they are."""
    chosen = options(arguments)
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        root = Copy(ROOT, Path(name)).folder  # the tree may be worked on meanwhile
        return _run(chosen, root)


def _run(chosen: argparse.Namespace, root: Path) -> int:
    targets = [] if chosen.must_die else [target for target in TARGETS if target.name in chosen.targets]
    if wrong := unchanged_passes(targets, root=root):
        print(f"nothing was changed, and yet a test fails: {wrong}", file=sys.stderr)
        return 2
    jobs = chosen_jobs(chosen, root)
    columns = TextColumn("mutants"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, TextColumn("{task.fields[last]}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("mutants", total=len(jobs), last="")

        def tell(outcome: Outcome) -> None:
            bar.update(task, advance=1, last=f"{outcome.fate} {outcome.mutant.id}")

        outcomes = run_all(jobs, workers=chosen.jobs, seconds=chosen.seconds, root=root, tell=tell)
    if chosen.json:
        print(as_json(outcomes, chosen.seed, root))
    else:
        say(outcomes, root)
    return int(any(outcome.fate is Fate.SURVIVED for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
