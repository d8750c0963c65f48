"""No text of an error crosses to a peer, and what a peer sends has room only where it was granted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from node.protocols.walk.digests import digest
from node.protocols.walk.messages import Handoff, Locate, Publish
from node.protocols.walk.values import Hop
from node.transport import codec
from node.wire.v1 import peer_pb2 as pb
from node.wire.v1 import peer_pb2_grpc
from tests.unit.node.transport.stage import ANSWER_S, bundle, calling, frame, papers_of, run_async, sender, serving

HOP = Hop((0, 0), 5)
DATUM = "0.71240234375"
LONG = 3 * codec.CHUNK_BYTES
GARBAGE = b"\xff\xff\xff"
UNKNOWN_METHOD = grpc.StatusCode.UNIMPLEMENTED
UNARY = ("Locate", "Fence", "Status")


async def _error_of(call: Awaitable[Any]) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async with asyncio.timeout(ANSWER_S):
            await call
    return caught.value


def _publish(run: Path, size: int, token: bytes) -> pb.PublishRequest:
    return pb.PublishRequest(context=frame(run).context(HOP), end=bytes(16), size=size, token=token)


def _asking(run: Path, channel: grpc.aio.Channel) -> Iterator[Awaitable[Any]]:
    """Every call that reaches the protocol."""
    stub, context = peer_pb2_grpc.PeerStub(channel), frame(run).context(HOP)
    yield stub.Hop(iter([pb.HopRequest(context=context, offer=pb.Offer())])).read()
    yield stub.Locate(pb.LocateRequest(context=context))
    yield stub.Fence(pb.FenceRequest(context=context))
    yield stub.Publish(iter([_publish(run, 0, b"")]))


def test_the_text_of_an_error_stays_where_it_was_raised(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with serving(run) as recorder, calling(run, papers_of(bundle(run, 1))) as channel:
            recorder.trouble = KeyError(DATUM)
            for call in _asking(run, channel):
                error = await _error_of(call)
                assert (error.code(), error.details()) == (grpc.StatusCode.INTERNAL, "the call failed")
            assert len(recorder.asked) == 4

    run_async(work)
    assert caplog.text.count("KeyError") == 4 and DATUM not in caplog.text


def test_what_a_peer_says_in_an_error_is_not_logged(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def say(request: bytes, context: Any) -> None:
        await context.abort(grpc.StatusCode.UNKNOWN, DATUM)

    async def work() -> None:
        server, own = grpc.aio.server(), bundle(run, 0)
        handler: Any = grpc.unary_unary_rpc_method_handler(say)
        server.add_registered_method_handlers(codec.SERVICE, {"Locate": handler})
        credentials = grpc.ssl_server_credentials([(own.key_pem, own.certificate_pem)], own.ca_pem, True)
        server.add_secure_port(own.bind, credentials)
        await server.start()
        async with sender(run, 1) as client:
            assert await client.send(0, Locate()) is None
        await server.stop(None)

    run_async(work)
    assert "no answer from user-0: UNKNOWN" in caplog.text and DATUM not in caplog.text


def test_bytes_that_are_no_message_are_refused_without_a_traceback(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with serving(run) as recorder, calling(run, papers_of(bundle(run, 1))) as channel:
            for name in UNARY:
                expected = grpc.StatusCode.OK if name == "Status" else grpc.StatusCode.INVALID_ARGUMENT
                assert await _code(channel.unary_unary(f"/{codec.SERVICE}/{name}")(GARBAGE)) is expected
            publish = channel.stream_unary(f"/{codec.SERVICE}/Publish")(iter([GARBAGE]))
            hop = channel.stream_stream(f"/{codec.SERVICE}/Hop")(iter([GARBAGE]))
            for call in (publish, hop.read()):
                assert await _code(call) is grpc.StatusCode.INVALID_ARGUMENT
            await _code(channel.unary_unary("/grpc.health.v1.Health/Check")(GARBAGE))
            assert await _code(channel.unary_stream("/grpc.health.v1.Health/Watch")(b"").read()) is UNKNOWN_METHOD
            assert recorder.asked == []

    run_async(work)
    assert not [record for record in caplog.records if record.exc_info]


async def _code(call: Awaitable[Any]) -> grpc.StatusCode:
    try:
        async with asyncio.timeout(ANSWER_S):
            await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


# ---- long messages -------------------------------------------------------------------------------------------


def _handoff(run: Path, token: bytes) -> list[bytes]:
    """A hand-over of ``LONG`` bytes, of which these come."""
    context, first = frame(run).context(HOP), token[: codec.FIRST_BYTES]
    head = pb.HopRequest(context=context, serial=1)
    head.handoff.MergeFrom(pb.Handoff(grant=b"g" * 16, key=bytes(32), size=LONG, token=first))
    rest = [token[at : at + codec.CHUNK_BYTES] for at in range(len(first), len(token), codec.CHUNK_BYTES)]
    chunks = [pb.HopRequest(context=context, chunk=pb.Chunk(data=data)) for data in rest]
    return [message.SerializeToString() for message in (head, *chunks)]


def _result(run: Path, token: bytes) -> list[bytes]:
    pieces = [token[at : at + codec.CHUNK_BYTES] for at in range(0, len(token), codec.CHUNK_BYTES)]
    messages = [_publish(run, LONG, pieces[0]), *(pb.PublishRequest(token=piece) for piece in pieces[1:])]
    return [message.SerializeToString() for message in messages]


def _hop_call(channel: grpc.aio.Channel) -> Any:
    return channel.stream_stream(f"/{codec.SERVICE}/Hop")()


def _publish_call(channel: grpc.aio.Channel) -> Any:
    return channel.stream_unary(f"/{codec.SERVICE}/Publish")()


Kind = tuple[Callable[[Path, bytes], list[bytes]], Callable[[grpc.aio.Channel], Any]]
TOKEN: Kind = (_handoff, _hop_call)
RESULT: Kind = (_result, _publish_call)


async def _begun(channel: grpc.aio.Channel, kind: Kind, run: Path, token: bytes) -> Any:
    make, call = kind
    stream = call(channel)
    for message in make(run, token):
        await stream.write(message)
    return stream


def _last_byte(kind: Kind, run: Path) -> bytes:
    chunk = pb.HopRequest(context=frame(run).context(HOP), chunk=pb.Chunk(data=b"x"))
    message = chunk if kind is TOKEN else pb.PublishRequest(token=b"x")
    data: bytes = message.SerializeToString()
    return data


async def _ended(stream: Any) -> grpc.StatusCode:
    """The status a half-sent message is given up with."""
    async with asyncio.timeout(ANSWER_S):
        code: grpc.StatusCode = await stream.code()
        return code


def test_a_long_token_without_a_grant_has_no_room(run: Path) -> None:
    """The protocol is told its digest, which is enough to know a hop that was taken before."""
    token = os.urandom(LONG)

    async def work() -> None:
        async with serving(run, token_bytes=LONG) as recorder, calling(run, papers_of(bundle(run, 1))) as channel:
            recorder.grants = False
            await (await _begun(channel, TOKEN, run, token)).read()
            assert recorder.asked == [(1, Handoff(HOP, b"g" * 16, bytes(32), b"", digest(token)))]

    run_async(work)


@pytest.mark.parametrize("kind", [TOKEN, RESULT])
def test_a_newer_message_of_the_same_user_takes_the_place_of_an_unfinished_one(kind: Kind, run: Path) -> None:
    token = os.urandom(LONG)

    async def work() -> None:
        async with serving(run, token_bytes=LONG) as recorder, calling(run, papers_of(bundle(run, 1))) as channel:
            older = await _begun(channel, kind, run, token[:-1])
            newer = await _begun(channel, kind, run, token)
            if kind is RESULT:
                await newer.done_writing()
                await newer
            else:
                await newer.read()
            with suppress(asyncio.InvalidStateError):  # unless one of its pieces was already refused
                await older.write(_last_byte(kind, run))
            assert await _ended(older) is grpc.StatusCode.INVALID_ARGUMENT
            ((_, request),) = recorder.asked
            got = request.result.token if isinstance(request, Publish) else request.token  # type: ignore[union-attr]
            assert got == token

    run_async(work)


@pytest.mark.parametrize("kind", [TOKEN, RESULT])
def test_a_message_that_does_not_end_is_given_up(kind: Kind, run: Path) -> None:
    async def work() -> None:
        async with (
            serving(run, token_bytes=LONG, token_timeout_s=0.2) as recorder,
            calling(run, papers_of(bundle(run, 1))) as channel,
        ):
            stream = await _begun(channel, kind, run, bytes(LONG - 1))
            assert await _ended(stream) is grpc.StatusCode.INVALID_ARGUMENT
            assert recorder.asked == []

    run_async(work)
