"""A vector sum for long tokens, named in a plan as ``benchmarks.vector_task:vector_sum``.

``options.noise = false`` draws zeros, to measure the hand-over of a long token apart from drawing its noise: such
a run is INSECURE and exists only here. The result is one number: nobody wants eight million of them as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from network_dp.plan import CustomTask, Plan
from node.noise import Source
from node.tasks import AdditiveTask, LocalData, Noise, Payload, Table, Tally


class VectorSum(AdditiveTask):
    """The built-in sum, but for its noise and its result."""

    def __init__(self, plan: Plan) -> None:
        assert isinstance(plan.task, CustomTask)
        super().__init__(plan, plan.task.dimension)
        self._noisy = bool(plan.task.options["noise"])
        shape = (plan.unit_count, 0 if self._noisy else self.dimension)
        self._zeros = Noise(np.full(shape, 0, dtype=np.int64))  # written: reading it costs what reading noise costs

    def prepare(self, table: Table) -> LocalData:
        return self.grid_rows(table.values)

    def draw_many(self, source: Source, count: int) -> list[Noise]:
        if self._noisy:
            return super().draw_many(source, count)
        return [self._zeros] * count

    def finish(self, payload: Payload, tally: Tally) -> Mapping[str, Any]:
        return {"value": [float(self.values_of(payload).mean())], "contributions": tally.contributions}


def vector_sum(plan: Plan) -> VectorSum:
    return VectorSum(plan)
