"""A vector sum for long tokens, named in a plan as ``benchmarks.vector_task:VectorSum``.

Its result is one number: nobody wants eight million of them as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from network_dp.plan import CustomTask, Plan
from node.tasks import AdditiveTask, LocalData, Payload, Table, Tally


class VectorSum(AdditiveTask):
    """The built-in sum, but for its result."""

    def __init__(self, plan: Plan) -> None:
        assert isinstance(plan.task, CustomTask)
        super().__init__(plan, plan.task.dimension)

    def prepare(self, table: Table) -> LocalData:
        return self.grid_rows(table.values)

    def finish(self, payload: Payload, tally: Tally) -> Mapping[str, Any]:
        return {"value": [float(self.values_of(payload).mean())], "contributions": tally.contributions}
