"""A model of the user's own, convex or not: its gradient, clipped to the plan's norm (THEORY.md#models)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from network_dp.plan import ModelTask, Plan, PlanError
from node.noise import Source
from node.tasks.base import LocalData, Payload, Tally
from node.tasks.data import Table
from node.tasks.gradients import GradientTask, floats
from node.tasks.own import imported
from node.tasks.vectors import clip_to_norm

Weights = NDArray[np.float64]


class OwnModel(Protocol):
    """What the callable of ``task.factory`` returns: a function of weights, as one flat array, and of rows.

    Rows are the user's table as numbers, one row per example. Nothing of it may depend on who runs it: every user has
    the same model, and its initial weights are public."""

    def initial(self) -> Weights:
        """Where the walk starts."""
        ...

    def gradient(self, weights: Weights, rows: NDArray[np.float64]) -> Weights:
        """Of the average loss on these rows."""
        ...

    def evaluate(self, weights: Weights, rows: NDArray[np.float64]) -> Mapping[str, float]:
        """How good the weights are on rows that nobody trained on, under names such as "accuracy"."""
        ...


class Model(GradientTask):
    """Runs an ``OwnModel``. Its gradient may take long, so it is computed off the event loop."""

    quick = False

    def __init__(self, plan: Plan, spec: ModelTask) -> None:
        super().__init__(plan, spec)
        self.own: OwnModel = imported(spec.factory)(**spec.options)
        # Rounding to the grid must not take a clipped gradient beyond C.
        self._norm = spec.clip - math.sqrt(self.dimension) * self.grid
        start = np.asarray(self.own.initial(), dtype=np.float64)
        if start.shape != (spec.dimension,):
            raise PlanError(f"task.dimension = {spec.dimension}: the model's initial weights have shape {start.shape}")
        self._start = start
        self.payload_max += float(np.abs(start).max(initial=0.0))

    def prepare(self, table: Table) -> LocalData:
        return LocalData(table.values, None, 0)

    def initial(self, source: Source) -> Payload:
        return self._start.copy()

    def contribution(self, received: Payload, data: LocalData, index: int) -> Payload:
        """The clipped gradient, the same at every visit of the same weights; one that is not finite becomes zero."""
        gradient = np.asarray(self.own.gradient(floats(received), floats(data.rows)), dtype=np.float64)
        if gradient.shape != (self.dimension,) or not np.isfinite(gradient).all():
            gradient = np.zeros(self.dimension)
        clipped, _ = clip_to_norm(gradient[None, :], self._norm)
        return self.on_grid(clipped[0])

    def finish(self, payload: Payload, tally: Tally) -> Mapping[str, Any]:
        return {"value": payload.tolist(), "contributions": tally.contributions}
