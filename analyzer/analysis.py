"""Several runs of one plan together: errors that each look fine may still have the wrong mean or spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from scipy.stats import chi2, norm

from analyzer.checks.randomness import two_sided
from analyzer.errors import InputError
from analyzer.read.truth import Truth, read_truth
from analyzer.run import Analysis, analyze
from analyzer.verdict import Check, Status, from_p, overall

_LEAST_RUNS: Final = 2


@dataclass(frozen=True, slots=True)
class Analyses:
    """One run, or several of one plan with what only their number can show."""

    runs: tuple[Analysis, ...]
    together: tuple[Check, ...]

    @property
    def status(self) -> Status:
        return overall([*self.together, *(check for run in self.runs for check in run.checks)])


def is_run(path: Path) -> bool:
    """A run's directory, as the launcher makes it."""
    return (path / "plan.toml").is_file() and (path / "users").is_dir()


def analyze_runs(
    paths: Sequence[Path],
    plan: Path | None = None,
    colluders: Sequence[str] = (),
    max_colluders: int = 1,
    truth: Truth | None = None,
    *,
    is_user: bool = True,
) -> Analyses:
    """Every run directory is a run of its own; all other paths together are one more."""
    groups = [[path] for path in paths if is_run(path)]
    if loose := [path for path in paths if not is_run(path)]:
        groups.append(loose)
    who = (colluders, max_colluders)
    runs = tuple(analyze(group, plan, *who, truth or _truth_of(group), is_user=is_user) for group in groups)
    first = runs[0].run
    for paths_of_run, analysis in zip(groups[1:], runs[1:], strict=True):
        if analysis.run.plan.hash != first.plan.hash:
            raise InputError(paths_of_run[0], None, "is a run of another plan: several runs must share one plan")
    numbers = [analysis.run.logs.run for analysis in runs]
    if len(set(numbers)) < len(numbers):
        raise InputError(groups[-1][0], None, "is given twice: every run must be another one")
    return Analyses(runs, tuple(_together(runs)))


def _truth_of(group: Sequence[Path]) -> Truth | None:
    """A demo's run holds the truth about its made-up data (provision --demo-data); a real one does not."""
    path = group[0] / "truth.json"
    return read_truth(str(path)) if is_run(group[0]) and path.is_file() else None


def _together(runs: Sequence[Analysis]) -> list[Check]:
    """Mean and variance of the standardised errors over the runs (Gaussian noise, full logs)."""
    errors = [
        np.array(run.utility.noise_error) / run.utility.noise_std
        for run in runs
        if run.utility.noise_error is not None and run.utility.noise_std and run.run.plan.mechanism.by_exposure
    ]
    if len(errors) < _LEAST_RUNS:
        return []
    z = np.concatenate(errors)
    size = len(z)
    centre = float(z.sum()) / np.sqrt(size)
    p_mean = float(2 * norm.sf(abs(centre)))
    square = float(np.sum(z**2))
    p_size = float(two_sided(chi2.cdf(square, size), chi2.sf(square, size)))
    count = len(errors)
    rule = "Errors divided by their expected standard deviation are standard Gaussian, independent between runs."
    theory = "THEORY.md#estimates, #release"
    mean, spread = f"mean {z.mean():.3g}, p = {p_mean:.3g}", f"mean square {square / size:.3g}, p = {p_size:.3g}"
    return [
        from_p("runs-mean", f"Errors over {count} runs are centred", p_mean, mean, rule, theory),
        from_p("runs-variance", f"Errors over {count} runs are as large as expected", p_size, spread, rule, theory),
    ]
