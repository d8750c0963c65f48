"""The receiving side: a gRPC service over mutual TLS. Every call is one user's, known by its certificate.

Answers are typed messages; a gRPC status never means "refused". What a caller outside the plan gets is
PERMISSION_DENIED, and a log line without any payload.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2

from node.config import Bundle
from node.logs import described
from node.protocol import values
from node.protocol.messages import (
    Accepted,
    Answer,
    Declined,
    Fence,
    Handoff,
    Locate,
    Offer,
    Publish,
    Refused,
    Request,
    Result,
    Why,
)
from node.protocol.values import NO_EPOCH
from node.transport import codec
from node.transport.arrival import Arrival
from node.transport.codec import INLINE_BYTES, Frame, WireError
from node.transport.hop_stream import Answers
from node.transport.identity import Directory, NotInPlanError, pem_of
from node.wire.v1 import peer_pb2 as pb

log = logging.getLogger("node.server")

T = TypeVar("T")
Ask = Callable[[int, Request], Awaitable[Answer]]
More = Callable[[], Awaitable[bytes]]  # the next message of a stream; an empty one at its end
Granted = Callable[[int, Handoff], bool]  # user, hand-over with the token's first bytes

SERVER_OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_concurrent_streams", 16),  # per connection; a user needs one for hops and a few for questions
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
]


class CallRefusedError(Exception):
    """A call that ends with this status and this fixed text."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        self.refusal = code, text


class PeerService:
    """Turns messages into protocol events and waits for the protocol's answer."""

    def __init__(
        self,
        directory: Directory,
        frame: Frame,
        me: int,
        names: tuple[str, ...],
        token_bytes: int,
        ask: Ask,
        phase: Callable[[], tuple[str, bool]],
        version: str,
        granted: Granted,
        token_timeout_s: float,
    ) -> None:
        """``token_timeout_s``: from a long token's first piece to its last; then its sender is not waited for."""
        self._directory = directory
        self._frame = frame
        self._me = me
        self._names = names
        self._token_bytes = token_bytes
        self._ask = ask
        self._phase = phase
        self._version = version
        self._granted = granted
        self._token_timeout_s = token_timeout_s
        self._unfinished: dict[tuple[int, str], asyncio.Timeout] = {}  # one token and one result per user

    def caller(self, context: Any, *, own: bool = False) -> int:
        """The calling user; PERMISSION_DENIED for everybody outside the plan, and for oneself (but for Status)."""
        try:
            user = self._directory.user(pem_of(context.auth_context()))
        except NotInPlanError as error:
            log.warning("refused a call from %s: %s", context.peer(), error)
            raise CallRefusedError(grpc.StatusCode.PERMISSION_DENIED, "not a user of this run") from None
        if user == self._me and not own:
            raise CallRefusedError(grpc.StatusCode.PERMISSION_DENIED, "this is you")
        return user

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
        message = partial(codec.hop_answer_out, self._frame, hop, request.serial, answer)  # type: ignore[arg-type]
        # Not for a long token: whoever waits for the answer keeps its memory.
        if warm and isinstance(answer, Accepted) and request.handoff.size <= INLINE_BYTES:
            answers.late(message)
        else:
            await answers.now(message())
        return bool(offered)

    async def _hop(self, user: int, request: Any, more: More, *, offer: bool) -> tuple[values.Hop, Answer]:
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

    async def _handoff(self, user: int, hop: values.Hop, handoff: Any, more: More) -> Answer:
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
        arrival = Arrival(handoff.size, keep=self._granted(user, begun))  # no grant, no room: its digest will do
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
        return codec.located_out(self._frame, await self._ask(user, Locate()))  # type: ignore[arg-type]

    async def Fence(self, data: bytes, context: Any) -> Any:
        user = self.caller(context)
        hop = self._checked(context, codec.message_in(pb.FenceRequest, data).context)
        return codec.promise_out(self._frame, await self._ask(user, Fence(hop.epoch)))  # type: ignore[arg-type]

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
        return codec.published_out(self._frame, await self._ask(user, message))  # type: ignore[arg-type]

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

    async def Status(self, data: bytes, context: Any) -> Any:
        self.caller(context, own=True)
        phase, final = self._phase()
        return pb.StatusAnswer(
            context=self._frame.context(), phase=phase, final=final, wall_time_s=time.time(), version=self._version
        )


class HealthService:
    """The standard health service: SERVING from the first moment on which peers may send."""

    def __init__(self, peers: PeerService) -> None:
        self._peers = peers
        self.serving = False

    async def Check(self, data: bytes, context: Any) -> Any:
        self._peers.caller(context, own=True)
        statuses = health_pb2.HealthCheckResponse
        return statuses(status=statuses.SERVING if self.serving else statuses.NOT_SERVING)


def _bounded(method: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    """The boundary of every call. What an error says may be a value of this user's: the caller gets a fixed text, and
    this user's own log the error's type."""

    async def call(request: Any, context: Any) -> Any:
        try:
            return await method(request, context)
        except CallRefusedError as error:
            refusal = error.refusal
        except WireError as error:
            log.warning("refused a message from %s: %s", context.peer(), error)
            refusal = grpc.StatusCode.INVALID_ARGUMENT, "not a message of this protocol"
        except Exception as error:
            log.error("a call from %s failed: %s", context.peer(), described(error))
            refusal = grpc.StatusCode.INTERNAL, "the call failed"
        # Out here: gRPC keeps the exception that this raises, and with it the frames of what was being handled.
        return await context.abort(*refusal)

    return call


def _handlers(service: PeerService) -> dict[str, Any]:
    """Requests come as bytes: what cannot be read is refused here and not by gRPC, which would log a traceback."""
    unary, hop = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
    publish = grpc.stream_unary_rpc_method_handler
    return {
        "Hop": hop(_bounded(service.Hop), response_serializer=pb.HopAnswer.SerializeToString),
        "Locate": unary(_bounded(service.Locate), response_serializer=pb.LocateAnswer.SerializeToString),
        "Fence": unary(_bounded(service.Fence), response_serializer=pb.FenceAnswer.SerializeToString),
        "Publish": publish(_bounded(service.Publish), response_serializer=pb.PublishAnswer.SerializeToString),
        "Status": unary(_bounded(service.Status), response_serializer=pb.StatusAnswer.SerializeToString),
    }


async def start_server(bundle: Bundle, service: PeerService, health: HealthService) -> grpc.aio.Server:
    """Listen on the bundle's bind address, or fail with a sentence that says why."""
    server = grpc.aio.server(options=SERVER_OPTIONS)
    check: Any = grpc.unary_unary_rpc_method_handler(
        _bounded(health.Check), response_serializer=health_pb2.HealthCheckResponse.SerializeToString
    )
    server.add_registered_method_handlers(codec.SERVICE, _handlers(service))
    server.add_registered_method_handlers(codec.HEALTH, {"Check": check})
    credentials = grpc.ssl_server_credentials(
        [(bundle.key_pem, bundle.certificate_pem)], root_certificates=bundle.ca_pem, require_client_auth=True
    )
    server.add_secure_port(bundle.bind, credentials)
    await server.start()
    return server
