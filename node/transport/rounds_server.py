"""The receiving side of anonymous rounds: one stream per user that has something to ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import grpc
import grpc.aio

from node.config import Bundle
from node.logs import described
from node.transport import codec
from node.transport.codec import Frame, WireError
from node.transport.identity import pem_of
from node.transport.interface import Inbound
from node.transport.rounds_codec import SERVICE, RoundsCodec
from node.transport.service import Service, bounded
from node.wire.v1 import peer_pb2 as pb

log = logging.getLogger("node.server")

OPEN_REQUESTS: Final = 32  # of one user: its block, and some labels


class RoundService(Service):
    """Turns messages of rounds into protocol events; answers leave when the protocol has them, in any order."""

    def __init__(
        self, bundle: Bundle, frame: Frame, behind: Inbound, rounds_codec: RoundsCodec, message_bytes_max: int
    ) -> None:
        super().__init__(bundle, frame, behind)
        self._codec = rounds_codec
        self.message_bytes_max = message_bytes_max

    def handlers(self) -> Mapping[str, Mapping[str, Any]]:
        status: Any = grpc.unary_unary_rpc_method_handler(
            bounded(self.Status), response_serializer=pb.StatusAnswer.SerializeToString
        )
        rounds: Any = grpc.stream_stream_rpc_method_handler(bounded(self.Round))
        return {codec.SERVICE: {"Status": status}, SERVICE: {"Round": rounds}}

    async def Round(self, _: object, context: Any) -> None:
        """Requests are answered side by side: a block waits for its round, labels do not."""
        user = self.caller(context)
        pem = pem_of(context.auth_context())  # a connection's for as long as it lives
        turn, answering = asyncio.Lock(), set[asyncio.Task[None]]()
        try:
            while (data := await context.read()) is not grpc.aio.EOF:
                if not self._directory.valid(pem):
                    self.caller(context)  # refuses: it expired while the stream was open
                if len(answering) >= OPEN_REQUESTS:
                    raise WireError("too many requests at once")
                serial, request = self._codec.request_in(data)
                task = asyncio.get_running_loop().create_task(self._answer(user, serial, request, context, turn))
                answering.add(task)
                task.add_done_callback(answering.discard)
        finally:
            for task in answering:
                task.cancel()

    async def _answer(self, user: int, serial: int, request: Any, context: Any, turn: asyncio.Lock) -> None:
        try:
            answer = await self._ask(user, request)
        except Exception as error:
            log.error("a call from %s failed: %s", self._names[user], described(error))  # who asks waits in vain
            return
        with suppress(grpc.aio.BaseError, asyncio.InvalidStateError):  # the caller is gone, and will ask again
            async with turn:
                await context.write(self._codec.answer_out(serial, answer))
