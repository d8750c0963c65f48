"""A whole run on one machine: provision, launch, compare, analyze."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from coordinator_free_launcher.budget import record_walked
from coordinator_free_launcher.identity.bundle import data_folder, user_folder
from coordinator_free_launcher.identity.provision import provision
from coordinator_free_launcher.local.comparison import Comparison, compared, result_remark
from coordinator_free_launcher.local.demo_data import provision_demo
from coordinator_free_launcher.local.launch import Outcome, Progress, launch, read_run
from coordinator_free_launcher.local.ports import with_free_ports
from network_dp.plan import Plan
from network_dp.usefulness import usefulness


@dataclass(frozen=True, slots=True)
class Judgement:
    """The analyzer's word on a run: verdict, report, what the worst pair could learn, and what local DP would say."""

    verdict: str
    report: Path | None = None
    worst_epsilon: float | None = None
    local_epsilon: float | None = None
    left_out: str = ""  # one sentence: what could not be looked at
    headline: str = ""  # the verdict as a sentence, with how strong the promise was

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
            "headline": self.judgement.headline,
            "left_out": self.judgement.left_out,
            "report": None if self.report is None else str(self.report),
        }


class Watcher(Protocol):
    """Whoever wants to see a run while it goes on, and what came of it."""

    def begins(self, folder: Path) -> None: ...

    def judged(self, judgement: Judgement) -> None: ...


def run_locally(
    plan: Plan,
    folder: Path,
    *,
    data: Path | Mapping[str, Path] | None = None,
    keep_ports: bool = False,
    say: Callable[[str], None] = lambda text: None,
    show: Callable[[Progress], None] = lambda progress: None,
    allow_clipping: bool = False,
    watcher: Watcher | None = None,
    pace: float | None = None,
    ledgers: Path | None = None,
) -> LocalRun:
    """Look at the data, provision into ``folder``, start every user as a process, wait, and let the analyzer judge.

    ``say`` is told what a person should know, ``show`` how far the run is. Ctrl-C stops all users, whose state can be
    resumed, and is raised again. ``pace``: at most so many hops per second. ``ledgers``: where users keep
    their ledgers."""
    if not keep_ports:
        plan = with_free_ports(plan)
    if data is not None or all(user.data is not None for user in plan.users):
        files = data_folder(plan, data) if isinstance(data, Path) else data
        warn: Callable[[str], None] = lambda text: say(f"warning: {text}")  # noqa: E731
        provision(plan, folder, files, allow_clipping=allow_clipping, ledgers=ledgers, say=warn)
    else:
        say("No data given: the users get made-up data (give --data DIR for your own).")
        provision_demo(plan, folder, ledgers=ledgers)
    plan = read_run(folder)
    worth = usefulness(plan)
    if worth is not None and worth.noise:
        say(f"warning: {worth.sentence}")
    if watcher is not None:
        watcher.begins(folder)
    outcome = launch(folder, plan=plan, pace=pace, show=show)
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.result is None:
        return LocalRun(folder, plan, outcome, None, Judgement("UNKNOWN"))
    show(Progress(plan.n, plan.n, plan.total_steps, plan.total_steps, phase="the analyzer reads the logs"))
    judgement = judge(folder)
    if watcher is not None:
        watcher.judged(judgement)
    return LocalRun(folder, plan, outcome, compared(plan, outcome, folder), judgement)


def judge(folder: Path) -> Judgement:
    """Let the analyzer read the users' logs and write its report beside them."""
    from analyzer.analysis import analyze_runs
    from analyzer.report.page import write
    from analyzer.report.words import headline
    from analyzer.verdict import left_out

    analyses = analyze_runs([folder], is_user=False)  # whoever runs all users on one machine is none of them
    paths = write(analyses, folder / "report.html")
    plan, privacy = analyses.runs[0].run.plan, analyses.runs[0].privacy
    # Anonymous rounds show nothing of a pair: one number holds for everybody.
    epsilons = np.full((plan.n, plan.n), privacy.worst_epsilon) if privacy.epsilon is None else privacy.epsilon
    if not np.isnan(epsilons).any():
        record_walked(plan, [user_folder(folder, name) for name in plan.names], epsilons)
    worst = None if math.isnan(privacy.worst_epsilon) else privacy.worst_epsilon
    local = None if privacy.local is None or math.isinf(privacy.local) else privacy.local
    missed = left_out(check for run in analyses.runs for check in run.checks)
    said = headline(analyses.runs[0])
    return Judgement(analyses.status.name, next(iter(paths), None), worst, local, missed, said)
