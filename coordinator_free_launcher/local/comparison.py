"""In a local demo the truth is known: how far off is the result, in units of the error the plan expects?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coordinator_free_launcher.local.demo_data import DemoTruth, accuracy
from coordinator_free_launcher.local.launch import LaunchError, Outcome
from network_dp.expected import expected_contributions, expected_error
from network_dp.plan import Plan
from network_dp.untrusted import FormatError


@dataclass(frozen=True, slots=True)
class Comparison:
    """Estimate against truth; of a vector the coordinate that is furthest off."""

    what: str
    estimate: float
    truth: float
    expected_std: float | None

    @property
    def error(self) -> float:
        return self.estimate - self.truth

    @property
    def error_in_stds(self) -> float | None:
        return None if not self.expected_std else self.error / self.expected_std

    def as_dict(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "estimate": self.estimate,
            "truth": self.truth,
            "error": self.error,
            "expected_std": self.expected_std,
            "error_in_stds": self.error_in_stds,
        }


def compare(plan: Plan, result: dict[str, Any], truth: DemoTruth) -> Comparison | None:
    """None when the result has no value here, or nothing is known to compare it with."""
    if result.get("value") is None or truth.kind != plan.task.kind:
        return None
    if truth.mean is not None:
        std = expected_error(plan)
        if std is not None and not plan.task.per_user:
            std /= expected_contributions(plan)
        return _furthest("mean over users", result["mean"], truth.mean, std)
    if truth.histogram is not None:
        shares = np.array(truth.histogram) / sum(truth.histogram)
        return _furthest("share of a bucket", result["value"], shares.tolist(), expected_error(plan))
    if truth.test_features is None or truth.test_labels is None or truth.test_accuracy is None:
        return None
    reached = accuracy(np.array(result["value"]), np.array(truth.test_features), np.array(truth.test_labels))
    return Comparison("test accuracy (truth: not private)", reached, truth.test_accuracy, None)


def _furthest(what: str, estimate: list[float], truth: list[float], std: float | None) -> Comparison:
    worst = int(np.argmax(np.abs(np.array(estimate) - np.array(truth))))
    return Comparison(what, estimate[worst], truth[worst], std)


def compared(plan: Plan, outcome: Outcome, run: Path) -> Comparison | None:
    """Result against truth, in a demo where RUN/truth.json tells it."""
    if outcome.result is None:
        return None
    try:
        truth = DemoTruth.of(run)
    except FormatError as error:
        raise LaunchError(str(error)) from None
    return None if truth is None else compare(plan, outcome.result, truth)


def result_remark(plan: Plan, result: Mapping[str, Any]) -> str | None:
    """On a result outside the public bounds."""
    means = result.get(plan.task.means_key)
    return None if means is None else plan.task.remark(means)
