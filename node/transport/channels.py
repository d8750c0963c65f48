"""Channels to peers: a sender trusts one certificate per peer, the peer's own, under the peer's own DNS name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import grpc
import grpc.aio
from cryptography import x509

from node.config import Bundle
from node.pins import DNS_SUFFIX, pin_of
from node.transport.codec import WireError


class ExpiredError(WireError):
    """A certificate has run out; no amount of trying again helps."""


def channel_options(name: str, message_bytes_max: int) -> list[tuple[str, Any]]:
    return [
        ("grpc.ssl_target_name_override", name + DNS_SUFFIX),
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_reconnect_backoff_ms", 1_000),
        ("grpc.dns_min_time_between_resolutions_ms", 500),
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.http2.ping_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.max_receive_message_length", message_bytes_max),
        ("grpc.max_send_message_length", -1),
    ]


class Channels:
    """Makes them, and knows when both ends' certificates run out."""

    def __init__(self, bundle: Bundle, moved: Mapping[int, str], message_bytes_max: int) -> None:
        self._bundle = bundle
        self._moved = moved
        self._message_bytes_max = message_bytes_max
        self._expiry: dict[int, float] = {}

    def check_expiry(self, peer: int) -> None:
        """gRPC keeps old connections alive past their certificates: look at both ends' before every message."""
        now, me, known = time.time(), self._bundle.me, self._expiry
        for user in (me, peer):
            if now >= (known[user] if user in known else self._expires_at(user)):
                whose = "this user's own" if user == me else "its"
                raise ExpiredError(f"{whose} certificate has expired: renew it for the same key, then start again")

    def _expires_at(self, user: int) -> float:
        own = user == self._bundle.me
        pem = self._bundle.certificate_pem if own else self._bundle.public.certificates[user]
        certificate = x509.load_pem_x509_certificate(pem)
        if pin_of(certificate) != self._bundle.public.plan.users[user].key:
            raise WireError("the certificate at hand is not the key the plan pins")
        self._expiry[user] = certificate.not_valid_after_utc.timestamp()
        return self._expiry[user]

    def channel(self, peer: int) -> grpc.aio.Channel:
        bundle = self._bundle
        credentials = grpc.ssl_channel_credentials(
            root_certificates=bundle.public.certificates[peer],
            private_key=bundle.key_pem,
            certificate_chain=bundle.certificate_pem,
        )
        user = bundle.public.plan.users[peer]
        target = _target(self._moved.get(peer, user.address))
        return grpc.aio.secure_channel(target, credentials, options=channel_options(user.name, self._message_bytes_max))


def _target(address: str) -> str:
    """An ``ipv4:`` target skips name resolution (up to 1 ms a hop)."""
    host = address.rsplit(":", 1)[0]
    return f"ipv4:{address}" if host.replace(".", "").isdigit() else address


def reason(error: BaseException) -> str:
    """Why no answer came, without a word of the peer's."""
    if isinstance(error, TimeoutError):
        return "too late"
    if isinstance(error, grpc.aio.AioRpcError):
        return error.code().name  # its text is the peer's
    return str(error) if isinstance(error, WireError) else type(error).__name__
