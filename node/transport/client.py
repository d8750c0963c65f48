"""The sending side: one channel and one hop stream per warm peer, a bounded number of them.

A sender trusts exactly one certificate per peer: the peer's own, as root, under the peer's own DNS name. Every call
ends in bounded time with an answer or with None.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import grpc
import grpc.aio

from network_dp.plan import Timing
from node.config import Bundle
from node.many.memory import give_back
from node.protocols.walk.messages import Answer, Fence, Handoff, Locate, Offer, Publish, Request
from node.protocols.walk.values import Hop
from node.transport import codec
from node.transport.channels import Channels, ExpiredError, reason
from node.transport.codec import INLINE_BYTES, Frame, WireError
from node.transport.hop_stream import Questions
from node.wire.v1 import peer_pb2 as pb
from node.wire.v1 import peer_pb2_grpc

log = logging.getLogger("node.client")

MAX_QUESTIONS_AT_ONCE = 16
TIDY_AFTER_S = 0.5
BESIDE_TOKEN_BYTES = 1024 * 1024
BYTES_PER_SECOND_FLOOR = 1_000_000  # how slow a link may be before a hand-over counts as unanswered


class _Link:
    """A channel to one peer, and its hop stream once one was needed."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.stub = peer_pb2_grpc.PeerStub(channel)
        self.hop: Any = channel.stream_stream(
            f"/{codec.SERVICE}/Hop", request_serializer=codec.request_out, response_deserializer=pb.HopAnswer.FromString
        )
        self.questions: Questions | None = None  # on the hop stream
        self.busy = 0

    async def close(self) -> None:
        if self.questions is not None:
            await self.questions.close()
        await self.channel.close()


class Client:
    """Sends requests to peers by index."""

    def __init__(
        self, bundle: Bundle, frame: Frame, moved: Mapping[int, str], token_bytes: int, warm_channels: int
    ) -> None:
        self._bundle = bundle
        self._frame = frame
        self._channels = Channels(bundle, moved, token_bytes + BESIDE_TOKEN_BYTES)
        self._warm_channels = warm_channels
        self._timing: Timing = bundle.public.plan.timing
        self._links: OrderedDict[int, _Link] = OrderedDict()
        self._questions = asyncio.Semaphore(MAX_QUESTIONS_AT_ONCE)
        self.on_cold: Callable[[int], None] = lambda peer: None  # a hop stream to this peer has ended
        self._closing: set[asyncio.Task[None]] = set()
        self._tidy: asyncio.TimerHandle | None = None

    def _link(self, peer: int) -> _Link:
        link = self._links.get(peer)
        if link is not None:
            self._links.move_to_end(peer)
            return link
        link = _Link(self._channels.channel(peer))
        self._links[peer] = link
        return link

    def _evict(self) -> None:
        for peer in list(self._links) if len(self._links) > self._warm_channels else ():
            if len(self._links) <= self._warm_channels:
                return
            if not self._links[peer].busy:
                self._drop(peer)

    def _drop(self, peer: int) -> None:
        link = self._links.pop(peer, None)
        if link is not None:
            task = asyncio.get_running_loop().create_task(link.close())
            self._closing.add(task)
            task.add_done_callback(self._closed)

    def _closed(self, task: asyncio.Task[None]) -> None:
        """A connection is a tenth of a MiB; in a crowd nearly every hop opens and closes one."""
        self._closing.discard(task)
        if self._tidy is None:
            self._tidy = asyncio.get_running_loop().call_later(TIDY_AFTER_S, self._give_back)

    def _give_back(self) -> None:
        self._tidy = None
        give_back()

    async def send(self, peer: int, request: Request) -> Answer | None:
        """One request, answered in bounded time; None when no answer came."""
        match request:
            case Handoff():
                pieces = self._pieces(request)
                timeout_s = self._timing.handoff_timeout_s + len(request.token) / BYTES_PER_SECOND_FLOOR
                return await self._guarded(peer, timeout_s, lambda link: self._ask(peer, link, pieces, patient=True))
            case Offer(hop):
                offer, timeout_s = self._offer(hop), self._timing.offer_timeout_s
                return await self._guarded(peer, timeout_s, lambda link: self._ask(peer, link, offer, patient=False))
            case Locate() | Fence() | Publish():
                async with self._questions:
                    return await self._question(peer, request)

    def _pieces(self, handoff: Handoff) -> Iterator[Any]:
        """A hand-over as messages: one, or the first and its chunks, each made when the one before is on its way."""
        token, size = handoff.token, len(handoff.token)
        first = bytes(token if size <= INLINE_BYTES else token[: codec.FIRST_BYTES])
        message = self._request(handoff.hop)
        head = message.handoff
        head.grant, head.key, head.size, head.token = handoff.grant, handoff.key, size, first
        yield message
        rest, front = memoryview(token)[len(first) :], b""
        cut = codec.piece_bytes(len(rest))
        while rest:
            chunk, rest = rest[:cut], rest[cut:]
            if not front or len(chunk) < cut:
                front = codec.chunk_head(self._frame, handoff.hop, len(chunk))
            yield b"".join((front, chunk))

    def _request(self, hop: Hop) -> Any:
        message = pb.HopRequest()
        self._frame.stamp(message.context, hop)
        return message

    def _offer(self, hop: Hop) -> Iterator[Any]:
        message = self._request(hop)
        message.offer.SetInParent()
        yield message

    def _ask(self, peer: int, link: _Link, pieces: Iterator[Any], *, patient: bool) -> Awaitable[Answer]:
        """On a link's hop stream, which is opened when it is needed."""
        if link.questions is None:
            call = link.hop()
            call.add_done_callback(lambda call: self.on_cold(peer))
            link.questions = Questions(call, self._frame)
        return link.questions.ask(pieces, patient=patient)

    async def _question(self, peer: int, request: Locate | Fence | Publish) -> Answer | None:
        frame = self._frame
        timeout_s = self._timing.locate_timeout_s
        if isinstance(request, Publish):
            timeout_s += len(request.result.token) / BYTES_PER_SECOND_FLOOR

        async def ask(link: _Link) -> Answer:
            match request:
                case Locate():
                    return codec.located_in(await link.stub.Locate(pb.LocateRequest(context=frame.context())))
                case Fence(epoch):
                    question = pb.FenceRequest(context=frame.context(Hop(epoch, -1)))
                    return codec.promise_in(await link.stub.Fence(question))
                case Publish():
                    return codec.published_in(await link.stub.Publish(iter(codec.publish_out(frame, request))))

        return await self._guarded(peer, timeout_s, ask)

    async def _guarded(self, peer: int, timeout_s: float, call: Callable[[_Link], Awaitable[Answer]]) -> Answer | None:
        """Run a call; whatever goes wrong between here and the peer is no answer, and the channel is made anew."""
        link: _Link | None = None
        try:
            self._channels.check_expiry(peer)
            link = self._link(peer)
            link.busy += 1
            self._evict()  # never this one: it is busy
            async with asyncio.timeout(timeout_s):
                return await call(link)
        except Exception as error:
            level = logging.ERROR if isinstance(error, ExpiredError) else logging.INFO
            self._no_answer(peer, link, reason(error), level)
            return None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._no_answer(peer, link, "the stream was closed")  # gRPC reports its own cancelling like this
            return None
        finally:
            if link is not None:
                link.busy -= 1
                self._evict()

    async def pass_on(self, peer: int, method: str, message: bytes, timeout_s: float) -> bytes | None:
        """One call of somebody else's message; its slow answer says nothing about this peer's channel."""
        link: _Link | None = None
        try:
            self._channels.check_expiry(peer)
            link = self._link(peer)
            link.busy += 1
            self._evict()
            call: Any = link.channel.unary_unary(method)
            return bytes(await call(message, timeout=timeout_s))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return None  # gRPC reports its own cancelling like this
        except (grpc.aio.AioRpcError, WireError) as error:
            gone = isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.UNAVAILABLE
            self._no_answer(peer, link if gone else None, reason(error))
            return None
        finally:
            if link is not None:
                link.busy -= 1
                self._evict()

    def _no_answer(self, peer: int, link: _Link | None, reason: str, level: int = logging.INFO) -> None:
        log.log(level, "no answer from %s: %s", self._bundle.public.plan.users[peer].name, reason)
        if self._links.get(peer) is link:
            self._drop(peer)

    async def close(self) -> None:
        for peer in list(self._links):
            self._drop(peer)
        if self._closing:
            await asyncio.wait(self._closing, timeout=1.0)
        if self._tidy is not None:
            self._tidy.cancel()
