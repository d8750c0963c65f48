"""A task bound to one user's data: what the protocol core calls ``Worker``.

All randomness of a visit is in its ``NoiseDraw``, drawn before the token arrives (THEORY.md#noise-source). The supply
also carries the source, for the few draws that belong to no visit (the starter's and the finisher's cover elements).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from node.fence import fenced
from node.noise import Source, SystemSource
from node.protocols.walk.state import Mixed
from node.protocols.walk.values import Payload
from node.tasks.additive import AdditiveTask, ends
from node.tasks.base import LocalData, Noise, Task

MOST_AHEAD = 32
NUMBERS_AHEAD = 4096


@dataclass(frozen=True, slots=True)
class NoiseDraw:
    """The pre-drawn noise of one visit, and where later draws come from."""

    noise: Noise
    source: Source


def scaled(contribution: Payload, share: tuple[int, int]) -> Payload:
    """A share, at most 1, of a contribution; on the grid rounded to the nearest.

    Whole numbers come no further apart by this, coordinate by coordinate: the sensitivity stays."""
    part, whole = share
    if part == whole:
        return contribution
    if contribution.dtype.kind == "f":
        return np.asarray(contribution * (part / whole))
    times, rest = np.divmod(contribution, whole)
    return np.asarray(times * part + (rest * part + whole // 2) // whole)


class BoundTask:
    """``Worker`` of the protocol core."""

    def __init__(
        self, task: Task, data: LocalData, full_units: int, refresh_cover: int, share: tuple[int, int] = (1, 1)
    ) -> None:
        self.dtype: str = task.dtype
        self.dimension = task.dimension
        self.quick = task.quick
        self._payload_max = task.payload_max
        self._task = task
        self._data = data
        self._full_units = full_units
        self._refresh_cover = refresh_cover
        self._share = share  # of its contribution: who is met more often than others counts for less
        self._no_noise = Noise(np.empty((0, task.dimension), task.dtype))

    @fenced
    def supply(self, source: Source) -> NoiseDraw:
        """Draw ahead everything random of one visit."""
        return NoiseDraw(self._task.draw(source), source)

    @fenced
    def supplies(self, source: Source) -> list[NoiseDraw]:
        """The same for the next visits: many at once for a short payload, where calls cost more than numbers."""
        count = max(1, min(MOST_AHEAD, NUMBERS_AHEAD // (self._full_units * self.dimension)))
        return [NoiseDraw(noise, source) for noise in self._task.draw_many(source, count)]

    def fits(self, payload: Payload, part: float | None = None) -> bool:
        """Within what honest users add in a whole walk, and ``part`` of it; None: what can be computed with."""
        try:
            self._task.validate(payload)
        except Exception:  # a task's own check may stumble over what a peer sent
            return False
        if part is None:
            return True
        least, most = ends(payload)
        limit = self._payload_max * (1.0 + part)
        return bool(-limit <= least and most <= limit)

    @fenced
    def begin(self, fresh: Callable[[], NoiseDraw]) -> Mixed:
        """The public initial payload, with the starter's cover elements where the task has them."""
        payload = self._task.initial(fresh().source if self._task.opening_cover else SystemSource())
        cover = payload if self._task.opening_cover else None
        return Mixed(payload, None, cover, self._task.opening_cover)

    @fenced
    def contribute(self, payload: Payload, index: int) -> Payload:
        return scaled(self._task.contribution(payload, self._data, index), self._share)

    @fenced
    def mix(
        self,
        payload: Payload,
        contribution: Payload | None,
        supply: NoiseDraw | None,
        units: int,
        step: int,
        closing: bool,
        out: Payload | None = None,
    ) -> Mixed:
        """payload + contribution + the first ``units`` components (+ closing elements on a release)."""
        task = self._task
        added = task.noise_sum(self._no_noise if supply is None else supply.noise, units, contribution)
        sent = self._applied(payload, contribution, added if units else None, step, out)
        noise: Payload | None = added
        cover: Payload | None = None
        n_cover = 0
        if contribution is None and task.noise_only_is_cover and units:
            noise, cover, n_cover = None, added, 1
        last = None
        if closing:
            assert supply is not None  # a release takes one
            last = task.closing(supply.source)
        if last is not None:
            sent = task.apply(sent, None, last, step)
            cover = last if cover is None else cover + last
            n_cover += task.closing_cover
        return Mixed(sent, noise, cover, n_cover)

    def _applied(
        self, payload: Payload, contribution: Payload | None, noise: Payload | None, step: int, out: Payload | None
    ) -> Payload:
        """In ``out``, where the task is a plain sum and somebody has a place for it."""
        task = self._task
        if out is None or not isinstance(task, AdditiveTask) or type(task).apply is not AdditiveTask.apply:
            return task.apply(payload, contribution, noise, step)
        task.apply_into(out, payload, contribution, noise)
        return out

    def enough(self, supply: NoiseDraw, units: int, fresh: Callable[[], NoiseDraw]) -> NoiseDraw:
        """The same noise, with as many fresh components behind it as ``units`` components need."""
        if units <= len(supply.noise.units):
            return supply
        rows: list[Any] = [*supply.noise.units]
        while len(rows) < units:
            rows += [*fresh().noise.units]
        return NoiseDraw(Noise(np.stack(rows)), supply.source)

    @fenced
    def refresh(self, payload: Payload, supply: NoiseDraw, units: int, step: int) -> Mixed:
        """Fresh noise, ``units`` components, for a token that is taken up again (THEORY.md#one-token)."""
        task = self._task
        if not task.noise_only_is_cover:
            return self.mix(payload, None, supply, units, step, False)
        # Randomised response: as many cover elements as hide a short window (THEORY.md#cover-elements).
        draws = [task.noise_sum(task.draw(supply.source), 1, None) for _ in range(self._refresh_cover)]
        cover = sum(draws[1:], start=draws[0])
        return Mixed(task.apply(payload, None, cover, step), None, cover, self._refresh_cover)
