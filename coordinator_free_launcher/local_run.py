"""A whole run on one machine: provision, launch, compare, analyze. The Python API of a notebook is here too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from coordinator_free_launcher.cli_identity import data_folder, provision_demo
from coordinator_free_launcher.comparison import Comparison
from coordinator_free_launcher.launch import Outcome, launch, read_run
from coordinator_free_launcher.ports import with_free_ports
from coordinator_free_launcher.provision import provision
from coordinator_free_launcher.show import compared, progress_bar, result_remark
from network_dp.plan import Plan


@dataclass(frozen=True, slots=True)
class Judgement:
    """The analyzer's word on a run: verdict, report, what the worst pair could learn, and what local DP would say."""

    verdict: str
    report: Path | None = None
    worst_epsilon: float | None = None
    local_epsilon: float | None = None
    left_out: str = ""  # one sentence: what could not be looked at

    @property
    def exit_code(self) -> int:
        from analyzer.verdict import Status

        return Status(self.verdict).exit_code


@dataclass(frozen=True, slots=True)
class LocalRun:
    """What a run on this machine ended with."""

    folder: Path
    plan: Plan
    outcome: Outcome
    comparison: Comparison | None
    judgement: Judgement

    @property
    def verdict(self) -> str:
        return self.judgement.verdict

    @property
    def report(self) -> Path | None:
        return self.judgement.report

    def as_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "plan": self.plan.hash,
            "codes": self.outcome.codes,
            "result": self.outcome.result,
            "remark": None if self.outcome.result is None else result_remark(self.plan, self.outcome.result),
            "comparison": None if self.comparison is None else self.comparison.as_dict(),
            "verdict": self.verdict,
            "worst_epsilon": self.judgement.worst_epsilon,
            "local_epsilon": self.judgement.local_epsilon,
            "left_out": self.judgement.left_out,
            "report": None if self.report is None else str(self.report),
        }


def run_locally(
    plan: Plan,
    folder: Path,
    *,
    data: Path | Mapping[str, Path] | None,
    keep_ports: bool,
    console: Console,
    allow_clipping: bool = False,
) -> LocalRun:
    """Look at the data, provision into ``folder``, start every user as a process, wait, and let the analyzer judge."""
    if not keep_ports:
        plan = with_free_ports(plan)
    if data is not None or all(user.data is not None for user in plan.users):
        files = data_folder(plan, data) if isinstance(data, Path) else data
        provision(plan, folder, files, allow_clipping=allow_clipping, say=lambda text: _warn(text, console))
    else:
        console.print("No data given: the users get made-up data (give --data DIR for your own).")
        provision_demo(plan, folder)
    plan = read_run(folder)
    with progress_bar(plan.name, console) as show:
        outcome = launch(folder, show=show)
    if outcome.result is None:
        return LocalRun(folder, plan, outcome, None, Judgement("UNKNOWN"))
    return LocalRun(folder, plan, outcome, compared(plan, outcome, folder), judge(folder))


def _warn(text: str, console: Console) -> None:
    console.print(f"[yellow]warning:[/] {escape(text)}", soft_wrap=True)


def judge(folder: Path) -> Judgement:
    """Let the analyzer read the users' logs and write its report beside them."""
    from analyzer.analysis import analyze_runs
    from analyzer.report.page import write
    from analyzer.verdict import left_out

    analyses = analyze_runs([folder])
    paths = write(analyses, folder / "report.html")
    privacy = analyses.runs[0].privacy
    worst = None if math.isnan(privacy.worst_epsilon) else privacy.worst_epsilon
    local = None if privacy.local is None or math.isinf(privacy.local) else privacy.local
    missed = left_out(check for run in analyses.runs for check in run.checks)
    return Judgement(analyses.status.name, next(iter(paths), None), worst, local, missed)


def run(
    plan: Plan,
    data: Mapping[str, Path] | None = None,
    folder: Path | None = None,
    *,
    allow_clipping: bool = False,
) -> LocalRun:
    """For notebooks: run a plan over real processes on this machine and return result, comparison and verdict.

    ``data`` maps user names to files; without it, demo data is made up. ``folder`` must be new (default: out/NAME).
    ``allow_clipping``: go on although most of the data lies outside the public bounds.
    """
    target, quiet = folder or Path("out") / plan.name, Console(quiet=True)
    return run_locally(plan, target, data=data, keep_ports=False, console=quiet, allow_clipping=allow_clipping)
