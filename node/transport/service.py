"""What any receiving side is: known callers, errors that tell nothing, readiness, and a server over mutual TLS.

Answers are typed messages; a gRPC status never means "refused". What a caller outside the plan gets is
PERMISSION_DENIED, and a log line without any payload.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2

from network_dp import __version__
from node.config import Bundle
from node.logs import described
from node.transport import codec
from node.transport.codec import Frame, WireError
from node.transport.identity import Directory, NotInPlanError, pem_of
from node.transport.interface import Inbound
from node.wire.v1 import peer_pb2 as pb

log = logging.getLogger("node.server")

SERVER_OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_concurrent_streams", 16),  # per connection; a user needs one for hops and a few for questions
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
]


class CallRefusedError(Exception):
    """A call that ends with this status and this fixed text."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        self.refusal = code, text


class Service(ABC):
    """Knows who calls, and says how this user stands."""

    message_bytes_max: int  # of one message from a peer

    def __init__(self, bundle: Bundle, frame: Frame, behind: Inbound) -> None:
        """``behind``: whoever answers."""
        self._directory = Directory(bundle.public)
        self._frame = frame
        self._me = bundle.me
        self._names = bundle.public.plan.names
        self._behind = behind
        self._ask = behind.ask

    @abstractmethod
    def handlers(self) -> Mapping[str, Mapping[str, Any]]:
        """gRPC's handlers, by service and method."""

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

    async def Status(self, data: bytes, context: Any) -> Any:
        self.caller(context, own=True)
        phase, final = self._behind.status
        return pb.StatusAnswer(
            context=self._frame.context(), phase=phase, final=final, wall_time_s=time.time(), version=__version__
        )


class HealthService:
    """The standard health service: SERVING from the first moment on which peers may send."""

    def __init__(self, peers: Service) -> None:
        self._peers = peers
        self.serving = False

    async def Check(self, data: bytes, context: Any) -> Any:
        self._peers.caller(context, own=True)
        statuses = health_pb2.HealthCheckResponse
        return statuses(status=statuses.SERVING if self.serving else statuses.NOT_SERVING)


def bounded(method: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
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
        except grpc.aio.BaseError as error:  # this server stops, or the caller is gone: it asks again, or need not
            log.info("a call from %s broke off: %s", context.peer(), described(error))
            refusal = grpc.StatusCode.INTERNAL, "the call failed"
        except Exception as error:
            log.error("a call from %s failed: %s", context.peer(), described(error))
            refusal = grpc.StatusCode.INTERNAL, "the call failed"
        # Out here: gRPC keeps the exception that this raises, and with it the frames of what was being handled.
        return await context.abort(*refusal)

    return call


async def start_server(bundle: Bundle, service: Service, health: HealthService) -> grpc.aio.Server:
    """Listen on the bundle's bind address, or fail with a sentence that says why."""
    most = ("grpc.max_receive_message_length", service.message_bytes_max)
    server = grpc.aio.server(options=[*SERVER_OPTIONS, most])
    check: Any = grpc.unary_unary_rpc_method_handler(
        bounded(health.Check), response_serializer=health_pb2.HealthCheckResponse.SerializeToString
    )
    for name, methods in service.handlers().items():
        server.add_registered_method_handlers(name, dict(methods))
    server.add_registered_method_handlers(codec.HEALTH, {"Check": check})
    credentials = grpc.ssl_server_credentials(
        [(bundle.key_pem, bundle.certificate_pem)], root_certificates=bundle.ca_pem, require_client_auth=True
    )
    server.add_secure_port(bundle.bind, credentials)
    await server.start()
    return server
