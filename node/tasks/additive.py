"""Tasks whose token is a sum of integers on the public grid, with discrete noise
(THEORY.md#ring, #complete-sum, #grid)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from network_dp.plan import Plan
from node.noise import SAMPLERS, Source
from node.tasks.base import LocalData, Noise, Payload, PayloadError, Tally, TaskError
from node.tasks.data import Table
from node.tasks.fixed_point import (
    ADDITION_LIMIT,
    PAYLOAD_LIMIT,
    check_grid,
    grid_of,
    to_grid,
    unit_scale,
)
from node.tasks.pieces import PIECE, over_pieces

FEW = 16
_INT64 = np.dtype(np.int64)  # comparing with the type itself makes it anew each time


class AdditiveTask(ABC):
    """payload <- payload + contribution + noise, in exact integers.

    A subclass says how data becomes rows (`prepare`) and what the final sum means (`finish`). The payload
    has `dimension` coordinates, each contribution keeps every coordinate within `plan.task.coordinate_bound`, and two
    contributions of a user never differ by more than the plan's sensitivity: that is the subclass's promise.
    """

    dtype: Literal["int64", "float64"] = "int64"
    payload_max: float = ADDITION_LIMIT
    noise_every_visit = False
    noise_only_is_cover = False
    opening_cover = 0
    closing_cover = 0

    def __init__(self, plan: Plan, dimension: int) -> None:
        check_grid(plan)
        self.plan = plan
        self.dimension = dimension
        self.quick = True  # a sum of what is there: less work than writing the token down a second time
        self.grid = grid_of(plan)
        self.unit_scale = unit_scale(plan)
        self._nothing: Payload = np.broadcast_to(np.int64(0), dimension)  # zeros that take no memory

    @abstractmethod
    def prepare(self, table: Table) -> LocalData: ...

    @abstractmethod
    def finish(self, payload: Payload, tally: Tally) -> Mapping[str, Any]: ...

    def grid_rows(self, values: NDArray[np.float64], clipped: int = 0, checked: int = 0) -> LocalData:
        """Checked rows (rows, dimension) in data units, as the grid integers that will be contributed.

        Visit k contributes row k, after the last row the first again: one row is the same at every visit."""
        if values.ndim != 2 or values.shape[1] != self.dimension:
            raise TaskError(f"rows must have {self.dimension} columns")
        if not (np.abs(values) <= self.plan.task.coordinate_bound).all():
            raise TaskError("a row exceeds the bound of its coordinates: the task must clip it")
        most = self.plan.most_contributions
        if len(values) > most and type(self).contribution is AdditiveTask.contribution:
            raise TaskError(f"{len(values)} rows, of which at most {most} can be contributed: make fewer of them")
        return LocalData(to_grid(values, self.grid), None, clipped, checked or values.size)

    def initial(self, source: Source) -> Payload:
        return np.zeros(self.dimension, dtype=np.int64)

    def draw(self, source: Source) -> Noise:
        return self.draw_many(source, 1)[0]

    def draw_many(self, source: Source, count: int) -> list[Noise]:
        sampler = SAMPLERS[self.plan.noise.mechanism]
        shape = (count, self.plan.unit_count, self.dimension)
        return [Noise(units) for units in sampler(self.unit_scale, shape, source)]

    def validate(self, payload: Payload) -> None:
        if payload.dtype != _INT64 or payload.shape != (self.dimension,):
            raise PayloadError(f"the payload must be {self.dimension} integers")
        if not _within_limits(payload):
            raise PayloadError("the payload is larger than this plan can make it")

    def contribution(self, received: Payload, data: LocalData, index: int) -> Payload:
        return data.row(index)

    def noise_sum(self, noise: Noise, units: int, contribution: Payload | None) -> Payload:
        if not 0 <= units <= len(noise.units):
            raise TaskError(f"{units} noise components asked for, {len(noise.units)} are drawn")
        if not units:
            return self._nothing
        total: Payload = noise.units[0] if units == 1 else noise.units[:units].sum(axis=0)
        return total

    def apply(self, received: Payload, contribution: Payload | None, noise: Payload | None, step: int) -> Payload:
        return add(received, contribution, noise)

    def apply_into(self, out: Payload, received: Payload, contribution: Payload | None, noise: Payload | None) -> None:
        """`apply`, with the payload to send written where it will be sent from."""
        add(received, contribution, noise, out=out)

    def closing(self, source: Source) -> Payload | None:
        return None

    def values_of(self, payload: Payload) -> NDArray[np.float64]:
        """The payload in data units."""
        return payload.astype(np.float64) * self.grid


def _within_limits(payload: Payload) -> bool:
    """Not abs(): it has no answer for the smallest int64."""
    least, most = ends(payload)
    return bool(least >= -PAYLOAD_LIMIT and most <= PAYLOAD_LIMIT)


def ends(payload: Payload) -> tuple[float, float]:
    """The least and the most of a payload, which need not be aligned. A few numbers are looked at faster one by one."""
    if payload.size <= FEW:
        numbers = payload.tolist()
        return min(numbers), max(numbers)
    found = over_pieces(lambda piece: (payload[piece].min().item(), payload[piece].max().item()), payload.size)
    return min(least for least, _ in found), max(most for _, most in found)


def add(start: Payload, *parts: Payload | None, out: Payload | None = None) -> Payload:
    """`start` plus the parts that are there, in `out` or else in a new array of the same shape and kind."""
    given = [part for part in parts if part is not None]
    total = np.empty_like(start) if out is None else out
    if len(start) <= PIECE:
        _add(start, given, total)
    else:
        over_pieces(lambda piece: _add(start[piece], [part[piece] for part in given], total[piece]), len(start))
    return total


def _add(start: Payload, parts: list[Payload], total: Payload) -> None:
    if not parts:
        total[:] = start
        return
    np.add(start, parts[0], out=total)
    for part in parts[1:]:
        np.add(total, part, out=total)
