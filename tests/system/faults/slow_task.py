"""A task of its own that thinks for a while: named in a plan as ``tests.system.faults.slow_task:slow_sum``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from network_dp.plan import CustomTask, Plan
from node.tasks import AdditiveTask, LocalData, Payload, Table, Tally


class SlowSum(AdditiveTask):
    """A sum whose contribution takes ``options.seconds`` to compute."""

    def __init__(self, plan: Plan) -> None:
        assert isinstance(plan.task, CustomTask)
        super().__init__(plan, dimension=plan.task.dimension)
        self.quick = False
        self._seconds = float(plan.task.options["seconds"])

    def prepare(self, table: Table) -> LocalData:
        return self.grid_rows(table.values, clipped=0)

    def contribution(self, received: Payload, data: LocalData, index: int) -> Payload:
        time.sleep(self._seconds)
        return super().contribution(received, data, index)

    def finish(self, payload: Payload, tally: Tally) -> Mapping[str, Any]:
        return {"value": self.values_of(payload).tolist(), "contributions": tally.contributions}


def slow_sum(plan: Plan) -> SlowSum:
    return SlowSum(plan)
