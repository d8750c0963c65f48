"""On a warm stream acceptance is told late, and one answer stands for many; a "no" is never late."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from network_dp.plan_reader import HANDOVER_LEAST_S
from node.protocols.walk.messages import Accepted, Granted, Handoff, Offer, Refused, Why
from node.protocols.walk.values import Hop
from node.transport import codec, hop_stream
from node.transport.codec import WireError
from node.transport.hop_stream import Questions
from node.wire.v1 import peer_pb2 as pb
from tests.unit.node.transport.stage import TOKEN_BYTES, bundle, calling, frame, papers_of, run_async, sender, serving

EPOCH = (0, 0)
NO = Refused(Why.BUSY, EPOCH)


def _request(run: Path, serial: int, *, offer: bool = False) -> bytes:
    message = pb.HopRequest(context=frame(run).context(Hop(EPOCH, serial)), serial=serial)
    if offer:
        message.offer.SetInParent()
    else:
        token = bytes(TOKEN_BYTES)
        message.handoff.MergeFrom(pb.Handoff(grant=b"g" * 16, key=bytes(32), size=len(token), token=token))
    return message.SerializeToString()


def _stream(channel: grpc.aio.Channel) -> Any:
    return channel.stream_stream(f"/{codec.SERVICE}/Hop", response_deserializer=pb.HopAnswer.FromString)()


async def _next(stream: Any, patience_s: float = 10.0) -> Any:
    async with asyncio.timeout(patience_s):
        return await stream.read()


def _handoff(step: int) -> Handoff:
    return Handoff(Hop(EPOCH, step), b"g" * 16, bytes(32), bytes(TOKEN_BYTES))


def test_what_was_offered_is_answered_at_once_and_warm_tokens_by_the_last(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hop_stream, "LATE_S", 0.5)

    async def work() -> None:
        async with serving(run) as recorder, calling(run, papers_of(bundle(run, 1))) as channel:
            stream = _stream(channel)
            for serial in range(1, 6):
                await stream.write(_request(run, serial, offer=serial == 1))
            assert [(await _next(stream)).serial for _ in range(3)] == [1, 2, 5]
            assert len(recorder.asked) == 5

    run_async(work)


def test_no_plan_is_less_patient_than_a_late_answer() -> None:
    assert 4 * hop_stream.LATE_S <= HANDOVER_LEAST_S


def test_a_no_is_never_late_and_answers_stay_in_order(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hop_stream, "LATE_S", 0.5)

    async def work() -> None:
        async with serving(run) as recorder, calling(run, papers_of(bundle(run, 1))) as channel:
            stream = _stream(channel)
            for serial in (1, 2):
                await stream.write(_request(run, serial))
            assert (await _next(stream)).serial == 1, "the first of a stream: told at once"
            while len(recorder.asked) < 2:
                await asyncio.sleep(0.01)
            recorder.verdict = NO
            await stream.write(_request(run, 3))
            answer = await _next(stream)
            assert answer.serial == 3 and answer.WhichOneof("body") == "refused"
            with pytest.raises(TimeoutError):  # 3 said it too
                await _next(stream, 1.0)

    run_async(work)


def test_one_answer_settles_all_tokens_before_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hop_stream, "LATE_S", 0.5)

    async def work() -> None:
        async with serving(run) as recorder, sender(run, 1) as client:
            assert await client.send(0, Offer(Hop(EPOCH, 1))) == Granted(b"g" * 16)
            assert await client.send(0, _handoff(1)) == Accepted()
            recorder.verdict = Accepted(b"s" * 16)
            answers = await asyncio.gather(*(client.send(0, _handoff(step)) for step in (2, 3, 4)))
            assert answers == [Accepted(), Accepted(), Accepted(b"s" * 16)]

    run_async(work)


def test_tokens_whose_answer_was_late_when_the_stream_ended_have_none(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hop_stream, "LATE_S", 3600.0)

    async def work() -> None:
        async with sender(run, 1) as client:
            async with serving(run) as recorder:
                await client.send(0, _handoff(1))
                waiting = [asyncio.ensure_future(client.send(0, _handoff(step))) for step in (2, 3)]
                while len(recorder.asked) < 3:
                    await asyncio.sleep(0.01)
            assert await asyncio.gather(*waiting) == [None, None]

    run_async(work)


class Scripted:
    """The call of a peer that answers as it likes."""

    def __init__(self, *answers: Any) -> None:
        self._answers = asyncio.Queue[Any]()
        self._script = answers
        self.cancelled = False

    async def write(self, message: Any) -> None:
        if message.serial == 2:  # both questions are there: answer
            for answer in self._script:
                self._answers.put_nowait(answer)

    async def read(self) -> Any:
        return await self._answers.get()

    def cancel(self) -> None:
        self.cancelled = True


def test_nothing_is_settled_by_an_answer_that_is_not_believed(run: Path) -> None:
    """It passes over an offer, is of the wrong kind, or no answer at all: nobody hears of an accepted token."""
    answers = [
        codec.hop_answer_out(frame(run), Hop(EPOCH, 1), 2, Accepted()),
        codec.hop_answer_out(frame(run), Hop(EPOCH, 1), 2, Granted(b"g" * 16)),
        None,
    ]

    async def work() -> None:
        for answer, second_is_patient in zip(answers, (False, True, True), strict=True):
            call = Scripted(answer)
            questions = Questions(call, frame(run))
            asked = [questions.ask(iter([pb.HopRequest()]), patient=kind) for kind in (True, second_is_patient)]
            found = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(each) for each in found] == [WireError, WireError] and call.cancelled

    run_async(work)


@pytest.mark.parametrize("serials", [[2], [1, 1], [3], [0]])
def test_a_peer_that_passes_over_an_offer_or_answers_what_nobody_asked_is_not_believed(
    serials: list[int], run: Path
) -> None:
    answers = [codec.hop_answer_out(frame(run), Hop(EPOCH, 1), serial, Granted(b"g" * 16)) for serial in serials]

    async def work() -> None:
        call = Scripted(*answers)
        questions = Questions(call, frame(run))
        asked = [questions.ask(iter([pb.HopRequest()]), patient=False) for _ in range(2)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(found[1], WireError) and call.cancelled
        assert isinstance(found[0], Granted if serials[0] == 1 else WireError)

    run_async(work)
