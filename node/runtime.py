"""One user's process around a protocol's core: carries out effects in order, feeds events back.

The core decides; this file only does, for any protocol (``node/protocols/interface.py``) over any transport
(``node/transport/interface.py``). A transition's ``Persist`` comes first; if the disk refuses it, the whole transition
is void.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Generic

from node.errors import DiskFullError, TaskFailedError
from node.logs import described
from node.protocols.effects import (
    Answered,
    Begin,
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
    StreamClosed,
    Tick,
)
from node.protocols.interface import Machine, State
from node.storage.store import Store
from node.transport.interface import Outbound

log = logging.getLogger("node.runtime")

RETRY_RESULT_S = 1.0
PROGRESS_EVERY_S = 0.1
WRITE_AFTER_S = 0.05
TIMER_S = 0.001  # of the event loop's timers; uvloop's clock is no finer, and stands still within a turn


_AT_ONCE: Mapping[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}


class Runtime(Generic[State]):
    """Owns the state of one user and is the only one to change it."""

    def __init__(
        self,
        machine: Machine[State],
        store: Store,
        client: Outbound,
        on_finished: Callable[[Finished[Any]], None],
        on_progress: Callable[[int], None],
        fault: Callable[[Any], None] | None = None,
    ) -> None:
        self._machine = machine
        self._store = store
        self._client = client
        self._on_finished = on_finished
        self._on_progress = on_progress
        self._fault = fault
        self._state = machine.initial(store.journal.durable)
        self._queue: deque[Any] = deque()
        self._running = False
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._ticket = 0
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._told, self._tell_at = -1, 0.0
        self._writing: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self.stopped: asyncio.Future[Stop] = self._loop.create_future()
        client.on_cold = lambda peer: self.feed(StreamClosed(peer))
        self.unwritten = False  # is the result final, but result.json not there yet?
        self.failed: TaskFailedError | None = None  # the result is final, but the task cannot read it

    @property
    def status(self) -> tuple[str, bool]:
        return self._machine.status(self._state)

    # ---- events in --------------------------------------------------------------------------------------------

    def begin(self, *, again: bool) -> None:
        self.feed(Begin(again))
        self._store.view_log.settle()

    def stop(self) -> None:
        self.feed(Stopping())

    async def ask(self, peer: int, request: Any) -> Any:
        """A peer's request: the core always replies within the transition."""
        self._ticket += 1
        ticket = self._ticket
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting[ticket] = future
        try:
            self.feed(Received(peer, ticket, request))
            if not _AT_ONCE:
                await asyncio.sleep(0)  # what the transition sends leaves before its answer: the token waits for nobody
            return await future
        finally:
            self._waiting.pop(ticket, None)

    def feed(self, event: Any) -> None:
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

    def admits(self, peer: int, begun: Any) -> bool:
        """May this long message, of which the first bytes have come, have room in memory?"""
        return self._machine.admits(self._state, peer, begun, time.monotonic())

    def _safely(self, event: Any) -> None:
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
            refusal = self._machine.refusal(self._state, event.request, error)
            if refusal is None:
                future.set_exception(error)
            else:
                future.set_result(refusal)

    def _fail(self, error: BaseException) -> None:
        if not self.stopped.done():
            self.stopped.set_exception(error)

    def _transition(self, event: Any) -> None:
        now = time.monotonic()
        after, effects = self._machine.step(self._state, event, now)
        if effects and isinstance(effects[0], Persist):
            try:
                self._hook(effects[0])
                self._store.write(effects[0], self._state, after)
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
                self._store.view_log.append(effect.line)
            else:
                self._store.flush_view()  # first (on a full disk it waits in memory, and is in the journal)
                self._carry_out(effect)
        if isinstance(event, Answered):
            self._store.flush_view()  # now that the token is elsewhere: the next one would wait for it
        self._write_soon()
        self._tell_progress(now)

    def _hook(self, effect: Any) -> None:
        if self._fault is not None:
            self._fault(effect)

    # ---- effects out ------------------------------------------------------------------------------------------

    def _carry_out(self, effect: Any) -> None:
        match effect:
            case Send(peer, attempt, request):
                self._spawn(self._send(peer, attempt, request))
            case Reply(ticket, answer):
                future = self._waiting.get(ticket)
                if future is not None and not future.done():
                    future.set_result(answer)
            case Finished():
                self._write_result(effect)
            case Note(level, text):
                log.log(logging.getLevelNamesMapping()[level.upper()], "%s", text)
            case Stop():
                if not self.stopped.done():
                    self.stopped.set_result(effect)
            case Persist() | Log():
                raise AssertionError("Persist must come first, and lines are not carried out one by one")
            case work:
                self._spawn(self._compute(work))

    def _write_result(self, effect: Finished[Any]) -> None:
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
            self._writing = self._loop.call_later(WRITE_AFTER_S, self._write_unless_new, self._store.journal.n_records)

    def _write_unless_new(self, n_records: int) -> None:
        """A record that was written meanwhile took along what waited: what waits now has not waited long."""
        self._writing = None
        if self._store.journal.n_records == n_records:
            self._store.flush()
        else:
            self._store.flush_view()
            self._write_soon()

    def _tell_progress(self, now: float) -> None:
        """Of a new step, not of every one: whoever shows it would cost more than the protocol."""
        step = self._machine.progress(self._state)
        if step > self._told and (now >= self._tell_at or step >= self._machine.total):
            self._told, self._tell_at = step, now + PROGRESS_EVERY_S
            self._on_progress(step)

    def _spawn(self, coroutine: Any) -> None:
        """Begun at once, where Python can: a token that may leave does not wait for the event loop's next turn."""
        task: asyncio.Task[None] = asyncio.Task(coroutine, loop=self._loop, **_AT_ONCE)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    async def _send(self, peer: int, attempt: int, request: Any) -> None:
        answer = await self._client.send(peer, request)
        if answer is None:
            await asyncio.sleep(0)  # a failure may be known at once: others have their turn before the next try
        self.feed(Answered(peer, attempt, request, answer))

    async def _compute(self, work: Any) -> None:
        self.feed(await self._loop.run_in_executor(None, self._machine.compute, work))

    # ---- time -------------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """A timer at or before the next wait; waits mostly move away from it, so it is seldom set anew."""
        wake_at = self._machine.wake_at(self._state)
        if wake_at is None or self.stopped.done():
            return
        if self._timer is not None:
            if self._timer_at <= wake_at:
                return
            self._timer.cancel()
        # Kept apart: uvloop's handle of a time that has passed does not know its time.
        left_s = max(0.0, wake_at - time.monotonic())
        self._timer, self._timer_at = self._loop.call_later(left_s - left_s % TIMER_S, self._tick), wake_at

    def _tick(self) -> None:
        """The rest of a wait, too short for a timer, is slept: turning the event loop until it is over costs more than
        all else in a round. What has come meanwhile goes first."""
        self._timer = None
        wake_at = self._machine.wake_at(self._state)
        left_s = TIMER_S if wake_at is None else wake_at - time.monotonic()
        if left_s <= 0.0:
            self.feed(Tick())
        elif left_s < TIMER_S:
            time.sleep(left_s)
            self._timer = self._loop.call_soon(self._tick)
        else:
            self._set_timer()

    async def close(self) -> None:
        for timer in (self._timer, self._writing):
            if timer is not None:
                timer.cancel()
        self._store.flush()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
