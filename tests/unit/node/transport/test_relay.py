"""Users that are no peers speak by way of peers: who spoke is sure, and a relay can do no more than keep silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_free_launcher.identity.provision import provision
from coordinator_free_launcher.local.ports import with_free_ports
from network_dp.plan_reader import from_dict
from network_dp.topology import distances_from
from node.protocols.walk.messages import (
    Accepted,
    Fence,
    Granted,
    Handoff,
    Locate,
    Located,
    Offer,
    Promise,
    Publish,
    Published,
    Request,
    Result,
)
from node.protocols.walk.values import NO_HOP, Hop
from node.transport.codec import WireError
from node.transport.envelope import BODY_BYTES_MAX, MOST_REMEMBERED, Seen, check_path, way
from node.transport.relay import LONGEST_WAIT, MOST_PASSED_AT_ONCE, Relay
from node.transport.server import PeerService
from node.transport.service import HealthService, start_server
from node.wire.v1 import relay_pb2 as pb
from tests.unit.node.transport.stage import TOKEN_BYTES, Recorder, bundle, frame, sender

CYCLE = ((1, 4), (0, 2), (1, 3), (2, 4), (0, 3))
HOP = Hop((0, 0), 1)
Tamper = Callable[[int, int, bytes], bytes]  # who hands an envelope to whom


@dataclass
class Town:
    """Five users on a cycle, each with its real keys; envelopes pass from one to the next in memory."""

    run: Path
    relays: list[Relay] = field(default_factory=list)
    minds: list[Recorder] = field(default_factory=list)
    passed: list[tuple[int, int, bytes]] = field(default_factory=list)
    down: set[int] = field(default_factory=set)
    silent: asyncio.Event | None = None  # while it is not set, nobody that is asked says anything
    waits: list[float] = field(default_factory=list)  # for how long answers are waited for
    tamper: Tamper = lambda sender, receiver, data: data
    forge: Tamper = lambda sender, receiver, data: data  # of what is answered

    def __post_init__(self) -> None:
        for user in range(5):
            relay = Relay(bundle(self.run, user), frame(self.run), Wire(self, user), TOKEN_BYTES)  # type: ignore[arg-type]
            relay.behind = Recorder()
            self.relays.append(relay)
            self.minds.append(relay.behind)

    def ask(self, sender: int, receiver: int, request: Request) -> Any:
        return asyncio.run(self.relays[sender].send(receiver, request))


@dataclass
class Wire:
    """Stands where a client stands: calls to peers end at their relays."""

    town: Town
    me: int
    on_cold: Any = None

    async def pass_on(self, peer: int, method: str, message: bytes, timeout_s: float) -> bytes | None:
        town = self.town
        assert peer in CYCLE[self.me], "a connection that is not in the graph"
        town.passed.append((self.me, peer, message))
        town.waits.append(timeout_s)
        if town.silent is not None:
            await town.silent.wait()
        if peer in town.down:
            return None
        try:
            reply = await town.relays[peer].passed(self.me, town.tamper(self.me, peer, message), timeout_s)
        except WireError:
            return None
        return town.forge(peer, self.me, reply.SerializeToString())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    users = [
        {"name": f"user-{i}", "address": f"127.0.0.1:{20000 + i}", "peers": [f"user-{j}" for j in peers]}
        for i, peers in enumerate(CYCLE)
    ]
    walk = {"topology": "graph", "steps": 10, "control": "relay"}
    plan = from_dict({"walk": walk, "task": {"kind": "mean"}, "noise": {"sigma": 1.0}, "users": users})
    return provision(with_free_ports(plan), tmp_path_factory.mktemp("relay") / "run")


REQUESTS = [
    Offer(HOP),
    Handoff(HOP, b"g" * 16, b"k" * 32, b"t" * TOKEN_BYTES),
    Locate(),
    Publish(Result((1, 2), b"e" * 16, b"t" * TOKEN_BYTES), final=True, everybody=False),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_far_user_is_asked_and_answers_and_knows_who_asks(run: Path, request_: Request) -> None:
    town = Town(run)
    answer = town.ask(0, 2, request_)
    assert type(answer) in (Granted, Accepted, Located, Published)
    assert town.minds[2].asked == [(0, request_)]  # 0 asks, although 1 brought it
    assert [(a, b) for a, b, _ in town.passed] == [(0, 1), (1, 2)]


def test_a_vote_travels_with_its_epoch(run: Path) -> None:
    town, said = Town(run), Promise(True, None, (4, 0), NO_HOP, None, False)

    async def ask(peer: int, request: Request) -> Promise:
        assert (peer, request) == (0, Fence((4, 0)))
        return said

    town.minds[3].ask = ask  # type: ignore[method-assign,assignment]
    assert town.ask(0, 3, Fence((4, 0))) == said


def test_a_way_leads_around_a_relay_that_is_down(run: Path) -> None:
    town = Town(run, down={1})
    assert isinstance(town.ask(0, 2, Locate()), Located)
    assert [(a, b) for a, b, _ in town.passed] == [(0, 1), (0, 4), (4, 3), (3, 2)]
    town.ask(0, 2, Locate())
    assert (0, 1) not in [(a, b) for a, b, _ in town.passed[4:]]  # remembered for a while


def test_nobody_answers_for_a_user_that_is_down(run: Path) -> None:
    town = Town(run, down={2})
    assert town.ask(0, 2, Locate()) is None
    assert len(town.passed) == 2  # the way was whole: no other is tried


def _changed(**fields: Any) -> Tamper:
    def tamper(sender: int, receiver: int, data: bytes) -> bytes:
        if sender == 0:
            return data
        envelope = pb.Envelope.FromString(data)
        for name, value in fields.items():
            setattr(envelope, name, value)
        return envelope.SerializeToString()

    return tamper


@pytest.mark.parametrize("fields", [{"body": b"\x12\x00"}, {"nonce": b"n" * 16}, {"signature": b"s" * 70}], ids=str)
def test_what_a_relay_changes_is_refused(run: Path, fields: dict[str, Any]) -> None:
    town = Town(run, tamper=_changed(**fields))
    assert town.ask(0, 2, Locate()) is None and town.minds[2].asked == []


def test_a_relay_cannot_speak_for_its_other_peer(run: Path) -> None:
    """User 1 signs as itself and says that user 0 asked."""
    town = Town(run)
    town.ask(1, 3, Locate())
    envelope = pb.Envelope.FromString(town.passed[0][2])
    del envelope.path[:]
    envelope.path.extend([0, 1, 2, 3])
    envelope.at = 3
    with pytest.raises(WireError, match="signature is not its speaker's"):
        asyncio.run(town.relays[3].passed(2, envelope.SerializeToString(), 1.0))
    assert town.minds[3].asked == [(1, Locate())]


def test_a_message_is_answered_once(run: Path) -> None:
    town = Town(run)
    town.ask(0, 2, Offer(HOP))
    with pytest.raises(WireError, match="came before"):
        asyncio.run(town.relays[2].passed(1, town.passed[1][2], 1.0))
    assert len(town.minds[2].asked) == 1


def test_a_forged_answer_is_none(run: Path) -> None:
    def forge(sender: int, receiver: int, data: bytes) -> bytes:
        reply = pb.Reply.FromString(data)
        answer = pb.RelayedAnswer.FromString(reply.body)
        answer.locate.final = True
        return pb.Reply(body=answer.SerializeToString(), signature=reply.signature).SerializeToString()

    assert Town(run, forge=forge).ask(0, 2, Locate()) is None


def test_a_question_turned_back_is_no_answer(run: Path) -> None:
    """The destination's own question to this user, as if it were its answer."""
    town = Town(run)
    town.ask(2, 0, Locate())
    theirs = pb.Envelope.FromString(town.passed[0][2])
    town.forge = lambda *_: pb.Reply(body=theirs.body, signature=theirs.signature).SerializeToString()
    assert town.ask(0, 2, Locate()) is None


@pytest.mark.parametrize(
    "fields",
    [{"body": b"b" * (BODY_BYTES_MAX + 1)}, {"signature": b"s" * 73}, {"nonce": b"n" * 15}, {"at": 0}, {"at": 9}],
    ids=lambda fields: next(iter(fields)),
)
def test_envelopes_outside_the_contract_are_refused_before_anything_is_done(run: Path, fields: dict[str, Any]) -> None:
    town = Town(run)
    envelope = pb.Envelope(path=[0, 1, 2], at=1, nonce=b"n" * 16, body=b"", signature=b"")
    for name, value in fields.items():
        setattr(envelope, name, value)
    with pytest.raises(WireError):
        asyncio.run(town.relays[1].passed(0, envelope.SerializeToString(), 1.0))
    with pytest.raises(WireError):
        asyncio.run(town.relays[1].passed(0, b"\xff", 1.0))
    assert town.passed == []


def test_a_relay_waits_for_a_bounded_time_whatever_the_sender_asks_for(run: Path) -> None:
    town = Town(run)
    envelope = pb.Envelope(path=[0, 1, 2], at=1, nonce=b"n" * 16, body=b"", signature=b"").SerializeToString()
    asyncio.run(town.relays[1].passed(0, envelope, 1e9))
    timing = bundle(run, 1).public.plan.timing
    assert town.waits[0] <= LONGEST_WAIT * (timing.handoff_timeout_s + 1.0)


def test_a_relay_keeps_a_bounded_number_of_messages_that_wait(run: Path) -> None:
    """One more is told at once that the way is broken here; when the others are answered there is room again."""
    town = Town(run)
    envelope = pb.Envelope(path=[0, 1, 2], at=1, nonce=b"n" * 16, body=b"", signature=b"").SerializeToString()

    async def work() -> None:
        town.silent, relay = asyncio.Event(), town.relays[1]
        waiting = [asyncio.ensure_future(relay.passed(0, envelope, 1.0)) for _ in range(MOST_PASSED_AT_ONCE)]
        await asyncio.sleep(0)
        assert (await relay.passed(0, envelope, 1.0)).broken == 1 and len(town.passed) == MOST_PASSED_AT_ONCE
        town.silent.set()
        await asyncio.gather(*waiting)
        assert (await relay.passed(0, envelope, 1.0)).broken == 2

    asyncio.run(work())


@pytest.mark.parametrize(
    "caller,path,at",
    [
        (2, [0, 1, 2], 1),  # brought by somebody else than it says
        (0, [0, 1, 3], 1),  # 1 and 3 are no peers
        (0, [0, 1, 2, 3, 4, 0], 1),  # in a circle
        (0, [0, 1], 1),  # peers speak for themselves
        (0, [0, 1, 7], 1),
        (0, [0, 2, 3], 1),  # not this user's
    ],
)
def test_a_path_is_one_of_the_graph_and_has_come_this_far(caller: int, path: list[int], at: int) -> None:
    with pytest.raises(WireError):
        check_path(CYCLE, 1, caller, path, at)


@given(st.sets(st.integers(0, 4)), st.integers(0, 4), st.integers(0, 4))
def test_a_way_is_a_shortest_path_around_whom_it_avoids(avoid: set[int], start: int, end: int) -> None:
    path = way(CYCLE, start, end, avoid)
    left = tuple(tuple(o for o in peers if o not in avoid or o == end) for peers in CYCLE)
    distance = distances_from(left, start)[end]
    assert (path is None) == (distance < 0)
    if path is not None:
        assert len(path) == distance + 1 and not avoid & set(path[1:-1])


def test_a_user_takes_no_call_of_one_that_is_not_its_peer(run: Path) -> None:
    """Over real connections: user 0 is a peer of 1 and 4, and not of 2."""

    async def work() -> None:
        own = bundle(run, 0)
        service = PeerService(own, frame(run), Recorder(), TOKEN_BYTES, 1.0)
        service.relay = Town(run).relays[0]
        server = await start_server(own, service, HealthService(service))
        try:
            async with sender(run, 1) as near, sender(run, 2) as far:
                assert isinstance(await near.send(0, Locate()), Located)
                assert await far.send(0, Locate()) is None
                assert await far.send(0, Offer(HOP)) is None
        finally:
            await server.stop(None)

    asyncio.run(work())


def test_what_came_lately_is_remembered_within_bounds() -> None:
    seen = Seen()
    for number in range(MOST_REMEMBERED + 5):
        seen.check(0, number.to_bytes(16))
    with pytest.raises(WireError):
        seen.check(0, (MOST_REMEMBERED).to_bytes(16))
    assert len(seen._known) == MOST_REMEMBERED
