"""Speaking with users that are no peers, by way of peers: nobody opens a connection that is not in the graph.

The sender chooses the path, the plan's graph being public, and signs; every relay looks only whether the path is one
and passes on to the next. Where a relay does not answer the sender tries a way around it, in bounded time.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any, Final

import grpc

from network_dp.topology import Graph
from node.config import Bundle
from node.protocols.walk.messages import Answer, Handoff, Offer, Publish, Request
from node.transport import codec, relay_codec
from node.transport.client import BYTES_PER_SECOND_FLOOR, Client
from node.transport.codec import Frame, WireError
from node.transport.envelope import (
    BODY_BYTES_MAX,
    NONCE_BYTES,
    SIGNATURE_BYTES_MAX,
    Seen,
    Signer,
    check_path,
    statement,
    way,
)
from node.transport.interface import Inbound
from node.wire.v1 import relay_pb2 as pb

log = logging.getLogger("node.relay")

SERVICE: Final[str] = pb.DESCRIPTOR.services_by_name["Relay"].full_name
MOST_PASSED_AT_ONCE: Final = 32
LONGEST_WAIT: Final = 8  # a far user is waited for as long as a peer, times the hops to it, up to so many
LEAST_TRY_S: Final = 0.05
KEPT_BACK: Final = 0.9  # of the time left: so that who waits hears of a broken way before it gives up


class Relay:
    """``Outbound`` in which only peers are called directly, and both ends of what peers pass on."""

    def __init__(self, bundle: Bundle, frame: Frame, client: Client, token_bytes: int) -> None:
        graph = bundle.public.plan.topology
        assert isinstance(graph, Graph)
        self._me, self._names, self._timing = bundle.me, bundle.public.plan.names, bundle.public.plan.timing
        self._peers = graph.peers
        self.near = frozenset(graph.peers[bundle.me])
        self._frame, self._client, self._token_bytes = frame, client, token_bytes
        self._signer, self._seen = Signer(bundle), Seen()
        self._avoided: dict[int, float] = {}  # who did not pass something on -> until when others are tried first
        self._passing = 0
        self.behind: Inbound | None = None

    @property
    def on_cold(self) -> Callable[[int], None]:
        return self._client.on_cold

    @on_cold.setter
    def on_cold(self, call: Callable[[int], None]) -> None:
        self._client.on_cold = call

    async def close(self) -> None:
        await self._client.close()

    async def send(self, peer: int, request: Request) -> Answer | None:
        """To a peer directly, to anybody else along a path of peers."""
        if peer in self.near:
            return await self._client.send(peer, request)
        try:
            return await self._far(peer, request)
        except WireError as error:
            log.info("no answer from %s: %s", self._names[peer], error)
            return None

    async def _far(self, destination: int, request: Request) -> Answer | None:
        """One way after the other until one answers; the last word is the destination's own, by its signature."""
        body, loop = relay_codec.request_out(self._frame, request), asyncio.get_running_loop()
        give_up_at = loop.time() + self._patience_s(destination, request)
        while (left_s := give_up_at - loop.time()) > LEAST_TRY_S:
            avoid = {user for user, until in self._avoided.items() if until > loop.time()}
            path = way(self._peers, self._me, destination, avoid)
            if path is None:
                return None
            nonce = os.urandom(NONCE_BYTES)
            text = statement(self._frame, self._me, destination, nonce, body, answer=False)
            envelope = pb.Envelope(path=path, at=1, nonce=nonce, body=body, signature=self._signer.sign(text))
            reply = await self._next(envelope, left_s / 2)
            if reply.body:
                text = statement(self._frame, self._me, destination, nonce, reply.body, answer=True)
                self._signer.check(destination, text, reply.signature)
                return relay_codec.answer_in(self._frame, request, reply.body)
            if reply.broken not in path[1:-1]:  # the destination itself, or nonsense
                return None
            self._avoided[reply.broken] = loop.time() + self._timing.down_ttl_s
        return None

    def _patience_s(self, destination: int, request: Request) -> float:
        path = way(self._peers, self._me, destination, ())
        hops = min(LONGEST_WAIT, len(path or ()) - 1)
        match request:
            case Offer():
                return hops * self._timing.offer_timeout_s
            case Handoff(token=token):
                return hops * (self._timing.handoff_timeout_s + len(token) / BYTES_PER_SECOND_FLOOR)
            case Publish(result):
                return hops * (self._timing.locate_timeout_s + len(result.token) / BYTES_PER_SECOND_FLOOR)
            case _:
                return hops * self._timing.locate_timeout_s

    async def _next(self, envelope: Any, timeout_s: float) -> Any:
        """Hand an envelope to the user it is for; no answer: that one is where the way broke."""
        following = envelope.path[envelope.at]
        data = await self._client.pass_on(following, f"/{SERVICE}/Pass", envelope.SerializeToString(), timeout_s)
        if data is None:
            return pb.Reply(broken=following)
        reply = codec.message_in(pb.Reply, data)
        if len(reply.body) > BODY_BYTES_MAX or len(reply.signature) > SIGNATURE_BYTES_MAX:
            raise WireError("an answer that is too long")
        return reply

    async def passed(self, caller: int, data: bytes, timeout_s: float | None) -> Any:
        """A peer hands over an envelope: answer it here, or pass it on."""
        envelope = codec.message_in(pb.Envelope, data)
        path, at = list(envelope.path), envelope.at
        if len(envelope.body) > BODY_BYTES_MAX or len(envelope.signature) > SIGNATURE_BYTES_MAX:
            raise WireError("a message that is too long")
        if len(envelope.nonce) != NONCE_BYTES:
            raise WireError("a nonce of the wrong size")
        check_path(self._peers, self._me, caller, path, at)
        if at == len(path) - 1:
            return await self._answered(path[0], envelope.nonce, envelope.body, envelope.signature)
        if self._passing >= MOST_PASSED_AT_ONCE:
            return pb.Reply(broken=self._me)
        self._passing += 1
        try:
            envelope.at = at + 1
            timing = self._timing
            longest_s = max(timing.offer_timeout_s, timing.locate_timeout_s, timing.handoff_timeout_s)
            longest_s = LONGEST_WAIT * (longest_s + self._token_bytes / BYTES_PER_SECOND_FLOOR)
            left_s = timing.locate_timeout_s if timeout_s is None else min(timeout_s, longest_s)
            return await self._next(envelope, max(LEAST_TRY_S, KEPT_BACK * left_s))
        finally:
            self._passing -= 1

    async def _answered(self, origin: int, nonce: bytes, body: bytes, signature: bytes) -> Any:
        """The end of the way: who speaks is whose signature this is, never who brought it."""
        frame, me = self._frame, self._me
        self._signer.check(origin, statement(frame, origin, me, nonce, body, answer=False), signature)
        self._seen.check(origin, nonce)
        request, hop = relay_codec.request_in(frame, body, self._token_bytes)
        assert self.behind is not None
        answer = relay_codec.answer_out(frame, request, hop, await self.behind.ask(origin, request))
        text = statement(frame, origin, me, nonce, answer, answer=True)
        return pb.Reply(body=answer, signature=self._signer.sign(text))

    def handlers(self, caller: Callable[[Any], int], bounded: Callable[[Any], Any]) -> dict[str, Any]:
        """For the server: ``caller`` knows who calls, ``bounded`` guards every call."""

        async def passed(data: bytes, context: Any) -> Any:
            return await self.passed(caller(context), data, context.time_remaining())

        unary: Any = grpc.unary_unary_rpc_method_handler
        return {"Pass": unary(bounded(passed), response_serializer=pb.Reply.SerializeToString)}
