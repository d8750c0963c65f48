"""Convex losses of a linear model, as functions of the score z = <w, x> and the label y.

On rows of norm at most 1 the gradient of f(w) = loss(<w, x>, y) is slope(z, y) x, so |slope| bounds the Lipschitz
constant and the slope's own steepness bounds the smoothness (THEORY.md#sgd-rows).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from network_dp.task_spec import SgdTask, TaskSpec

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Loss:
    """A loss and its derivative in the score; `binary`: labels are -1 and +1."""

    value: Callable[[Scores, Scores], Scores]
    slope: Callable[[Scores, Scores], Scores]
    binary: bool


def loss_of(spec: SgdTask) -> Loss:
    """The loss that a plan's SGD task names."""
    match spec.loss:
        case "logistic":
            return Loss(_logistic, _logistic_slope, binary=True)
        case "ridge":
            return Loss(_squared, _squared_slope, binary=False)
        case "smoothed_hinge":
            return _smoothed_hinge(spec.smoothing)


Grade = Callable[[Scores], tuple[float, float]]


def grader(task: TaskSpec, rows: Scores, labels: Scores) -> Grade | None:
    """Loss and accuracy of a model on a test set (a loss on numbers has no accuracy); None where the task learns no
    model of such rows."""
    if not isinstance(task, SgdTask) or rows.shape[1] != task.features:
        return None
    rows = np.hstack([rows, np.ones((len(rows), int(task.intercept)))])
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    loss, bound = loss_of(task), task.label_bound
    labels = np.where(labels > 0, 1.0, -1.0) if loss.binary else np.clip(labels, -bound, bound)

    def grade(model: Scores) -> tuple[float, float]:
        scores = rows @ model
        return float(np.mean(loss.value(scores, labels))), float(
            np.mean(labels * scores > 0)
        ) if loss.binary else math.nan

    return grade


def _logistic(z: Scores, y: Scores) -> Scores:
    """ln(1 + e^{-yz}): 1-Lipschitz, 1/4-smooth."""
    return np.logaddexp(0.0, -y * z)


def _logistic_slope(z: Scores, y: Scores) -> Scores:
    return -y * np.exp(-np.logaddexp(0.0, y * z))


def _squared(z: Scores, y: Scores) -> Scores:
    """(z - y)^2 / 2: 1-smooth, and (R + B)-Lipschitz where |z| <= R and |y| <= B."""
    return (z - y) ** 2 / 2


def _squared_slope(z: Scores, y: Scores) -> Scores:
    return z - y


def _smoothed_hinge(width: float) -> Loss:
    """max(0, 1 - yz) with its corner replaced by a parabola of this width: 1-Lipschitz, 1/width-smooth."""

    def value(z: Scores, y: Scores) -> Scores:
        gap = 1 - y * z
        bend = np.clip(gap, 0, width)
        return bend**2 / (2 * width) + np.maximum(gap - width, 0)

    def slope(z: Scores, y: Scores) -> Scores:
        return -y * np.clip((1 - y * z) / width, 0, 1)

    return Loss(value, slope, binary=True)
