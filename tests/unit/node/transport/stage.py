"""Real servers and clients over loopback, with real certificates; only the protocol behind them is a recorder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from coordinator_free_launcher.identity.bundle import user_folder
from coordinator_free_launcher.identity.certificates import Authority, certificate_pem, new_key, user_dns
from coordinator_free_launcher.identity.provision import provision
from coordinator_free_launcher.local.ports import with_free_ports
from network_dp.plan_reader import from_dict
from node.app import moved
from node.config import Bundle, read_bundle
from node.protocols.walk.messages import Accepted, Answer, Granted, Handoff, Locate, Located, Offer, Published, Request
from node.protocols.walk.values import NO_EPOCH, NO_HOP
from node.transport.channels import channel_options
from node.transport.client import BESIDE_TOKEN_BYTES, Client
from node.transport.codec import Frame
from node.transport.server import PeerService
from node.transport.service import HealthService, start_server

TOKEN_BYTES = 60
ANSWER_S = 30.0


def provisioned(folder: Path, n: int) -> Path:
    """Bundles of n users on free ports, without data."""
    plan = from_dict(
        {
            "walk": {"topology": "complete", "steps": 10},
            "task": {"kind": "mean"},
            "noise": {"sigma": 1.0},
            "timing": {
                "preset": "lan",
                "offer_timeout_s": ANSWER_S,
                "handoff_timeout_s": ANSWER_S,
                "locate_timeout_s": 5,
            },
            "users": [{"name": f"user-{i}", "address": f"127.0.0.1:{20000 + i}"} for i in range(n)],
        }
    )
    return provision(with_free_ports(plan), folder / "run")


def bundle(run: Path, index: int) -> Bundle:
    return read_bundle(user_folder(run, f"user-{index}"))


def frame(run: Path) -> Frame:
    plan = bundle(run, 0).public.plan
    return Frame(plan.run_id, plan.hash)


@dataclass
class Recorder:
    """Stands where the protocol core stands: remembers who asked what, and says yes (to a token, ``verdict``)."""

    asked: list[tuple[int, Request]] = field(default_factory=list)
    verdict: Answer = field(default_factory=Accepted)
    grants: bool = True
    trouble: Exception | None = None

    status = ("IDLE", False)

    def admits(self, peer: int, begun: Handoff) -> bool:
        return self.grants

    async def ask(self, peer: int, request: Request) -> Answer:
        self.asked.append((peer, request))
        if self.trouble is not None:
            raise self.trouble
        match request:
            case Offer():
                return Granted(b"g" * 16)
            case Handoff():
                return self.verdict
            case Locate():
                return Located(NO_HOP, False, (0, 0), NO_HOP, NO_HOP, NO_EPOCH, None, False)
            case _:
                return Published(True, (0, 0))


@asynccontextmanager
async def serving(
    run: Path, index: int = 0, token_bytes: int = TOKEN_BYTES, token_timeout_s: float = ANSWER_S
) -> AsyncIterator[Recorder]:
    """User ``index`` serves on its own address."""
    own, recorder = bundle(run, index), Recorder()
    service = PeerService(own, frame(run), recorder, token_bytes, token_timeout_s)
    health = HealthService(service)
    health.serving = True
    server = await start_server(own, service, health)
    try:
        yield recorder
    finally:
        await server.stop(None)


@asynccontextmanager
async def sender(
    run: Path,
    index: int,
    *,
    at: Mapping[int, str] | None = None,
    token_bytes: int = TOKEN_BYTES,
    warm_channels: int = 4,
) -> AsyncIterator[Client]:
    """The sending side of user ``index``; ``at``: addresses other than the plan's."""
    own = bundle(run, index)
    client = Client(own, frame(run), at or moved(own), token_bytes, warm_channels)
    try:
        yield client
    finally:
        await client.close()


@dataclass(frozen=True)
class Papers:
    """What a caller shows: key, certificate, and whom it trusts."""

    key: bytes
    certificate: bytes


def papers_of(own: Bundle) -> Papers:
    return Papers(own.key_pem, own.certificate_pem)


def forged(authority: Authority, valid_days: float = 1.0, name: str = "user-1") -> Papers:
    """A key nobody pinned, with a certificate by ``authority`` for the name of a real user."""
    key = new_key()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Papers(pem, certificate_pem(authority.certify(name, "127.0.0.1", key.public_key(), valid_days)))


@asynccontextmanager
async def calling(run: Path, papers: Papers | None, index: int = 0) -> AsyncIterator[grpc.aio.Channel]:
    """A raw channel to user ``index``, showing these papers (None: plaintext)."""
    receiver = bundle(run, index)
    address = receiver.public.plan.users[index].address
    if papers is None:
        channel = grpc.aio.insecure_channel(address)
    else:
        credentials = grpc.ssl_channel_credentials(receiver.certificate_pem, papers.key, papers.certificate)
        name = receiver.public.plan.users[index].name
        most = TOKEN_BYTES + BESIDE_TOKEN_BYTES
        options = [*channel_options(name, most), ("grpc.ssl_target_name_override", user_dns(name))]
        channel = grpc.aio.secure_channel(address, credentials, options=options)
    try:
        yield channel
    finally:
        await channel.close()


async def code_of(call: Awaitable[Any]) -> grpc.StatusCode:
    """The status a call ends with."""
    try:
        async with asyncio.timeout(ANSWER_S):
            await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def run_async(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())
