"""Sum and mean of numbers or vectors (Alg. 1 and 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from network_dp.plan import Plan, SumTask
from node.tasks.additive import AdditiveTask
from node.tasks.base import LocalData, Payload, Tally
from node.tasks.data import Table
from node.tasks.vectors import clip_to_norm


class Sum(AdditiveTask):
    """Each contribution is one row: clipped to [lower, upper] per coordinate, or to the L2 norm of the plan."""

    def __init__(self, plan: Plan, spec: SumTask) -> None:
        super().__init__(plan, spec.dimension)
        self.spec = spec

    def prepare(self, table: Table) -> LocalData:
        table.expect_columns(self.dimension, "task.dimension")
        if self.spec.norm is not None:
            return self.grid_rows(*clip_to_norm(table.values, self.spec.norm))
        inside = np.clip(table.values, self.spec.lower, self.spec.upper)
        return self.grid_rows(inside, int((inside != table.values).sum()))

    def finish(self, payload: Payload, tally: Tally) -> Mapping[str, Any]:
        """tau, tau over the number of contributions, and that times n: for "sum" the value is tau itself."""
        total = self.values_of(payload)
        mean = total / tally.contributions if tally.contributions else None
        estimate: dict[str, Any] = {
            "total": total.tolist(),
            "mean": None if mean is None else mean.tolist(),
            "sum_over_users": None if mean is None else (self.plan.n * mean).tolist(),
            "contributions": tally.contributions,
        }
        return {"value": estimate["mean" if self.spec.kind == "mean" else "total"], **estimate}
