"""Who may call, and whom a sender trusts: decided by certificates and pinned keys alone."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from coordinator_free_launcher.identity.certificates import Authority
from node.protocols.walk.messages import Accepted, Granted, Handoff, Locate, Offer
from node.protocols.walk.values import Hop
from node.transport.identity import Directory, NotInPlanError
from node.wire.v1 import peer_pb2 as pb
from node.wire.v1 import peer_pb2_grpc
from tests.unit.node.transport.stage import (
    TOKEN_BYTES,
    Papers,
    bundle,
    calling,
    code_of,
    forged,
    frame,
    papers_of,
    run_async,
    sender,
    serving,
)

HOP = Hop((0, 0), 1)
CANARY = b"payload-canary-payload-canary"


async def _still_serves(run: Path) -> bool:
    async with sender(run, 2) as friend:
        return isinstance(await friend.send(0, Offer(HOP)), Granted)


def _own_authority(run: Path) -> Authority:
    return Authority.load(run / "ca")


@pytest.mark.parametrize("case", ["wrong CA", "expired", "plaintext"])
def test_a_caller_without_valid_papers_sees_unavailable_and_the_server_goes_on(case: str, run: Path) -> None:
    papers: dict[str, Papers | None] = {
        "wrong CA": forged(Authority.new("elsewhere")),
        "expired": forged(_own_authority(run), valid_days=-0.5),
        "plaintext": None,
    }

    async def work() -> None:
        async with serving(run) as recorder, calling(run, papers[case]) as channel:
            locate = peer_pb2_grpc.PeerStub(channel).Locate(pb.LocateRequest(context=frame(run).context()))
            assert await code_of(locate) is grpc.StatusCode.UNAVAILABLE
            assert recorder.asked == []
            assert await _still_serves(run)

    run_async(work)


def test_garbage_on_the_port_is_survived(run: Path) -> None:
    host, port = bundle(run, 0).bind.rsplit(":", 1)

    async def work() -> None:
        async with serving(run) as recorder:
            for junk in (b"", b"\0" * 1000, b"GET / HTTP/1.1\r\n\r\n", os.urandom(1 << 16), b"\x16\x03\x01\xff\xff"):
                with socket.create_connection((host, int(port))) as intruder:
                    intruder.sendall(junk)
            assert recorder.asked == []
            assert await _still_serves(run)

    run_async(work)


def test_a_key_nobody_pinned_is_denied_and_logged_without_payload(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Right authority, right name, wrong key: the certificate alone makes nobody a user of the plan."""

    async def work() -> None:
        async with serving(run) as recorder, calling(run, forged(_own_authority(run))) as channel:
            stub = peer_pb2_grpc.PeerStub(channel)
            context = frame(run).context(HOP)
            handoff = pb.Handoff(grant=CANARY[:16], key=bytes(32), size=TOKEN_BYTES, token=CANARY * 2)
            stream = stub.Hop(iter([pb.HopRequest(context=context, handoff=handoff)]))
            assert await code_of(stream.read()) is grpc.StatusCode.PERMISSION_DENIED
            publish = stub.Publish(iter([pb.PublishRequest(context=context, end=CANARY[:16], token=CANARY)]))
            for call in (
                stub.Locate(pb.LocateRequest(context=context)),
                stub.Fence(pb.FenceRequest(context=context)),
                publish,
                stub.Status(pb.StatusRequest()),
                health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest()),
            ):
                assert await code_of(call) is grpc.StatusCode.PERMISSION_DENIED
            assert recorder.asked == []
            assert await _still_serves(run)

    with caplog.at_level(logging.INFO):
        run_async(work)
    assert caplog.text.count("the key is not in the plan") == 6
    assert "canary" not in caplog.text and CANARY.hex() not in caplog.text


def test_a_sender_sends_nothing_to_a_receiver_that_is_not_who_the_plan_says(run: Path) -> None:
    """User 0 serves at the address where user 1 is looked for: same authority, but not user 1's certificate."""
    plan = bundle(run, 3).public.plan
    mixed_up = dict.fromkeys(range(plan.n), plan.users[0].address)

    async def work() -> None:
        async with serving(run) as recorder, sender(run, 3, at=mixed_up) as client:
            assert await client.send(1, Locate()) is None
            assert recorder.asked == []
            assert await client.send(0, Offer(HOP)) == Granted(b"g" * 16)

    run_async(work)


def test_ones_own_identity_may_call_health_and_status_only(run: Path) -> None:
    async def work() -> None:
        async with serving(run) as recorder, calling(run, papers_of(bundle(run, 0))) as channel:
            stub, context = peer_pb2_grpc.PeerStub(channel), frame(run).context(HOP)
            health = health_pb2_grpc.HealthStub(channel)
            answer = await health.Check(health_pb2.HealthCheckRequest())
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
            assert (await stub.Status(pb.StatusRequest())).phase == "IDLE"
            stream = stub.Hop(iter([pb.HopRequest(context=context, offer=pb.Offer())]))
            for call in (
                stream.read(),
                stub.Locate(pb.LocateRequest(context=context)),
                stub.Fence(pb.FenceRequest(context=context)),
                stub.Publish(iter([pb.PublishRequest(context=context)])),
            ):
                assert await code_of(call) is grpc.StatusCode.PERMISSION_DENIED
            assert recorder.asked == []

    run_async(work)


def test_the_sender_is_who_the_certificate_says(run: Path) -> None:
    async def work() -> None:
        async with serving(run) as recorder:
            for index in (1, 2, 3):
                async with sender(run, index) as client:
                    await client.send(0, Offer(HOP))
                    handoff = Handoff(HOP, b"g" * 16, bytes(32), bytes(TOKEN_BYTES))
                    assert await client.send(0, handoff) == Accepted()
            assert [peer for peer, _ in recorder.asked] == [1, 1, 2, 2, 3, 3]

    run_async(work)


def test_an_open_connection_ends_with_its_certificate(run: Path) -> None:
    now = [0.0]
    own = bundle(run, 1)
    directory = Directory(own.public, wall_time=lambda: now[0])
    assert directory.user(own.certificate_pem) == 1
    now[0] = 4e12
    with pytest.raises(NotInPlanError, match="user-1 has expired"):
        directory.user(own.certificate_pem)
