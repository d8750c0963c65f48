"""A peer that takes offers and then never says a word: its answer is awaited, its token given up only by a vote."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

from node.transport.codec import Frame
from node.wire.v1 import peer_pb2 as pb
from node.wire.v1 import peer_pb2_grpc
from tests.system.faults.conftest import MakeTown
from tests.system.faults.evidence import check
from tests.system.harness import Harness

pytestmark = pytest.mark.process


class MutePeer(peer_pb2_grpc.PeerServicer):  # type: ignore[misc]
    """Grants every offer, swallows every token, answers nothing else."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self.tokens: list[bytes] = []
        self.over = threading.Event()

    def Hop(self, requests: Any, context: Any) -> Iterator[Any]:
        for request in requests:
            if request.WhichOneof("body") == "handoff":
                self.tokens.append(request.handoff.token)
                self.over.wait()
                return
            answer = pb.HopAnswer(context=request.context, serial=request.serial)
            answer.granted.grant = secrets.token_bytes(16)
            yield answer

    def Locate(self, request: Any, context: Any) -> Any:
        self.over.wait()
        context.abort(grpc.StatusCode.UNAVAILABLE, "mute")

    Fence = Publish = Status = Locate


@pytest.fixture
def mute(make_town: MakeTown) -> Iterator[tuple[Harness, MutePeer]]:
    """A town whose user-2 is such a peer, with user-2's own key."""
    town = make_town(5, timing={"linger_s": 60.0, "start_timeout_s": 3.0}, topology="ring", rounds=2)
    folder = town.bundle("user-2")
    peer = MutePeer(Frame(town.plan.run_id, town.plan.hash))
    server = grpc.server(futures.ThreadPoolExecutor(64), options=[("grpc.so_reuseport", 0)])
    peer_pb2_grpc.add_PeerServicer_to_server(peer, server)
    credentials = grpc.ssl_server_credentials(
        [((folder / "key.pem").read_bytes(), (folder / "cert.pem").read_bytes())],
        root_certificates=(folder / "ca.pem").read_bytes(),
        require_client_auth=True,
    )
    server.add_secure_port(next(user.address for user in town.plan.users if user.name == "user-2"), credentials)
    server.start()
    yield town, peer
    peer.over.set()
    server.stop(None).wait(10.0)


def test_a_peer_that_accepts_and_never_answers_is_given_up_by_a_vote(mute: tuple[Harness, MutePeer]) -> None:
    town, peer = mute
    others = [name for name in town.names if name != "user-2"]
    town.start(*others)
    town.until("the others have a result", lambda: all((town.state(n) / "result.json").exists() for n in others))
    check(town, everybody=False)
    assert peer.tokens and town.reissues()
    # Each token it swallowed was seen (THEORY.md#one-token): it must not be fed one copy after the other.
    assert len(town.reissues()) <= (town.plan.walk.rounds or 0)
    by_bytes = len(set(peer.tokens))
    sent = [r for name in others for r in town.of_kind(name, "sent") if r.fields["to"] == "user-2"]
    assert by_bytes <= len({(tuple(r.epoch), r.step) for r in sent}), "one hop was sent with different bytes"
