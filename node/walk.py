"""The walk as the runtime drives it: its core with this process's dice, noise and digests."""

from __future__ import annotations

import asyncio
import logging
import time

from node.errors import TaskFailedError
from node.hashing import digest_on_two_cores
from node.noise_pool import NoisePool
from node.protocols.walk.arrival import covered
from node.protocols.walk.effects import Compute, Computed, Event
from node.protocols.walk.machine import step
from node.protocols.walk.messages import Answer, Handoff, Refused, Request, Why
from node.protocols.walk.state import Context, Dice, Durable, Inputs, State, Step
from node.worker import NoiseDraw

log = logging.getLogger("node.walk")

RESTOCK_AFTER_S = 0.05  # not at once: the token is about to leave


class Walk:
    """A ``Machine``."""

    def __init__(self, ctx: Context, dice: Dice, pool: NoisePool) -> None:
        self._ctx = ctx
        self._dice = dice
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self.total = ctx.total

    def initial(self, durable: Durable) -> State:
        return State(durable=durable)

    def step(self, state: State, event: Event, now: float) -> Step:
        inputs = Inputs(now, self._dice, self._take_noise, time.time(), digest_on_two_cores)
        return step(self._ctx, state, event, inputs)

    def compute(self, work: Compute) -> Computed:
        return Computed(self._ctx.worker.contribute(work.payload, work.contribution), work.visit)

    def wake_at(self, state: State) -> float | None:
        return state.wake_at

    def progress(self, state: State) -> int:
        custody = state.durable.custody
        return -1 if custody is None else custody.hop.step

    def status(self, state: State) -> tuple[str, bool]:
        return state.phase.name, state.durable.final

    def admits(self, state: State, peer: int, begun: Handoff, now: float) -> bool:
        return covered(state, peer, begun, now)

    def refusal(self, state: State, request: Request, error: Exception) -> Answer | None:
        """A token that the task stumbles over goes elsewhere."""
        if not isinstance(error, TaskFailedError) or not isinstance(request, Handoff):
            return None
        log.error("%s", error)
        return Refused(Why.UNFIT, state.durable.promised)

    def _take_noise(self) -> NoiseDraw:
        if self._pool.low:
            self._loop.call_later(RESTOCK_AFTER_S, self._pool.restock)
        return self._pool.take()
