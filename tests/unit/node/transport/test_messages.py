"""What travels: whole tokens in chunks, typed refusals, and a codec that never guesses."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from node.protocols.walk.digests import digest
from node.protocols.walk.messages import (
    Accepted,
    Already,
    Declined,
    Granted,
    Handoff,
    Located,
    Offer,
    Promise,
    Publish,
    Published,
    Refused,
    Result,
    Why,
)
from node.protocols.walk.values import Hop, Token, TokenError, decode_token
from node.transport import codec
from node.transport.codec import Frame, WireError
from node.wire.v1 import peer_pb2 as pb
from node.wire.v1 import peer_pb2_grpc
from tests.unit.node.transport.stage import (
    TOKEN_BYTES,
    bundle,
    calling,
    code_of,
    frame,
    papers_of,
    provisioned,
    run_async,
    sender,
    serving,
)

HOP = Hop((0, 0), 1)
FRAME = Frame("ab" * 32, "cd" * 32)


def _handoff(size: int) -> Handoff:
    return Handoff(HOP, b"g" * 16, bytes(32), os.urandom(size))


@pytest.mark.parametrize("size", [1, codec.INLINE_BYTES, codec.INLINE_BYTES + 1, 5 * 2**20])
def test_a_token_of_any_size_arrives_whole(size: int, run: Path) -> None:
    handoff = _handoff(size)

    async def work() -> None:
        async with serving(run, token_bytes=size) as recorder, sender(run, 1, token_bytes=size) as client:
            assert await client.send(0, handoff) == Accepted()
            while_it_came = digest(handoff.token) if size > codec.INLINE_BYTES else b""
            assert recorder.asked == [(1, handoff._replace(digest=while_it_came))]
            assert await client.send(0, Offer(HOP)) == Granted(b"g" * 16), "the stream goes on"

    run_async(work)


@pytest.mark.parametrize("size", [0, TOKEN_BYTES - 1, TOKEN_BYTES + 1, 3 * 2**20])
def test_a_token_of_another_size_is_refused_before_the_protocol_sees_it(size: int, run: Path) -> None:
    async def work() -> None:
        async with serving(run) as recorder, sender(run, 1) as client:
            answer = await client.send(0, _handoff(size))
            assert isinstance(answer, Refused) and answer.why is Why.UNFIT
            assert recorder.asked == []
            assert await client.send(0, Offer(HOP)) == Granted(b"g" * 16)

    run_async(work)


def test_a_result_of_another_size_is_refused_before_the_protocol_sees_it(run: Path) -> None:
    context = frame(run).context(HOP)
    lies = [
        [pb.PublishRequest(context=context, end=bytes(16), size=TOKEN_BYTES, token=bytes(TOKEN_BYTES + 1))],
        [pb.PublishRequest(context=context, end=bytes(16), size=0, token=b"x")],
        [pb.PublishRequest(context=context, end=bytes(16), size=1 << 40)],
        [pb.PublishRequest(context=context, end=bytes(3), size=TOKEN_BYTES, token=bytes(TOKEN_BYTES))],
        [pb.PublishRequest(context=context, end=bytes(16), size=TOKEN_BYTES, token=b"x"), pb.PublishRequest()],
        [pb.PublishRequest(context=context, end=bytes(16), size=TOKEN_BYTES, token=b"x")],
        [],
    ]

    async def work() -> None:
        async with serving(run) as recorder, calling(run, papers_of(bundle(run, 1))) as channel:
            for pieces in lies:
                call = peer_pb2_grpc.PeerStub(channel).Publish(iter(pieces))
                assert await code_of(call) is grpc.StatusCode.INVALID_ARGUMENT, pieces
            assert recorder.asked == []

    run_async(work)


LONG = 3 * codec.CHUNK_BYTES + 5


@pytest.mark.parametrize("size", [codec.INLINE_BYTES + 1, LONG, 4 * codec.CHUNK_BYTES, 4 * codec.CHUNK_BYTES - 1])
def test_no_piece_of_a_long_token_is_a_few_bytes(size: int) -> None:
    """Each is a message, whatever its size; and a message has at most 4 MiB."""
    cut = codec.piece_bytes(size)
    sizes = [min(cut, size - at) for at in range(0, size, cut)]
    assert sum(sizes) == size and codec.CHUNK_BYTES <= cut < 2 * codec.CHUNK_BYTES
    assert sizes[-1] > cut - len(sizes)


def _long_handoff(run: Path, *chunks: bytes) -> list[bytes]:
    """A hand-over of ``LONG`` bytes as messages: its first chunk, then these."""
    first = pb.HopRequest(context=frame(run).context(HOP), serial=3)
    first.handoff.MergeFrom(pb.Handoff(grant=b"g" * 16, key=bytes(32), size=LONG, token=bytes(codec.CHUNK_BYTES)))
    rest = (pb.HopRequest(context=frame(run).context(HOP), chunk=pb.Chunk(data=chunk)) for chunk in chunks)
    return [message.SerializeToString() for message in (first, *rest)]


def _hop_stream(channel: grpc.aio.Channel, messages: list[bytes]) -> Any:
    return channel.stream_stream(f"/{codec.SERVICE}/Hop", response_deserializer=pb.HopAnswer.FromString)(iter(messages))


def test_a_token_cut_into_other_chunks_arrives_whole(run: Path) -> None:
    rest = os.urandom(LONG - codec.CHUNK_BYTES)
    chunks = [rest[:1], rest[1:700], rest[700 : 700 + codec.CHUNK_BYTES], rest[700 + codec.CHUNK_BYTES :]]

    async def work() -> None:
        async with serving(run, token_bytes=LONG) as recorder, calling(run, papers_of(bundle(run, 1))) as channel:
            answer = await _hop_stream(channel, _long_handoff(run, *chunks)).read()
            assert answer.WhichOneof("body") == "accepted" and answer.serial == 3
            token = bytes(codec.CHUNK_BYTES) + rest
            assert recorder.asked == [(1, Handoff(HOP, b"g" * 16, bytes(32), token, digest(token)))]

    run_async(work)


def test_chunks_that_are_not_what_was_announced_never_reach_the_protocol(run: Path) -> None:
    too_long, too_short = [bytes(LONG)], [bytes(9)]
    empty, nothing = [bytes(9), b"", bytes(LONG - codec.CHUNK_BYTES - 9)], list[bytes]()

    async def work() -> None:
        async with serving(run, token_bytes=LONG) as recorder, calling(run, papers_of(bundle(run, 1))) as channel:
            for chunks in (too_long, too_short, empty, nothing):
                answer = await _hop_stream(channel, _long_handoff(run, *chunks)).read()
                assert answer.WhichOneof("body") == "refused" and answer.refused.why == pb.WHY_UNFIT
            for garbage in ([b"\xff\xff"], [*_long_handoff(run), b"\xff\xff"], [b""]):
                assert await code_of(_hop_stream(channel, garbage).read()) is grpc.StatusCode.INVALID_ARGUMENT
            assert recorder.asked == []

    run_async(work)


def test_a_short_token_in_pieces_is_refused(run: Path) -> None:
    """The contract has it in one message; whoever receives it counts on bytes."""
    first = pb.HopRequest(context=frame(run).context(HOP), serial=3)
    first.handoff.MergeFrom(pb.Handoff(grant=b"g" * 16, key=bytes(32), size=TOKEN_BYTES, token=bytes(TOKEN_BYTES - 8)))
    rest = pb.HopRequest(context=frame(run).context(HOP), chunk=pb.Chunk(data=bytes(8)))

    async def work() -> None:
        async with serving(run) as recorder, calling(run, papers_of(bundle(run, 1))) as channel:
            messages = [message.SerializeToString() for message in (first, rest)]
            answer = await _hop_stream(channel, messages).read()
            assert answer.refused.why == pb.WHY_UNFIT and answer.serial == 3
            assert recorder.asked == []

    run_async(work)


@pytest.mark.parametrize("wrong", ["plan", "run"])
def test_a_message_of_another_plan_or_run_never_reaches_the_protocol(wrong: str, run: Path) -> None:
    plan = bundle(run, 0).public.plan
    other = Frame("00" * 32 if wrong == "run" else plan.run_id, "00" * 32 if wrong == "plan" else plan.hash)

    async def work() -> None:
        async with serving(run) as recorder, calling(run, papers_of(bundle(run, 1))) as channel:
            stub, context = peer_pb2_grpc.PeerStub(channel), other.context(HOP)
            head = pb.Handoff(grant=bytes(16), key=bytes(32), size=TOKEN_BYTES, token=bytes(TOKEN_BYTES))
            for body, no in (({"offer": pb.Offer()}, "declined"), ({"handoff": head}, "refused")):
                stream = stub.Hop(iter([pb.HopRequest(context=context, **body)]))
                answer = await stream.read()
                assert answer.WhichOneof("body") == no and getattr(answer, no).why == pb.WHY_UNFIT
            for call in (stub.Locate(pb.LocateRequest(context=context)), stub.Fence(pb.FenceRequest(context=context))):
                assert await code_of(call) is grpc.StatusCode.FAILED_PRECONDITION
            assert recorder.asked == []

    run_async(work)


def test_warm_channels_are_bounded(tmp_path: Path) -> None:
    run, n, most = provisioned(tmp_path, 6), 6, 3

    async def work() -> None:
        async with AsyncExitStack() as stack, sender(run, 0, warm_channels=most) as client:
            for index in range(1, n):
                await stack.enter_async_context(serving(run, index))
            for index in [*range(1, n)] * 2:
                assert isinstance(await client.send(index, Offer(HOP)), Granted)
                assert len(client._links) <= most

    run_async(work)


# ---- the codec -------------------------------------------------------------------------------------------------

_numbers = st.integers(-1, 2**62 - 1)
_epochs = st.tuples(_numbers, _numbers)
_hops = st.builds(Hop, _epochs, _numbers)
_secrets = st.binary(min_size=16, max_size=16)
_whys = st.sampled_from(Why)
_results = st.builds(Result, _epochs, _secrets, st.binary(max_size=50))
_answers = (
    st.builds(Granted, _secrets)
    | st.just(Already())
    | st.just(Accepted())
    | st.builds(Declined, _whys, _epochs)
    | st.builds(Refused, _whys, _epochs)
)


@given(_hops, st.integers(0, 2**64 - 1), _answers)
def test_hop_answers_survive_the_wire(hop: Hop, serial: int, answer: Any) -> None:
    message = pb.HopAnswer.FromString(codec.hop_answer_out(FRAME, hop, serial, answer).SerializeToString())
    assert (FRAME.check(message.context), message.serial, codec.hop_answer_in(message)) == (hop, serial, answer)


@given(_hops, _hops, _hops, _epochs, _epochs, _results, st.booleans(), _whys)
def test_answers_about_the_token_survive_the_wire(
    rank: Hop, taken: Hop, given_: Hop, promised: Any, vote: Any, result: Result, flag: bool, why: Why
) -> None:
    located = Located(rank, flag, promised, taken, given_, vote, result if flag else None, flag)
    assert codec.located_in(codec.located_out(FRAME, located)) == located
    promise = Promise(flag, None if flag else why, promised, rank, result if flag else None, flag)
    assert codec.promise_in(codec.promise_out(FRAME, promise)) == promise
    published = Published(flag, promised)
    assert codec.published_in(codec.published_out(FRAME, published)) == published
    pieces = codec.publish_out(FRAME, Publish(result, flag, flag))
    assert b"".join(piece.token for piece in pieces) == result.token


def test_a_result_that_is_not_final_is_not_told_to_whoever_asks() -> None:
    result = Result((0, 0), bytes(16), b"secret")
    hop = Hop((0, 0), 0)
    located = codec.located_out(FRAME, Located(hop, False, (0, 0), hop, hop, (0, 0), result, False))
    assert b"secret" not in located.SerializeToString()


@given(_hops, st.binary(min_size=1, max_size=300))
def test_a_chunk_is_the_message_that_protobuf_would_write(hop: Hop, data: bytes) -> None:
    head = codec.chunk_head(FRAME, hop, len(data))
    message = pb.HopRequest(context=FRAME.context(hop), chunk=pb.Chunk(data=data))
    assert head + data == message.SerializeToString()
    assert codec.chunk_in(head + data, head, len(data)) == data


@pytest.mark.parametrize("size", [127, 128, 2**14 - 1, 2**14, codec.CHUNK_BYTES, 2**21])
def test_the_head_of_a_long_chunk_too(size: int) -> None:
    hop, data = Hop((3, 4), 5), bytes(size)
    message = pb.HopRequest(context=FRAME.context(hop), chunk=pb.Chunk(data=data))
    assert codec.chunk_head(FRAME, hop, size) + data == message.SerializeToString()


@given(_hops, st.binary(min_size=1, max_size=300), st.integers(1, 300))
def test_a_chunk_written_otherwise_is_read_by_protobuf(hop: Hop, data: bytes, expected: int) -> None:
    """Of another length than expected, with a field more, or with its fields in another order."""
    head = codec.chunk_head(FRAME, hop, expected)
    context, chunk = pb.HopRequest(context=FRAME.context(hop)), pb.HopRequest(chunk=pb.Chunk(data=data))
    numbered = pb.HopRequest(context=FRAME.context(hop), serial=7, chunk=pb.Chunk(data=data))
    for message in (
        numbered.SerializeToString(),
        chunk.SerializeToString() + context.SerializeToString(),
        context.SerializeToString() + chunk.SerializeToString() + pb.HopRequest(serial=9).SerializeToString(),
    ):
        assert codec.chunk_in(message, head, expected) == data


@given(st.binary(max_size=200))
def test_random_bytes_are_a_question_or_a_wire_error(data: bytes) -> None:
    try:
        assert codec.question_in(data).WhichOneof("body") in ("offer", "handoff")
    except WireError:
        return


_READERS = {
    pb.HopRequest: lambda message: FRAME.check(message.context),
    pb.HopAnswer: codec.hop_answer_in,
    pb.LocateAnswer: codec.located_in,
    pb.FenceAnswer: codec.promise_in,
    pb.PublishAnswer: codec.published_in,
}


@given(st.sampled_from(sorted(_READERS, key=lambda kind: kind.__name__)), st.binary(max_size=200))
def test_random_bytes_are_a_message_or_a_wire_error(kind: Any, data: bytes) -> None:
    try:
        message = kind.FromString(data)
    except DecodeError:
        return  # gRPC answers for these
    try:
        _READERS[kind](message)
    except WireError:
        return


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(0, 99), st.binary(max_size=40))
def test_numbers_and_secrets_outside_the_contract_are_wire_errors(a: int, b: int, why: int, secret: bytes) -> None:
    in_range = -1 <= a < 2**62 and -1 <= b < 2**62
    epoch = pb.Epoch(counter=a, issuer=b)
    context = pb.Context(run_id=FRAME.run_id, plan_hash=FRAME.plan_hash, epoch=epoch, step=b)
    declined = pb.HopAnswer(declined=pb.Declined(why=why, promised=epoch))
    granted = pb.HopAnswer(granted=pb.Granted(grant=secret))
    known = 1 <= why <= len(Why)
    for read, message, fine in (
        (FRAME.check, context, in_range),
        (codec.hop_answer_in, declined, in_range and known),
        (codec.hop_answer_in, granted, len(secret) == 16),
    ):
        if fine:
            read(message)
        else:
            with pytest.raises(WireError):
                read(message)


@given(st.binary(max_size=120), st.sampled_from(["int64", "float64"]), st.integers(0, 3), st.integers(0, 3))
def test_random_bytes_are_a_token_of_the_run_or_a_token_error(
    data: bytes, dtype: str, dimension: int, ledger: int
) -> None:
    honest = Token(np.zeros(dimension, dtype), 1, 2, 3, (4,) * ledger).encode()
    for candidate in (data, honest[: len(data)], honest + data):
        try:
            token = decode_token(candidate, dtype=dtype, dimension=dimension, ledger_size=ledger)
        except TokenError:
            assert candidate != honest
        else:
            assert token.payload.size == dimension and len(token.ledger) == ledger
