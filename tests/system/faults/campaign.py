"""``python -m tests.system.faults.campaign``: many runs of real processes under every kind of trouble, and a table.

A run is good if everybody has the same result, it is the exact sum of one walk walked once (by all lines that were ever
logged, also those lost with a disk), no process and no analysis crashed, and ``analyze`` does not say FAIL.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from analyzer.verdict import Status
from tests.system.faults.campaign_run import Report, run_one
from tests.system.faults.campaign_trouble import PROFILES

_HEAD = ("profile", "runs", "finished", "wrong", "crashed", *(status.value for status in Status), "faults")


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.system.faults.campaign", description=__doc__)
    parser.add_argument("--runs", type=int, default=len(PROFILES), help="in all, over the profiles in turn")
    parser.add_argument("--profile", action="append", choices=list(PROFILES), help="only this one (may be repeated)")
    parser.add_argument("--seed", type=int, default=1, help="of the first run of each profile")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--keep", type=Path, help="where the folders of runs that are not good are kept")
    return parser.parse_args(arguments)


def attempt(profile: str, seed: int, keep: Path | None) -> Report:
    """One run in a folder of its own; only what is not good is worth keeping."""
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        report = run_one(profile, seed, Path(name))
        if keep is not None and not report.good:
            shutil.copytree(Path(name) / "run", keep / f"{profile.replace(' ', '-')}-{seed}", dirs_exist_ok=True)
    return report


def campaign(chosen: argparse.Namespace) -> tuple[list[Report], dict[str, str]]:
    """(reports, profiles that this machine cannot do and why)."""
    wanted = chosen.profile or list(PROFILES)
    skipped = {name: why for name in wanted if (why := PROFILES[name].missing())}
    names = [name for name in wanted if name not in skipped]
    reports = []
    for number in range(chosen.runs if names else 0):
        profile, seed = names[number % len(names)], chosen.seed + number // len(names)
        report = attempt(profile, seed, chosen.keep)
        reports.append(report)
        print(f"{number + 1}/{chosen.runs} {told(report)}", file=sys.stderr, flush=True)
    return reports, skipped


def told(report: Report) -> str:
    """One line; of a run that is not good, also how to see it again."""
    walk = f"{report.topology} {report.task} {report.durability} n={report.n}"
    end = "finished" if report.finished else "NOT FINISHED"
    text = f"{report.profile} {report.seed}: {walk}, {end}, {report.verdict}, {report.faults}, {report.seconds} s"
    if report.good:
        return text
    trouble = [*report.wrong[:3], *report.crashed[:3], *report.failed]
    return f"{text}\n  {'; '.join(trouble)}\n  again: {replay(report)}"


def replay(report: Report) -> str:
    again = f'--runs 1 --profile "{report.profile}" --seed {report.seed} --keep kept'
    return f"python -m tests.system.faults.campaign {again}"


def table(reports: list[Report]) -> str:
    """A row per profile, and one for all, as Markdown."""
    rows = [_HEAD, ("---",) * len(_HEAD)]
    for name in dict.fromkeys([*(report.profile for report in reports), "all"]):
        mine = [report for report in reports if name in (report.profile, "all")]
        verdicts = Counter(report.verdict for report in mine)
        faults: Counter[str] = Counter()
        for report in mine:
            faults.update(report.faults)
        counts = (
            len(mine),
            sum(report.finished for report in mine),
            sum(bool(report.wrong) for report in mine),
            sum(bool(report.crashed) for report in mine),
            *(verdicts[status.value] for status in Status),
        )
        rows.append((name, *map(str, counts), ", ".join(f"{count} {what}" for what, count in faults.items())))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main(arguments: list[str] | None = None) -> int:
    """0: every run was good."""
    chosen = options(arguments)
    reports, skipped = campaign(chosen)
    if chosen.json:
        print(json.dumps({"skipped": skipped, "runs": [dataclasses.asdict(report) for report in reports]}, indent=1))
    else:
        print(table(reports))
        for name, why in skipped.items():
            print(f"not run: {name} ({why})")
        for report in reports:
            if not report.good:
                print(f"not good: {replay(report)}")
    return int(not all(report.good for report in reports))


if __name__ == "__main__":
    sys.exit(main())
