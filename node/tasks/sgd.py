"""Projected noisy SGD on a convex loss (Alg. 4): tau <- Pi(tau - eta_t (gradient + noise)).

Amplification needs every step to be a contraction: convex and beta-smooth loss, eta_t <= 2/beta, and no gradient
clipping. So the rows are bounded instead: scaled to norm 1, the intercept's constant included (THEORY.md#sgd-rows).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from network_dp.losses import loss_of
from network_dp.plan import Plan, PlanError, SgdTask
from node.noise import Source, discrete_gaussian
from node.tasks.additive import add
from node.tasks.base import LocalData, Noise, Payload, PayloadError, Tally, TaskError, require_full_noise
from node.tasks.data import Table
from node.tasks.fixed_point import GAUSSIAN_REACH, REISSUES_MAX, to_grid
from node.tasks.vectors import unit_rows

QUICK_DIMENSION_MAX = 1 << 10
GRID_BITS = 40
EXACT_MAX = 1 << 52  # multiples of the grid up to here, and sums of two, are exact in float64
BALL_SLACK = 1e-9  # a projected point may lie outside its ball by rounding


class Sgd:
    """The payload is the model; a contribution is the gradient of the user's average loss.

    Gradient and noise are multiples of a grid of about 2^-40 sigma, and float64 holds their sum exactly, so the noisy
    gradient has no low-order digits for the data to shine through (THEORY.md#grid).
    """

    dtype: Literal["int64", "float64"] = "float64"
    noise_every_visit = True
    noise_only_is_dummy = False
    opening_dummies = 0
    closing_dummies = 0

    def __init__(self, plan: Plan, spec: SgdTask) -> None:
        if plan.noise.sigma is None:
            raise PlanError("noise.sigma is missing: provisioning must compute it before a run")
        if spec.step_size > 2 / spec.smoothness:
            raise PlanError(f"task.step_size = {spec.step_size:g}: must be at most 2/beta = {2 / spec.smoothness:g}")
        self.spec = spec
        self.dimension = spec.dimension
        self.quick = self.dimension <= QUICK_DIMENSION_MAX
        self.sigma = plan.noise.sigma
        self.grid = math.ldexp(0.5, math.frexp(self.sigma)[1] - GRID_BITS)
        self.unit_scale = Fraction(self.sigma) / Fraction(self.grid)
        if spec.lipschitz / self.grid > EXACT_MAX:
            raise PlanError(f"noise.sigma = {self.sigma:g}: too small beside gradients of norm {spec.lipschitz:g}")
        self.loss = loss_of(spec)
        # Reach of an honest walk, but for a probability below 2^-1000 (see fixed_point.headroom).
        stride = spec.step_size * (spec.lipschitz + GAUSSIAN_REACH * self.sigma)
        self.payload_max = (plan.total_steps + REISSUES_MAX) * stride

    def prepare(self, table: Table) -> LocalData:
        """Columns: the features, then the label (-1 or 0 and 1 for a classifier; clipped to its bound for ridge)."""
        table.expect_columns(self.spec.features + 1, "task.features, then the label")
        features = table.values[:, :-1]
        constant = np.ones((len(features), int(self.spec.intercept)))
        rows = unit_rows(np.hstack([features, constant]))
        labels = table.values[:, -1]
        if self.loss.binary:
            wrong = np.flatnonzero(~np.isin(labels, (-1.0, 0.0, 1.0)))
            if wrong.size:
                raise table.error(int(wrong[0]), self.spec.features, "is not a label (-1 or 1, or 0 or 1)")
            return LocalData(rows, np.where(labels > 0, 1.0, -1.0), 0, len(labels))
        inside = np.clip(labels, -self.spec.label_bound, self.spec.label_bound)
        return LocalData(rows, inside, int((inside != labels).sum()), len(labels))

    def initial(self, source: Source) -> Payload:
        return np.zeros(self.dimension)

    def draw(self, source: Source) -> Noise:
        return self.draw_many(source, 1)[0]

    def draw_many(self, source: Source, count: int) -> list[Noise]:
        steps = discrete_gaussian(self.unit_scale, (count, 1, self.dimension), source)
        return [Noise(units) for units in steps.astype(np.float64) * self.grid]

    def validate(self, payload: Payload) -> None:
        if payload.dtype != np.float64 or payload.shape != (self.dimension,) or not np.isfinite(payload).all():
            raise PayloadError(f"the payload must be {self.dimension} finite numbers")
        if (np.abs(payload) > 3.0 * self.payload_max).any():
            raise PayloadError("the payload is larger than this plan can make it")
        if self.spec.radius is not None and np.linalg.norm(payload) > self.spec.radius * (1 + BALL_SLACK):
            raise PayloadError("the payload lies outside the plan's ball")

    def contribution(self, received: Payload, data: LocalData, index: int) -> Payload:
        """The gradient at the received model, on the grid. The same data are used at every visit."""
        assert data.labels is not None
        # Ridge is Lipschitz on the ball only: never rely on the sender for that.
        model = self._projected(_floats(received))
        rows = _floats(data.rows)
        gradient = self.loss.slope(rows @ model, data.labels) @ rows / len(rows)
        return to_grid(gradient, self.grid).astype(np.float64) * self.grid

    def noise_sum(self, noise: Noise, units: int, contribution: Payload | None) -> Payload:
        require_full_noise(units, contribution)
        return _floats(noise.units[0]) * units

    def apply(self, received: Payload, contribution: Payload | None, noise: Payload | None, step: int) -> Payload:
        if noise is None:
            if contribution is not None:
                raise TaskError("a gradient must not leave without noise")
            return received.copy()
        return self._projected(_floats(received) - self.spec.eta(step) * _floats(add(noise, contribution)))

    def closing(self, source: Source) -> Payload | None:
        return None

    def finish(self, payload: Payload, tally: Tally) -> Mapping[str, Any]:
        """The model: weights of the features, then the intercept if the plan has one."""
        model = payload.tolist()
        return {
            "value": model,
            "weights": model[: self.spec.features],
            "intercept": model[-1] if self.spec.intercept else 0.0,
            "contributions": tally.contributions,
        }

    def _projected(self, model: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest point of the plan's ball: a projection never moves two models apart."""
        length = float(np.linalg.norm(model))
        if self.spec.radius is None or length <= self.spec.radius:
            return model
        return model * (self.spec.radius / length)


def _floats(values: Payload) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)
