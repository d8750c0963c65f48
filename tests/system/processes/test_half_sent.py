"""Long messages that never end cost a user one token and one result of memory per peer, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.town import launched, make_plan, make_run, start
from node.protocols.walk.messages import Granted, Offer
from node.protocols.walk.values import Hop, Token
from node.transport import codec
from node.wire.v1 import peer_pb2 as pb
from tests.unit.node.transport.stage import bundle, calling, frame, papers_of, run_async, sender

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells how much memory a process has"),
]

NUMBERS = 1 << 20  # a token of 8 MiB
HALF_SENT = 32  # messages of each kind: 768 MiB together, if each had room
MOST_MIB = 240.0  # one token, one result, what gRPC buffers for its streams and what malloc keeps of all that
VICTIM, INSIDER = 1, 2


def _mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024


def _cut(size: int) -> list[bytes]:
    """All bytes but the last 1000."""
    return [bytes(min(codec.CHUNK_BYTES, size - 1000 - at)) for at in range(0, size - 1000, codec.CHUNK_BYTES)]


def _token(run: Path, size: int, hop: Hop, grant: bytes) -> Iterator[bytes]:
    context, (first, *rest) = frame(run).context(hop), _cut(size)
    head = pb.HopRequest(context=context, serial=1)
    head.handoff.MergeFrom(pb.Handoff(grant=grant, key=bytes(32), size=size, token=first))
    yield head.SerializeToString()
    for data in rest:
        yield pb.HopRequest(context=context, chunk=pb.Chunk(data=data)).SerializeToString()


def _result(run: Path, size: int) -> Iterator[bytes]:
    first, *rest = _cut(size)
    head = pb.PublishRequest(context=frame(run).context(), end=bytes(16), size=size, token=first)
    for message in (head, *(pb.PublishRequest(token=data) for data in rest)):
        yield message.SerializeToString()


async def _send(stream: Any, messages: Iterator[bytes]) -> None:
    """Until the other side hangs up, which is its good right."""
    try:
        for message in messages:
            await stream.write(message)
    except asyncio.InvalidStateError:
        return


async def _attack(run: Path, pid: int, size: int) -> dict[str, float]:
    """How much the victim's memory grew under each kind of half-sent messages, all of them open at once."""
    hop, grown, before = Hop((0, 0), 1), {}, _mib(pid)
    async with sender(run, INSIDER, token_bytes=size) as client, AsyncExitStack() as stack:
        answer = await client.send(VICTIM, Offer(hop))
        assert isinstance(answer, Granted)
        for kind, grant in (("no grant", bytes(16)), ("grant", answer.grant), ("result", None)):
            for at in range(HALF_SENT):
                if at % 16 == 0:
                    papers = papers_of(bundle(run, INSIDER))
                    channel = await stack.enter_async_context(calling(run, papers, VICTIM))
                if grant is None:
                    await _send(channel.stream_unary(f"/{codec.SERVICE}/Publish")(), _result(run, size))
                else:
                    stream = channel.stream_stream(f"/{codec.SERVICE}/Hop")()
                    await _send(stream, _token(run, size, hop, grant))
            grown[kind] = _mib(pid) - before
    return grown


def test_half_sent_tokens_and_results_take_no_memory_without_end(tmp_path: Path) -> None:
    task = {"kind": "sum", "dimension": NUMBERS, "lower": 0.0, "upper": 1.0}
    plan = make_plan(3, task=task, topology="complete", steps=3, log_values=False, release="holder")
    run = make_run(tmp_path / "run", plan)
    size = len(Token(np.zeros(NUMBERS, np.int64), 0, 0, 0, ()).encode())
    found: dict[str, float] = {}
    with launched(run) as launch:
        victim = plan.names[VICTIM]
        start(launch, [victim])

        async def work() -> None:
            found.update(await _attack(run, launch.pool.pids[victim], size))

        run_async(work)
    assert max(found.values()) < MOST_MIB, found
