"""Projected noisy SGD on a convex loss (Alg. 4): tau <- Pi(tau - eta_t (gradient + noise)).

Amplification needs every step to be a contraction: convex and beta-smooth loss, eta_t <= 2/beta, and no gradient
clipping. So the rows are bounded instead: scaled to norm 1, the intercept's constant included (THEORY.md#sgd-rows).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from network_dp.losses import loss_of
from network_dp.plan import Plan, PlanError, SgdTask
from node.noise import Source
from node.tasks.base import LocalData, Payload, Tally
from node.tasks.data import Table
from node.tasks.gradients import GradientTask, floats
from node.tasks.vectors import unit_rows

QUICK_DIMENSION_MAX = 1 << 10


class Sgd(GradientTask):
    """The payload is the model; a contribution is the gradient of the user's average loss."""

    def __init__(self, plan: Plan, spec: SgdTask) -> None:
        super().__init__(plan, spec)
        if plan.path_known and spec.step_size > 2 / spec.smoothness:
            raise PlanError(f"task.step_size = {spec.step_size:g}: must be at most 2/beta = {2 / spec.smoothness:g}")
        self.spec = spec
        self.quick = self.dimension <= QUICK_DIMENSION_MAX
        self.loss = loss_of(spec)

    def prepare(self, table: Table) -> LocalData:
        """Columns: the features, then the label (-1 or 0 and 1 for a classifier; clipped to its bound for ridge)."""
        table.expect_columns(self.spec.features + 1, "task.features, then the label")
        features, moved = self.spec.scaled(table.values[:, :-1])
        checked = len(features) * (1 if self.spec.ranges is None else self.spec.features)
        constant = np.ones((len(features), int(self.spec.intercept)))
        rows = unit_rows(np.hstack([features, constant]))
        labels = table.values[:, -1]
        if self.loss.binary:
            wrong = np.flatnonzero(~np.isin(labels, (-1.0, 0.0, 1.0)))
            if wrong.size:
                raise table.error(int(wrong[0]), self.spec.features, "is not a label (-1 or 1, or 0 or 1)")
            return LocalData(rows, np.where(labels > 0, 1.0, -1.0), moved, checked)
        inside = np.clip(labels, -self.spec.label_bound, self.spec.label_bound)
        return LocalData(rows, inside, moved + int((inside != labels).sum()), checked)

    def initial(self, source: Source) -> Payload:
        return np.zeros(self.dimension)

    def contribution(self, received: Payload, data: LocalData, index: int) -> Payload:
        """The gradient at the received model, on the grid. The same data are used at every visit."""
        assert data.labels is not None
        # Ridge is Lipschitz on the ball only: never rely on the sender for that.
        model = self.projected(floats(received))
        rows = floats(data.rows)
        gradient = self.loss.slope(rows @ model, data.labels) @ rows / len(rows)
        return self.on_grid(gradient)

    def finish(self, payload: Payload, tally: Tally) -> Mapping[str, Any]:
        """The model: weights of the features, then the intercept if the plan has one."""
        model = payload.tolist()
        return {
            "value": model,
            "weights": model[: self.spec.features],
            "intercept": model[-1] if self.spec.intercept else 0.0,
            "contributions": tally.contributions,
        }
