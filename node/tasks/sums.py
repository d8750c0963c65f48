"""Sum and mean of numbers or vectors (Alg. 1 and 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from network_dp.plan import Plan, SumTask
from node.tasks.additive import AdditiveTask
from node.tasks.base import LocalData, Payload, Tally
from node.tasks.data import Table
from node.tasks.rows import average, expect_usable
from node.tasks.vectors import clip_to_norm


class Sum(AdditiveTask):
    """Rows are clipped to [lower, upper] per coordinate, or to the L2 norm of the plan.

    A contribution is their average, or one row, as `task.rows` says.
    """

    def __init__(self, plan: Plan, spec: SumTask) -> None:
        super().__init__(plan, spec.dimension)
        self.spec = spec

    def prepare(self, table: Table) -> LocalData:
        table.expect_columns(self.dimension, "task.dimension")
        inside, clipped = self._inside(table.values)
        checked = len(inside) if self.spec.norm is not None else inside.size
        if self.spec.rows == "average":
            inside, _ = self._inside(average(inside))  # its rounding, too, keeps the bounds
        else:
            expect_usable(self.plan, table)
        return self.grid_rows(inside, clipped, checked)

    def _inside(self, rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
        """The rows within the public bounds, and how many values (with a norm: rows) had to be moved."""
        if self.spec.norm is not None:
            return clip_to_norm(rows, self.spec.norm)
        inside = np.clip(rows, self.spec.lower, self.spec.upper)
        return inside, int((inside != rows).sum())

    def finish(self, payload: Payload, tally: Tally) -> Mapping[str, Any]:
        """tau, tau over the number of contributions, and that times n: for "sum" the value is tau itself."""
        total = self.values_of(payload) * self.plan.topology.correction
        mean = total / tally.contributions if tally.contributions else None
        estimate: dict[str, Any] = {
            "total": total.tolist(),
            "mean": None if mean is None else mean.tolist(),
            "sum_over_users": None if mean is None else (self.plan.n * mean).tolist(),
            "contributions": tally.contributions,
        }
        return {"value": estimate["mean" if self.spec.per_user else "total"], **estimate}
