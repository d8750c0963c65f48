"""Sums of one's own whose code raises with a value in its text; plans name them as factories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from network_dp.plan import Plan
from node.tasks import AdditiveTask, LocalData, Payload, Table, Tally

DATUM = 0.71240234375  # on the grid, and nobody else's


class Troubled(AdditiveTask):
    """A sum; ``raises``: the member that stumbles over the datum."""

    def __init__(self, plan: Plan, raises: str, *, quick: bool = True) -> None:
        super().__init__(plan, 1)
        self.quick, self._raises = quick, raises

    def prepare(self, table: Table) -> LocalData:
        self._stumble("prepare", float(table.values[0, 0]))
        return self.grid_rows(table.values)

    def contribution(self, received: Payload, data: LocalData, index: int) -> Payload:
        self._stumble("contribution", float(data.rows[0, 0]) * self.grid)
        return data.row(index)

    def finish(self, payload: Payload, tally: Tally) -> Mapping[str, Any]:
        total = float(self.values_of(payload)[0])
        if self._raises == "finish":
            raise KeyError(total)
        return {"value": [total]}

    def _stumble(self, member: str, value: float) -> None:
        if member == self._raises and value == DATUM:
            raise KeyError(value)


def prepare(plan: Plan) -> Troubled:
    return Troubled(plan, "prepare")


def contribution(plan: Plan) -> Troubled:
    return Troubled(plan, "contribution")


def slow_contribution(plan: Plan) -> Troubled:
    return Troubled(plan, "contribution", quick=False)


def finish(plan: Plan) -> Troubled:
    return Troubled(plan, "finish")
