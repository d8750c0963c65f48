"""The receiving side: a gRPC service over mutual TLS. Every call is one user's, known by its certificate.

Answers are typed messages; a gRPC status never means "refused". What a caller outside the plan gets is
PERMISSION_DENIED, and a log line without any payload.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from node.config import Bundle
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
from node.wire.v1 import peer_pb2_grpc

log = logging.getLogger("node.server")

Ask = Callable[[int, Request], Awaitable[Answer]]
More = Callable[[], Awaitable[bytes]]  # the next message of a stream; an empty one at its end

SERVER_OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_concurrent_streams", 64),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
]


class PeerService(peer_pb2_grpc.PeerServicer):  # type: ignore[misc]
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
    ) -> None:
        self._directory = directory
        self._frame = frame
        self._me = me
        self._names = names
        self._token_bytes = token_bytes
        self._ask = ask
        self._phase = phase
        self._version = version

    async def caller(self, context: Any, *, own: bool = False) -> int:
        """The calling user; PERMISSION_DENIED for everybody outside the plan, and for oneself (but for Status)."""
        try:
            user = self._directory.user(pem_of(context.auth_context()))
        except NotInPlanError as error:
            log.warning("refused a call from %s: %s", context.peer(), error)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not a user of this run")
            raise
        if user == self._me and not own:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "this is you")
        return user

    async def _checked(self, context: Any, message_context: Any) -> values.Hop:
        try:
            return self._frame.check(message_context)
        except WireError as error:
            log.warning("refused a message from %s: %s", context.peer(), error)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise

    async def Hop(self, _: object, context: Any) -> None:
        """Reads and writes at the context itself: gRPC's iterators of requests and of answers would stand between a
        token and the next user."""
        user = await self.caller(context)
        pem = pem_of(context.auth_context())  # a connection's for as long as it lives

        async def more() -> bytes:
            data = await context.read()
            return b"" if data is grpc.aio.EOF else data

        answers, offered = Answers(context), True
        try:
            while (data := await context.read()) is not grpc.aio.EOF:
                if not self._directory.valid(pem):
                    await self.caller(context)  # refuses: it expired while the stream was open
                request = codec.question_in(data)
                warm, offered = not offered, request.HasField("offer")
                hop, answer = await self._hop(user, request, more, offer=offered)
                message = partial(codec.hop_answer_out, self._frame, hop, request.serial, answer)  # type: ignore[arg-type]
                # Not for a long token: whoever waits for the answer keeps its memory.
                if warm and isinstance(answer, Accepted) and request.handoff.size <= INLINE_BYTES:
                    answers.late(message)
                else:
                    await answers.now(message())
        except WireError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            answers.close()

    async def _hop(self, user: int, request: Any, more: More, *, offer: bool) -> tuple[values.Hop, Answer]:
        """The answer to an offer or a hand-over, always a typed one: also to what belongs to another run."""
        try:
            hop = self._frame.check(request.context)
        except WireError as error:
            log.warning("refused a message from %s: %s", self._names[user], error)
            await self._drain(0 if offer else request.handoff.size - len(request.handoff.token), more)
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
            await self._drain(handoff.size - len(token), more)
            return Refused(Why.UNFIT, NO_EPOCH)
        begun = Handoff(hop, handoff.grant, handoff.key, token)
        if not in_pieces:
            return await self._ask(user, begun)
        arrival = Arrival(handoff.size)
        if not await self._rest(begun, handoff.size, arrival, more):
            return Refused(Why.UNFIT, NO_EPOCH)
        return await self._ask(user, begun._replace(token=arrival.token, digest=arrival.digest()))

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
        while left > 0:
            chunk = codec.request_in(await more()).chunk.data
            if not chunk:
                return
            left -= len(chunk)

    async def Locate(self, request: Any, context: Any) -> Any:
        user = await self.caller(context)
        await self._checked(context, request.context)
        return codec.located_out(self._frame, await self._ask(user, Locate()))  # type: ignore[arg-type]

    async def Fence(self, request: Any, context: Any) -> Any:
        user = await self.caller(context)
        hop = await self._checked(context, request.context)
        return codec.promise_out(self._frame, await self._ask(user, Fence(hop.epoch)))  # type: ignore[arg-type]

    async def Publish(self, requests: AsyncIterator[Any], context: Any) -> Any:
        user = await self.caller(context)
        first: Any = await anext(requests, None)
        if first is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no result")
        hop = await self._checked(context, first.context)
        if first.size not in (0, self._token_bytes) or len(first.end) != codec.SECRET_BYTES:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a result of the wrong size")
        parts, missing = [first.token], first.size - len(first.token)
        if missing < 0:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a result of the wrong size")
        while missing > 0:
            more: Any = await anext(requests, None)
            if more is None or not more.token or len(more.token) > missing:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a result of the wrong size")
            parts.append(more.token)
            missing -= len(more.token)
        message = Publish(Result(hop.epoch, first.end, b"".join(parts)), first.final, first.everybody)
        return codec.published_out(self._frame, await self._ask(user, message))  # type: ignore[arg-type]

    async def Status(self, request: Any, context: Any) -> Any:
        await self.caller(context, own=True)
        phase, final = self._phase()
        return pb.StatusAnswer(
            context=self._frame.context(), phase=phase, final=final, wall_time_s=time.time(), version=self._version
        )


class HealthService(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """The standard health service: SERVING from the first moment on which peers may send."""

    def __init__(self, peers: PeerService) -> None:
        self._peers = peers
        self.serving = False

    async def Check(self, request: Any, context: Any) -> Any:
        await self._peers.caller(context, own=True)
        statuses = health_pb2.HealthCheckResponse
        return statuses(status=statuses.SERVING if self.serving else statuses.NOT_SERVING)


async def start_server(bundle: Bundle, service: PeerService, health: HealthService) -> grpc.aio.Server:
    """Listen on the bundle's bind address, or fail with a sentence that says why."""
    server = grpc.aio.server(options=SERVER_OPTIONS)
    peer_pb2_grpc.add_PeerServicer_to_server(service, server)
    _take_requests_as_bytes(service, server)
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    credentials = grpc.ssl_server_credentials(
        [(bundle.key_pem, bundle.certificate_pem)], root_certificates=bundle.ca_pem, require_client_auth=True
    )
    server.add_secure_port(bundle.bind, credentials)
    await server.start()
    return server


def _take_requests_as_bytes(service: PeerService, server: grpc.aio.Server) -> None:
    """Hop gets its requests as they came, because protobuf would copy a chunk twice. A registered handler takes
    precedence over a generic one, and a later one over an earlier."""
    hop: Any = grpc.stream_stream_rpc_method_handler(service.Hop, response_serializer=pb.HopAnswer.SerializeToString)
    server.add_registered_method_handlers(codec.SERVICE, {"Hop": hop})
