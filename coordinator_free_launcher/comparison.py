"""In a local demo the truth is known: how far off is the result, in units of the error the plan expects?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coordinator_free_launcher.demo_data import DemoTruth, accuracy
from network_dp.expected import expected_error
from network_dp.plan import Plan, SgdTask, SumTask


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
    if result.get("value") is None:
        return None
    match plan.task:
        case SumTask():
            mean_plan = replace(plan, task=replace(plan.task, kind="mean"))
            return _furthest("mean over users", result["mean"], truth.mean, expected_error(mean_plan))
        case SgdTask():
            return _accuracy(result["value"], truth)
        case _:
            if truth.histogram is None:
                return None
            shares = np.array(truth.histogram) / sum(truth.histogram)
            return _furthest("share of a bucket", result["value"], shares.tolist(), expected_error(plan))


def _furthest(what: str, estimate: list[float], truth: list[float] | None, std: float | None) -> Comparison | None:
    if truth is None:
        return None
    worst = int(np.argmax(np.abs(np.array(estimate) - np.array(truth))))
    return Comparison(what, estimate[worst], truth[worst], std)


def _accuracy(model: list[float], truth: DemoTruth) -> Comparison | None:
    if truth.test_features is None or truth.test_labels is None or truth.test_accuracy is None:
        return None
    reached = accuracy(np.array(model), np.array(truth.test_features), np.array(truth.test_labels))
    return Comparison("test accuracy (truth: not private)", reached, truth.test_accuracy, None)
