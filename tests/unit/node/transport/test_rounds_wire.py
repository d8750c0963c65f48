"""Messages of anonymous rounds on the wire: one size for all, nothing that is not the plan's, real streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_free_launcher.identity.bundle import user_folder
from coordinator_free_launcher.identity.provision import provision
from coordinator_free_launcher.local.ports import with_free_ports
from network_dp.plan_reader import from_dict
from node.config import Bundle, read_bundle
from node.errors import BundleError
from node.protocols.rounds.messages import Answer, Batch, Block, Call, Outcome, Request, Shuffle, Taken, Want
from node.transport.codec import Frame, WireError
from node.transport.rounds_client import RoundsClient
from node.transport.rounds_codec import RoundsCodec, Sizes
from node.transport.rounds_server import RoundService
from node.transport.service import HealthService, start_server
from node.wire.v1 import rounds_pb2 as pb

USERS, BLOCK = 4, 88
FRAME = Frame("ab" * 32, "cd" * 32)
WHOLE = st.integers(0, 2**63 - 1)


def codec(frame: Frame = FRAME) -> RoundsCodec:
    return RoundsCodec(frame, Sizes(USERS, BLOCK))


lives = st.binary(min_size=16, max_size=16)
data = st.binary(min_size=BLOCK, max_size=BLOCK)
own = st.lists(lives, max_size=64).map(b"".join)
tables = st.one_of(st.just(b""), st.binary(min_size=16 * USERS, max_size=16 * USERS))
users = st.integers(0, USERS - 1)
rolls = st.dictionaries(users, lives).map(lambda roll: dict(sorted(roll.items())))
calls = st.builds(Call, users, WHOLE, rolls)
blocks = st.builds(
    Block, lives, st.integers(1, 2**63 - 1), WHOLE, WHOLE, data, st.just(b""), st.just(b""), st.just(b"")
)
wishes = st.builds(Block, lives, st.just(0), WHOLE, WHOLE, st.just(b""), st.one_of(st.just(b""), data), tables, own)
maybe_data = st.one_of(st.just(b""), data)
counts = st.tuples(WHOLE, WHOLE, WHOLE, WHOLE)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    crowd = tuple(sorted(draw(st.sets(users, min_size=1))))
    one = st.binary(min_size=32 * (len(crowd) + 1), max_size=32 * (len(crowd) + 1))
    return Batch(draw(WHOLE), draw(WHOLE), crowd, draw(WHOLE), draw(WHOLE), tuple(draw(st.lists(one, max_size=8))))


outcomes = st.builds(
    lambda total, call, adder, news, numbers, final, old, batch: Outcome(
        total, call, adder, news, *numbers, final, old, batch
    ),
    maybe_data,
    st.none() | calls,
    users,
    maybe_data,
    counts,
    st.booleans(),
    st.booleans(),
    st.none() | batches(),
)


@given(WHOLE, st.one_of(blocks, wishes, batches().map(Shuffle), st.builds(Want, WHOLE, WHOLE)))
def test_requests_come_back_as_they_were(serial: int, request: Request) -> None:
    assert codec().request_in(codec().request_out(serial, request)) == (serial, request)


@given(st.lists(st.tuples(WHOLE, st.one_of(outcomes, batches().map(Shuffle), st.just(Taken()))), max_size=4))
def test_answers_come_back_as_they_were(said: list[tuple[int, Answer]]) -> None:
    """Also the second time, when what is the same for all is not made again."""
    out, into = codec(), codec()
    for serial, answer in [*said, *said]:
        assert into.answer_in(out.answer_out(serial, answer)) == (serial, answer)


@given(st.lists(blocks, min_size=2, max_size=5), st.lists(WHOLE, min_size=5, max_size=5))
def test_all_blocks_have_one_size(said: list[Block], serials: list[int]) -> None:
    """Whatever is in them, zeros too."""
    said.append(said[0]._replace(promised=0, accepted=0, data=bytes(BLOCK)))
    serials = [0, *serials]
    assert len({len(codec().request_out(serial, block)) for serial, block in zip(serials, said, strict=False)}) == 1


@given(st.binary(max_size=200))
def test_no_bytes_of_a_peer_raise_anything_else(garbage: bytes) -> None:
    for read in (codec().request_in, codec().answer_in):
        with pytest.raises(WireError):
            read(garbage)


_LIFE, _DATA = b"l" * 16, b"d" * BLOCK


@pytest.mark.parametrize(
    "body",
    [
        {"block": pb.Block(life=b"short", counter=1, promised=1, accepted=0, data=_DATA)},
        {"block": pb.Block(life=_LIFE, counter=1, data=_DATA + b"!")},
        {"block": pb.Block(life=_LIFE, counter=1)},
        {"block": pb.Block(life=_LIFE, counter=0, data=_DATA)},
        {"block": pb.Block(life=_LIFE, counter=1, data=_DATA, news=_DATA)},
        {"block": pb.Block(life=_LIFE, counter=1, data=_DATA, met=_LIFE * USERS)},
        {"block": pb.Block(life=_LIFE, counter=0, met=_LIFE)},
        {"block": pb.Block(life=_LIFE, counter=0, own=_LIFE[1:])},
        {"block": pb.Block(life=_LIFE, counter=0, own=_LIFE * 65)},
        {"block": pb.Block(life=_LIFE, counter=1, data=_DATA, own=_LIFE)},
        {"block": pb.Block(life=_LIFE, counter=2**63, data=_DATA)},
        {"batch": pb.Batch(crowd=b"\0\0\0\0\x04\0\0\0", lists=[bytes(96)])},
        {"batch": pb.Batch(crowd=b"\0\0\0\0", lists=[bytes(65)])},
        {"batch": pb.Batch(crowd=b"\0\0\0\0", lists=[bytes(64)] * 9)},
        {"batch": pb.Batch(crowd=b"\0\0\0")},
    ],
)
def test_what_is_not_the_plans_is_refused(body: dict[str, object]) -> None:
    message = pb.RoundRequest(context=FRAME.context(), serial=1, **body)
    with pytest.raises(WireError):
        codec().request_in(message.SerializeToString())


@pytest.mark.parametrize("roll", [b"\x04\0\0\0" + _LIFE, (b"\0\0\0\0" + _LIFE) * 2, b"\0\0\0\0", bytes(20 * 5)])
def test_a_roll_of_others_is_refused(roll: bytes) -> None:
    outcome = pb.Outcome(call=pb.Call(adder=0, counter=1, roll=roll), adder=0)
    message = pb.RoundAnswer(context=FRAME.context(), serial=1, outcome=outcome)
    with pytest.raises(WireError):
        codec().answer_in(message.SerializeToString())


def test_a_message_of_another_run_is_refused() -> None:
    with pytest.raises(WireError, match="another run"):
        codec().request_in(codec(Frame("00" * 32, "cd" * 32)).request_out(1, Want(1, 1)))


# ---- real streams ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = from_dict(
        {
            "walk": {"topology": "complete", "steps": 10, "path": "hidden"},
            "task": {"kind": "mean"},
            "noise": {"sigma": 1.0},
            "users": [{"name": f"user-{i}", "address": f"127.0.0.1:{20000 + i}"} for i in range(USERS)],
        }
    )
    return provision(with_free_ports(plan), tmp_path_factory.mktemp("rounds") / "run")


def bundle(run: Path, user: int) -> Bundle:
    return read_bundle(user_folder(run, f"user-{user}"))


@dataclass
class Recorder:
    """Stands where the runtime stands: keeps blocks until it is told to answer them."""

    asked: list[tuple[int, Request]] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    status = ("ROUNDS", False)

    def admits(self, peer: int, begun: object) -> bool:
        return False

    async def ask(self, peer: int, request: Request) -> Answer:
        self.asked.append((peer, request))
        if isinstance(request, Block):
            await self.over.wait()
            return Outcome(_DATA, None, 0, b"", 0, 0, 0, 0, False, False)
        return Taken()


def frame(run: Path) -> Frame:
    plan = bundle(run, 0).public.plan
    return Frame(plan.run_id, plan.hash)


@asynccontextmanager
async def serving(run: Path, user: int) -> AsyncIterator[Recorder]:
    own, recorder = bundle(run, user), Recorder()
    service = RoundService(own, frame(run), recorder, codec(frame(run)), Sizes(USERS, BLOCK).message_bytes_max)
    server = await start_server(own, service, HealthService(service))
    try:
        yield recorder
    finally:
        await server.stop(None)


@asynccontextmanager
async def sender(run: Path, user: int, block_s: float = 30.0) -> AsyncIterator[RoundsClient]:
    client = RoundsClient(
        bundle(run, user), codec(frame(run)), {}, Sizes(USERS, BLOCK).message_bytes_max, (block_s, 30)
    )
    try:
        yield client
    finally:
        await client.close()


BLOCKED = Block(_LIFE, 1, 1, 0, _DATA, b"")


def test_labels_are_answered_while_a_block_waits_for_its_round(run: Path) -> None:
    async def go() -> None:
        async with serving(run, 0) as adder, sender(run, 1) as one, sender(run, 2) as two:
            waiting = [asyncio.create_task(client.send(0, BLOCKED)) for client in (one, two)]
            assert await one.send(0, Want(1, 2)) == Taken()
            assert not any(task.done() for task in waiting)
            adder.over.set()
            assert [type(answer) for answer in await asyncio.gather(*waiting)] == [Outcome, Outcome]
            assert {(1, BLOCKED), (2, BLOCKED), (1, Want(1, 2))} == set(adder.asked)

    asyncio.run(go())


def test_a_block_that_nobody_answers_ends_in_time_and_the_next_one_gets_through(run: Path) -> None:
    async def go() -> None:
        async with sender(run, 1, block_s=0.3) as client:
            assert await client.send(0, BLOCKED) is None  # nobody serves
            async with serving(run, 0) as adder:
                assert await client.send(0, BLOCKED) is None  # no round ends
                adder.over.set()
                answer = None
                while answer is None:
                    answer = await client.send(0, BLOCKED)
                assert isinstance(answer, Outcome)

    asyncio.run(asyncio.wait_for(go(), 60))


def test_an_adders_own_block_needs_no_network(run: Path) -> None:
    async def go() -> None:
        async with sender(run, 1) as client:
            recorder = Recorder()
            client.myself = recorder.ask
            assert await client.send(1, Want(1, 1)) == Taken()
            assert recorder.asked == [(1, Want(1, 1))]

    asyncio.run(go())


def test_a_bundle_needs_the_round_key_that_the_plan_pins(run: Path, tmp_path: Path) -> None:
    mine, other = (user_folder(run, f"user-{user}") / "round.pem" for user in (1, 2))
    kept = mine.read_bytes()
    try:
        mine.write_bytes(other.read_bytes())
        with pytest.raises(BundleError, match="not the round key that the plan pins for user-1"):
            bundle(run, 1)
        mine.write_bytes(kept)
        mine.chmod(0o644)
        with pytest.raises(BundleError, match="readable by others"):
            bundle(run, 1)
    finally:
        mine.write_bytes(kept)
        mine.chmod(0o600)
