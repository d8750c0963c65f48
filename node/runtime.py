"""One user's process around the protocol core: carries out effects in order, feeds events back.

The core decides; this file only does. A transition's ``Persist`` comes first; if the disk refuses it, the whole
transition is void.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from node import in_step
from node.errors import DiskFullError, TaskFailedError
from node.hashing import digest_on_two_cores
from node.journal import Journal
from node.logs import described
from node.protocol.effects import (
    Answered,
    Begin,
    Cold,
    Compute,
    Computed,
    Effect,
    Event,
    Finished,
    Log,
    Note,
    Persist,
    PersistFailed,
    Received,
    Reply,
    Send,
    Stop,
    Stopping,
    Tick,
)
from node.protocol.handover import covered
from node.protocol.machine import step
from node.protocol.messages import Answer, Handoff, Refused, Request, Why
from node.protocol.state import Context, Dice, Inputs, State
from node.stock import Stock
from node.transport.client import Client
from node.view_log import ViewLog
from node.worker import Supply

log = logging.getLogger("node.runtime")

RETRY_RESULT_S = 1.0
PROGRESS_EVERY_S = 0.1
WRITE_AFTER_S = 0.05


_AT_ONCE: Mapping[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}


class Runtime:
    """Owns the state of one user and is the only one to change it."""

    def __init__(
        self,
        ctx: Context,
        journal: Journal,
        view_log: ViewLog,
        client: Client,
        dice: Dice,
        stock: Stock,
        on_finished: Callable[[Finished], None],
        on_progress: Callable[[int], None],
        fault: Callable[[Effect], None] | None = None,
    ) -> None:
        self._ctx = ctx
        self._journal = journal
        self._view_log = view_log
        self._client = client
        self._dice = dice
        self._stock = stock
        self._on_finished = on_finished
        self._on_progress = on_progress
        self._fault = fault
        self._state = State(durable=journal.durable)
        self._queue: deque[Event] = deque()
        self._running = False
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._ticket = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._told, self._tell_at = -1, 0.0
        self._writing: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self.stopped: asyncio.Future[Stop] = self._loop.create_future()
        client.on_cold = lambda peer: self.feed(Cold(peer))
        self.unwritten = False  # is the result final, but result.json not there yet?
        self.failed: TaskFailedError | None = None  # the result is final, but the task cannot read it

    @property
    def phase(self) -> tuple[str, bool]:
        return self._state.phase.name, self._state.durable.final

    # ---- events in --------------------------------------------------------------------------------------------

    def begin(self, *, again: bool) -> None:
        self.feed(Begin(again))
        self._view_log.settle()

    def stop(self) -> None:
        self.feed(Stopping())

    async def ask(self, peer: int, request: Request) -> Answer:
        """A peer's request: the core always replies within the transition."""
        self._ticket += 1
        ticket = self._ticket
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting[ticket] = future
        try:
            self.feed(Received(peer, ticket, request))
            if not _AT_ONCE:
                await asyncio.sleep(0)  # what the transition sends leaves before its answer: the token waits for nobody
            return await future
        finally:
            self._waiting.pop(ticket, None)

    def feed(self, event: Event) -> None:
        """Process an event; events caused meanwhile wait in line, so transitions never nest."""
        self._queue.append(event)
        if self._running:
            return
        self._running = True
        try:
            while self._queue and not self.stopped.done():
                self._safely(self._queue.popleft())
        finally:
            self._running = False
        self._set_timer()

    def granted(self, peer: int, begun: Handoff) -> bool:
        """May this long token, of which the first bytes have come, have room in memory?"""
        return covered(self._state, peer, begun, self._loop.time())

    def _safely(self, event: Event) -> None:
        """A transition that raised is void. A peer's request is then refused; of anything else this user ends."""
        try:
            self._transition(event)
        except Exception as error:
            if not isinstance(event, Received):
                self._fail(error)
                return
            future = self._waiting.get(event.ticket)
            if future is None or future.done():
                return
            if isinstance(error, TaskFailedError) and isinstance(event.request, Handoff):
                log.error("%s", error)
                future.set_result(Refused(Why.UNFIT, self._state.durable.promised))
            else:
                future.set_exception(error)

    def _fail(self, error: BaseException) -> None:
        if not self.stopped.done():
            self.stopped.set_exception(error)

    def _transition(self, event: Event) -> None:
        inputs = Inputs(self._loop.time(), self._dice, self._take_supply, time.time(), digest_on_two_cores)
        after, effects = step(self._ctx, self._state, event, inputs)
        if effects and isinstance(effects[0], Persist):
            try:
                self._hook(effects[0])
                in_step.write(self._journal, self._view_log, effects[0], self._state, after)
            except DiskFullError as error:
                log.error("%s", error)
                if not isinstance(event, PersistFailed):
                    self._queue.appendleft(PersistFailed(event))
                return
            effects = effects[1:]
        self._state = after
        for effect in effects:
            self._hook(effect)
            if isinstance(effect, Log):
                self._view_log.append(effect.line)
            else:
                self._flush_view()  # what leaves is in the log before (or in memory and in the journal: a full disk)
                self._carry_out(effect)
        if isinstance(event, Answered):
            self._flush_view()  # now that the token is elsewhere: the next one would wait for it
        self._write_soon()
        self._tell_progress(inputs.now)

    def _hook(self, effect: Effect) -> None:
        if self._fault is not None:
            self._fault(effect)

    # ---- effects out ------------------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send(peer, attempt, request):
                self._spawn(self._send(peer, attempt, request))
            case Reply(ticket, answer):
                future = self._waiting.get(ticket)
                if future is not None and not future.done():
                    future.set_result(answer)
            case Compute():
                self._spawn(self._compute(effect))
            case Finished():
                self._write_result(effect)
            case Note(level, text):
                log.log(logging.getLevelNamesMapping()[level.upper()], "%s", text)
            case Stop():
                if not self.stopped.done():
                    self.stopped.set_result(effect)
            case Persist() | Log():
                raise AssertionError("Persist must come first, and lines are not carried out one by one")

    def _write_result(self, effect: Finished) -> None:
        """The result is safe in the journal; result.json follows as soon as the disk takes it."""
        try:
            self._on_finished(effect)
        except OSError as error:
            self.unwritten = True
            log.error("the result is final but could not be written (%s); free some space", error.strerror)
            self._loop.call_later(RETRY_RESULT_S, self._write_result, effect)
        except Exception as error:
            self.failed = error if isinstance(error, TaskFailedError) else TaskFailedError(described(error))
        else:
            self.unwritten = False

    def _write_soon(self) -> None:
        """What nobody waits for is written with the next thing that is, or a moment later."""
        if self._writing is None:
            self._writing = self._loop.call_later(WRITE_AFTER_S, self._write_unless_new, self._journal.n_records)

    def _write_unless_new(self, n_records: int) -> None:
        """A record that was written meanwhile took along what waited: what waits now has not waited long."""
        self._writing = None
        if self._journal.n_records == n_records:
            self._write_now()
        else:
            self._flush_view()
            self._write_soon()

    def _write_now(self) -> None:
        self._flush_view()
        try:
            self._journal.flush()
        except DiskFullError as error:
            log.error("%s", error)

    def _flush_view(self) -> None:
        try:
            self._view_log.flush()
        except DiskFullError as error:
            log.error("%s: the lines wait in memory; free some space", error)

    def _tell_progress(self, now: float) -> None:
        """News of a new step, not of every one: whoever shows it would cost more than the walk."""
        custody = self._state.durable.custody
        if custody is None or custody.hop.step <= self._told:
            return
        if now >= self._tell_at or custody.hop.step >= self._ctx.total:
            self._told, self._tell_at = custody.hop.step, now + PROGRESS_EVERY_S
            self._on_progress(custody.hop.step)

    def _spawn(self, coroutine: Any) -> None:
        """Begun at once, where Python can: a token that may leave does not wait for the event loop's next turn."""
        task: asyncio.Task[None] = asyncio.Task(coroutine, loop=self._loop, **_AT_ONCE)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    async def _send(self, peer: int, attempt: int, request: Request) -> None:
        answer = await self._client.send(peer, request)
        if answer is None:
            await asyncio.sleep(0)  # a failure may be known at once: others have their turn before the next try
        self.feed(Answered(peer, attempt, request, answer))

    async def _compute(self, task: Compute) -> None:
        work = self._ctx.worker.contribute
        found = await self._loop.run_in_executor(None, work, task.payload, task.contribution)
        self.feed(Computed(found, task.visit))

    # ---- time and noise ---------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """A timer at or before the next wait; waits mostly move away from it, so it is seldom set anew."""
        wake_at = self._state.wake_at
        if wake_at is None or self.stopped.done():
            return
        if self._timer is not None:
            if self._timer_at <= wake_at:
                return
            self._timer.cancel()
        # Kept apart: uvloop's handle of a time that has passed does not know its time.
        self._timer, self._timer_at = self._loop.call_at(wake_at, self._tick), wake_at

    def _tick(self) -> None:
        self._timer = None
        wake_at = self._state.wake_at
        if wake_at is not None and wake_at <= self._loop.time():
            self.feed(Tick())
        else:
            self._set_timer()

    def _take_supply(self) -> Supply:
        if self._stock.low:
            self._loop.call_later(WRITE_AFTER_S, self._stock.restock)  # not now: the token is about to leave
        return self._stock.take()

    async def close(self) -> None:
        for timer in (self._timer, self._writing):
            if timer is not None:
                timer.cancel()
        self._write_now()
        self._stock.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
