"""The sending side of anonymous rounds: one long-lived stream to the adder, and to whoever else is asked now and then.

Every request ends in bounded time with an answer or with None.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import grpc
import grpc.aio

from node.config import Bundle
from node.protocols.rounds.messages import Answer, Block, Outcome, Request
from node.transport.channels import Channels, ExpiredError, reason
from node.transport.codec import WireError
from node.transport.rounds_codec import SERVICE, RoundsCodec

log = logging.getLogger("node.client")

STREAMS: Final = 4  # kept open: the adder's, the last one's, and those of a batch of labels


class Stream:
    """To one peer. Answers come in any order, each with the serial number of its request."""

    def __init__(self, channel: grpc.aio.Channel, codec: RoundsCodec) -> None:
        self._channel = channel
        self._codec = codec
        self._call: Any = channel.stream_stream(f"/{SERVICE}/Round")()
        self._turn = asyncio.Lock()  # gRPC takes one message at a time
        self._serial = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._reader = asyncio.get_running_loop().create_task(self._read())

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    async def ask(self, request: Request) -> Answer:
        self._serial += 1
        serial, answer = self._serial, asyncio.get_running_loop().create_future()
        self._waiting[serial] = answer
        try:
            async with self._turn:
                await self._call.write(self._codec.request_out(serial, request))
            found: Answer = await answer
        finally:
            del self._waiting[serial]
            if answer.done() and not answer.cancelled():
                answer.exception()  # seen, also where writing failed first
        if isinstance(found, Outcome) != isinstance(request, Block):
            raise WireError("an answer to a question of another kind")
        return found

    async def _read(self) -> None:
        """Until the stream ends; whoever still waits then gets no answer."""
        why: Exception = WireError("the stream ended")
        try:
            while (data := await self._call.read()) is not grpc.aio.EOF:
                serial, answer = self._codec.answer_in(data)
                waiting = self._waiting.get(serial)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except asyncio.CancelledError:
            why = WireError("the stream was closed")  # gRPC reports its own cancelling like this
        except (grpc.RpcError, grpc.aio.UsageError, WireError, asyncio.InvalidStateError) as error:
            why = error
        finally:
            self._call.cancel()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(why)

    async def close(self) -> None:
        self._call.cancel()
        await asyncio.wait([self._reader], timeout=1.0)
        await self._channel.close()


class RoundsClient:
    """An ``Outbound``. The adder is a user like all others: its own blocks go to it without a network."""

    def __init__(
        self,
        bundle: Bundle,
        codec: RoundsCodec,
        moved: Mapping[int, str],
        message_bytes_max: int,
        timeouts_s: tuple[float, float],
    ) -> None:
        """``timeouts_s``: of a block, which is answered when the round is over, and of everything else."""
        self._me = bundle.me
        self._names = bundle.public.plan.names
        self._codec = codec
        self._channels = Channels(bundle, moved, message_bytes_max)
        self._timeouts_s = timeouts_s
        self._streams: OrderedDict[int, Stream] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self.on_cold: Callable[[int], None] = lambda peer: None
        self.myself: Callable[[int, Request], Awaitable[Any]]

    async def send(self, peer: int, request: Request) -> Answer | None:
        stream: Stream | None = None
        try:
            async with asyncio.timeout(self._timeouts_s[not isinstance(request, Block)]):
                if peer == self._me:
                    found: Answer = await self.myself(peer, request)
                    return found
                self._channels.check_expiry(peer)
                stream = self._stream(peer)
                return await stream.ask(request)
        except Exception as error:
            level = logging.ERROR if isinstance(error, ExpiredError) else logging.INFO
            self._no_answer(peer, stream, reason(error), level)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._no_answer(peer, stream, "the stream was closed")  # gRPC reports its own cancelling like this
        return None

    def _stream(self, peer: int) -> Stream:
        if peer not in self._streams:
            idle = [user for user, stream in self._streams.items() if not stream.busy]
            for user in idle[: max(0, len(self._streams) + 1 - STREAMS)]:
                self._drop(user)
            self._streams[peer] = Stream(self._channels.channel(peer), self._codec)
        self._streams.move_to_end(peer)
        return self._streams[peer]

    def _no_answer(self, peer: int, stream: Stream | None, why: str, level: int = logging.INFO) -> None:
        log.log(level, "no answer from %s: %s", self._names[peer], why)
        if self._streams.get(peer) is stream:
            self._drop(peer)

    def _drop(self, peer: int) -> None:
        stream = self._streams.pop(peer, None)
        if stream is not None:
            task = asyncio.get_running_loop().create_task(stream.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for peer in list(self._streams):
            self._drop(peer)
        if self._closing:
            await asyncio.wait(self._closing, timeout=1.0)
