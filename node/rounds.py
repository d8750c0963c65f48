"""Anonymous rounds as the runtime drives them: their core with this process's dice and noise.

Nothing here may take another time, or leave another trace, at the holder of the token: noise is drawn when it is
needed, not restocked later; what a user shows of itself (``progress``, ``status``) is what everybody heard.
"""

from __future__ import annotations

import time
from typing import Any

from node.noise import Source
from node.protocols.rounds.effects import Compute, Computed, Event, Turn, Turned
from node.protocols.rounds.lists import turned
from node.protocols.rounds.machine import step
from node.protocols.rounds.state import Context, Dice, Durable, Inputs, State, Step
from node.worker import BoundTask, NoiseDraw


class Rounds:
    """A ``Machine``."""

    def __init__(self, ctx: Context, dice: Dice, source: Source, worker: BoundTask) -> None:
        self._ctx = ctx
        self._dice = dice
        self._source = source
        self._worker = worker
        self.total = ctx.total_steps

    def initial(self, durable: Durable) -> State:
        return State(durable=durable)

    def step(self, state: State, event: Event, now: float) -> Step:
        return step(self._ctx, state, event, Inputs(now, self._dice, self._draw, time.time()))

    def compute(self, work: Compute | Turn) -> Computed | Turned:
        if isinstance(work, Turn):
            return turned(work.batch, self._dice.secret, self._dice.below)
        return Computed(self._worker.contribute(work.payload, work.contribution), work.visit)

    def wake_at(self, state: State) -> float | None:
        return state.wake_at

    def progress(self, state: State) -> int:
        return min(state.heard[1] - 1, self.total)

    def status(self, state: State) -> tuple[str, bool]:
        return "DONE" if state.durable.final else "ROUNDS", state.durable.final

    def admits(self, state: State, peer: int, begun: Any, now: float) -> bool:
        return False

    def refusal(self, state: State, request: Any, error: Exception) -> Any | None:
        return None

    def _draw(self) -> NoiseDraw:
        return self._worker.supply(self._source)
