"""The receiving side of a walk: a gRPC service over mutual TLS. Every call is one user's, known by its certificate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import grpc
import grpc.aio

from node.config import Bundle
from node.protocols.walk import values
from node.protocols.walk.messages import (
    Accepted,
    Declined,
    Fence,
    Handoff,
    Locate,
    Offer,
    Publish,
    Refused,
    Result,
    Why,
)
from node.protocols.walk.values import NO_EPOCH
from node.transport import codec, relay
from node.transport.arrival import Arrival
from node.transport.codec import INLINE_BYTES, Frame, WireError
from node.transport.hop_stream import Answers
from node.transport.identity import pem_of
from node.transport.interface import Inbound
from node.transport.relay import Relay
from node.transport.service import CallRefusedError, Service, bounded
from node.wire.v1 import peer_pb2 as pb

log = logging.getLogger("node.server")

T = TypeVar("T")
More = Callable[[], Awaitable[bytes]]  # the next message of a stream; an empty one at its end


class PeerService(Service):
    """Turns messages of a walk into protocol events and waits for the protocol's answer."""

    message_bytes_max = 4 * 1024 * 1024

    def __init__(self, bundle: Bundle, frame: Frame, behind: Inbound, token_bytes: int, token_timeout_s: float) -> None:
        """``token_timeout_s``: from a long token's first piece to its last; then its sender is not waited for."""
        super().__init__(bundle, frame, behind)
        self._token_bytes = token_bytes
        self._token_timeout_s = token_timeout_s
        self.relay: Relay | None = None  # on a graph that says so: only peers call, and pass on what others say
        self._unfinished: dict[tuple[int, str], asyncio.Timeout] = {}  # one token and one result per user

    def caller(self, context: Any, *, own: bool = False) -> int:
        user = super().caller(context, own=own)
        if self.relay is not None and not own and user not in self.relay.near:
            raise CallRefusedError(grpc.StatusCode.PERMISSION_DENIED, "not a peer of this user: speak by way of peers")
        return user

    def handlers(self) -> Mapping[str, Mapping[str, Any]]:
        """Requests come as bytes: what cannot be read is refused here and not by gRPC, which would log a traceback."""
        unary, hop = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        publish = grpc.stream_unary_rpc_method_handler
        methods: dict[str, Any] = {
            "Hop": hop(bounded(self.Hop), response_serializer=pb.HopAnswer.SerializeToString),
            "Locate": unary(bounded(self.Locate), response_serializer=pb.LocateAnswer.SerializeToString),
            "Fence": unary(bounded(self.Fence), response_serializer=pb.FenceAnswer.SerializeToString),
            "Publish": publish(bounded(self.Publish), response_serializer=pb.PublishAnswer.SerializeToString),
            "Status": unary(bounded(self.Status), response_serializer=pb.StatusAnswer.SerializeToString),
        }
        relayed = {} if self.relay is None else {relay.SERVICE: self.relay.handlers(self.caller, bounded)}
        return {codec.SERVICE: methods, **relayed}

    def _checked(self, context: Any, message_context: Any) -> values.Hop:
        try:
            return self._frame.check(message_context)
        except WireError as error:
            log.warning("refused a message from %s: %s", context.peer(), error)
            raise CallRefusedError(grpc.StatusCode.FAILED_PRECONDITION, "not a message of this run") from None

    async def Hop(self, _: object, context: Any) -> None:
        """Reads and writes at the context itself: gRPC's iterators of requests and of answers would stand between a
        token and the next user."""
        user = self.caller(context)
        pem = pem_of(context.auth_context())  # a connection's for as long as it lives

        async def more() -> bytes:
            data = await context.read()
            return b"" if data is grpc.aio.EOF else data

        answers, offered = Answers(context), True
        try:
            while (offer := await self._question(user, pem, context, more, answers, warm=not offered)) is not None:
                offered = offer
        finally:
            answers.close()

    async def _question(
        self, user: int, pem: bytes, context: Any, more: More, answers: Answers, *, warm: bool
    ) -> bool | None:
        """One question and its answer: was it an offer? None: the stream has ended. Apart from the loop, so that a
        stream which waits for its next question keeps nothing of the last."""
        data = await context.read()
        if data is grpc.aio.EOF:
            return None
        if not self._directory.valid(pem):
            self.caller(context)  # refuses: it expired while the stream was open
        request = codec.question_in(data)
        offered = request.HasField("offer")
        hop, answer = await self._hop(user, request, more, offer=offered)
        message = partial(codec.hop_answer_out, self._frame, hop, request.serial, answer)
        # Not for a long token: whoever waits for the answer keeps its memory.
        if warm and isinstance(answer, Accepted) and request.handoff.size <= INLINE_BYTES:
            answers.delay_ack(message)
        else:
            await answers.now(message())
        return bool(offered)

    async def _hop(self, user: int, request: Any, more: More, *, offer: bool) -> tuple[values.Hop, Any]:
        """The answer to an offer or a hand-over, always a typed one: also to what belongs to another run."""
        try:
            hop = self._frame.check(request.context)
        except WireError as error:
            log.warning("refused a message from %s: %s", self._names[user], error)
            left = 0 if offer else request.handoff.size - len(request.handoff.token)
            await self._one_at_a_time(user, "token", self._drain(left, more))
            no = Declined(Why.UNFIT, NO_EPOCH) if offer else Refused(Why.UNFIT, NO_EPOCH)
            return values.NO_HOP, no
        if offer:
            return hop, await self._ask(user, Offer(hop))
        return hop, await self._handoff(user, hop, request.handoff, more)

    async def _handoff(self, user: int, hop: values.Hop, handoff: Any, more: More) -> Any:
        """A token, in one message or (if it is long) in chunks; its size is fixed by the plan and checked before it is
        read."""
        token = handoff.token  # once: every look at it is a copy
        in_pieces = len(token) < handoff.size
        short = handoff.size <= INLINE_BYTES
        if handoff.size != self._token_bytes or len(handoff.key) != codec.KEY_BYTES or (in_pieces and short):
            log.warning("refused a token of %d bytes from %s", handoff.size, self._names[user])
            await self._one_at_a_time(user, "token", self._drain(handoff.size - len(token), more))
            return Refused(Why.UNFIT, NO_EPOCH)
        begun = Handoff(hop, handoff.grant, handoff.key, token)
        if not in_pieces:
            return await self._ask(user, begun)
        arrival = Arrival(handoff.size, keep=self._behind.admits(user, begun))  # no grant, no room: its digest will do
        if not await self._one_at_a_time(user, "token", self._rest(begun, handoff.size, arrival, more)):
            return Refused(Why.UNFIT, NO_EPOCH)
        return await self._ask(user, begun._replace(token=arrival.token, digest=arrival.digest()))

    async def _one_at_a_time(self, user: int, what: str, work: Awaitable[T]) -> T:
        """At most one unfinished token, and one result, per user, for a bounded time. A newer one ends it: the older
        one's stream may be dead without anybody knowing yet."""
        older, limit = self._unfinished.get((user, what)), asyncio.timeout(self._token_timeout_s)
        if older is not None and not older.expired():
            older.reschedule(asyncio.get_running_loop().time())
        try:
            async with limit:
                self._unfinished[user, what] = limit
                return await work
        except TimeoutError:
            raise WireError("a message that did not end in time, or before the next") from None
        finally:
            if self._unfinished.get((user, what)) is limit:
                del self._unfinished[user, what]

    async def _rest(self, begun: Handoff, size: int, arrival: Arrival, more: More) -> bool:
        """A token's first piece and the chunks that follow, each put where it belongs while the next is on its way.
        False when they are not what was announced."""
        cut = codec.piece_bytes(size - len(begun.token))
        head = codec.chunk_head(self._frame, begun.hop, cut)
        piece, left = begun.token, size
        while piece and len(piece) <= left:
            arrival.put(piece)
            left -= len(piece)
            if not left:
                return True
            piece = codec.chunk_in(await more(), head, cut)
        return False

    async def _drain(self, size: int, more: More) -> None:
        """Chunks of a token that was refused by its size: a bounded number of bytes, thrown away."""
        left = min(size, values.MAX_TOKEN_BYTES)
        while left > 0 and (chunk := codec.request_in(await more()).chunk.data):
            left -= len(chunk)

    async def Locate(self, data: bytes, context: Any) -> Any:
        user = self.caller(context)
        self._checked(context, codec.message_in(pb.LocateRequest, data).context)
        return codec.located_out(self._frame, await self._ask(user, Locate()))

    async def Fence(self, data: bytes, context: Any) -> Any:
        user = self.caller(context)
        hop = self._checked(context, codec.message_in(pb.FenceRequest, data).context)
        return codec.promise_out(self._frame, await self._ask(user, Fence(hop.epoch)))

    async def Publish(self, pieces: AsyncIterator[bytes], context: Any) -> Any:
        user = self.caller(context)
        data = await anext(pieces, b"")
        if not data:
            raise WireError("no result")
        first = codec.message_in(pb.PublishRequest, data)
        hop = self._checked(context, first.context)
        if first.size not in (0, self._token_bytes) or len(first.end) != codec.SECRET_BYTES:
            raise WireError("a result of the wrong size")
        token = await self._one_at_a_time(user, "result", self._result(first, pieces))
        message = Publish(Result(hop.epoch, first.end, token), first.final, first.everybody)
        return codec.published_out(self._frame, await self._ask(user, message))

    async def _result(self, first: Any, pieces: AsyncIterator[bytes]) -> bytes:
        """The bytes of a result, in one message or (if it is long) in several."""
        arrival, piece, left = Arrival(first.size, keep=True), first.token, first.size
        while left > 0 or piece:
            if not 0 < len(piece) <= left:
                raise WireError("a result of the wrong size")
            arrival.put(piece)
            left -= len(piece)
            piece = codec.message_in(pb.PublishRequest, await anext(pieces, b"")).token if left else b""
        return bytes(arrival.token)
