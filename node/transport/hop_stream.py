"""The two ends of a hop stream, on which a caller asks and is answered in order.

That a token was taken on a warm stream is told up to ``LATE_S`` later: the token is on its way, and nobody waits to
hear of it. An answer settles its question and all before it, because a "no" is never late. So on a busy walk one answer
stands for many (docs/adr/0014).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import grpc
import grpc.aio

from node.protocols.walk.messages import Accepted, Answer, Refused
from node.transport.codec import Frame, WireError, hop_answer_in

LATE_S: Final = 0.05


class Questions:
    """The caller's end."""

    def __init__(self, call: Any, frame: Frame) -> None:
        self._call = call
        self._frame = frame
        self._turn = asyncio.Lock()  # the pieces of a token stay together
        self._serial = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._patient: set[int] = set()  # of those, the hand-overs: a later answer may stand for theirs
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def ask(self, pieces: Iterator[Any], *, patient: bool) -> Answer:
        """A question as messages (the first gets the serial number), and its answer."""
        self._serial += 1
        serial = self._serial
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[serial] = answer
        if patient:
            self._patient.add(serial)
        try:
            async with self._turn:
                head = next(pieces)
                head.serial = serial
                await self._call.write(head)
                for piece in pieces:
                    await self._call.write(piece)
            return await answer
        finally:
            del self._waiting[serial]
            self._patient.discard(serial)
            if answer.done() and not answer.cancelled():
                answer.exception()  # seen, also where writing failed first

    async def _read(self) -> None:
        """Answers as they come, until the stream ends; whoever still waits then gets none."""
        reason: Exception = WireError("the stream ended")
        try:
            while (message := await self._call.read()) is not grpc.aio.EOF:
                self._settle(message)
        except asyncio.CancelledError:
            reason = WireError("the stream was closed")  # gRPC reports its own cancelling like this
        except (grpc.RpcError, grpc.aio.UsageError, WireError, asyncio.InvalidStateError) as error:
            reason = error
        finally:
            self._call.cancel()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(reason)

    def _settle(self, message: Any) -> None:
        """Nothing is settled by a message that is not believed as a whole."""
        if message is None:  # gRPC's word for bytes it could not read
            raise WireError("not an answer of this protocol")
        self._frame.check(message.context)
        serial, answer = message.serial, hop_answer_in(message)
        asked = self._waiting.get(serial)
        if asked is None or asked.done():
            raise WireError("an answer to another question")
        if isinstance(answer, Accepted | Refused) != (serial in self._patient):
            raise WireError("an answer to a question of another kind")
        earlier = {number for number, waiting in self._waiting.items() if number < serial and not waiting.done()}
        if not earlier <= self._patient:
            raise WireError("a question was passed over")
        for number in earlier:
            self._waiting[number].set_result(Accepted())
        asked.set_result(answer)

    async def close(self) -> None:
        self._call.cancel()
        await asyncio.wait([self._reader], timeout=1.0)


class Answers:
    """The answering end."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._turn = asyncio.Lock()  # gRPC takes one message at a time
        self._late: Callable[[], Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None

    async def now(self, message: Any) -> None:
        self._late = None  # this one says it too
        async with self._turn:
            await self._context.write(message)

    def delay_ack(self, message: Callable[[], Any]) -> None:
        """The message is made when it is sent: most are not, because a later one takes their place."""
        self._late = message
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LATE_S, self._tell)

    def _tell(self) -> None:
        self._timer = None
        self._telling = asyncio.get_running_loop().create_task(self._tell_last())

    async def _tell_last(self) -> None:
        """Whatever is the last by now: answers go out in the order of their questions."""
        with suppress(grpc.aio.BaseError, asyncio.InvalidStateError):  # the caller is gone, and will ask again
            async with self._turn:
                if self._late is not None:
                    message, self._late = self._late, None
                    await self._context.write(message())

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
