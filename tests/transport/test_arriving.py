"""A long token through a whole user (runtime, stock, journal, log): its visit was reckoned while it came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from node import runtime
from node.ahead import Reckoning
from node.protocol.digests import digest
from node.protocol.messages import Accepted, Answer, Granted, Handoff, Offer, Request
from node.protocol.values import Hop
from node.runtime import Runtime
from node.stock import Stock
from node.transport.arrival import Arrival, Filling
from node.view_log import ViewLog
from simulator.faults.dice import SeededDice, seeded
from tests.protocol.test_ahead import EPOCH, HOP, SENDER, Stage


@pytest.fixture(autouse=True)
def _short_tokens_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "RECKON_AHEAD_BYTES", 0)


class Nobody:
    """Peers that never answer."""

    on_cold: Callable[[int], None]

    def __init__(self) -> None:
        self.sent: list[Request] = []

    async def send(self, peer: int, request: Request) -> None:
        self.sent.append(request)


class User:
    """The stage's user, with everything but a network."""

    def __init__(self, folder: Path) -> None:
        self.stage = Stage(folder)
        self.view = ViewLog(folder / "view.jsonl", "{}")
        self.nobody: Any = Nobody()
        self.runtime = Runtime(
            self.stage.ctx,
            self.stage.journal,
            self.view,
            self.nobody,
            SeededDice(seeded("arriving", 1)),
            Stock(lambda: self.stage.supplies, least=1, aside=False),
            lambda effect: None,
            lambda step: None,
        )
        self.runtime.begin(again=False)

    async def grant(self) -> bytes:
        answer = await self.runtime.ask(SENDER, Offer(HOP))
        assert isinstance(answer, Granted)
        return answer.grant

    def arriving(self, grant: bytes, hop: Hop = HOP) -> Arrival:
        data = self.stage.token()
        return self.runtime.arriving(SENDER, Handoff(hop, grant, b"k" * 32, data[:1000]), len(data))

    async def take(self, arrival: Arrival, grant: bytes) -> Answer:
        data = self.stage.token()
        for piece in (data[:1000], data[1000:50_000], data[50_000:]):
            arrival.put(piece)
        found = await arrival.digest()
        assert found == digest(data)
        return await self.runtime.ask(SENDER, Handoff(HOP, grant, b"k" * 32, arrival.token, found))

    async def close(self) -> None:
        await self.runtime.close()
        self.view.close()
        self.stage.close()


def test_a_long_token_is_reckoned_while_it_comes(tmp_path: Path) -> None:
    async def work() -> None:
        user = User(tmp_path)
        grant = await user.grant()
        arrival = user.arriving(grant)
        assert isinstance(arrival, Reckoning)
        assert isinstance(await user.take(arrival, grant), Accepted)
        custody = user.runtime._state.durable.custody
        assert arrival.reckoned is not None and custody is not None and custody.out is arrival.reckoned.out
        assert (tmp_path / "journal.0").read_bytes().endswith(custody.out)
        arrival.close()
        await user.close()

    asyncio.run(work())


def test_what_cannot_be_reckoned_ahead_is_taken_all_the_same(tmp_path: Path) -> None:
    async def work() -> None:
        user = User(tmp_path)
        grant = await user.grant()
        assert isinstance(user.arriving(grant, Hop(EPOCH, 6)), Filling), "not the hop that was granted"
        first, second = user.arriving(grant), user.arriving(grant)
        assert isinstance(first, Reckoning) and isinstance(second, Filling), "one at a time"
        assert isinstance(await user.take(second, grant), Accepted)
        first.close()
        await user.close()

    asyncio.run(work())


def test_a_token_for_which_a_thread_is_not_worth_it_is_reckoned_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        user = User(tmp_path)
        monkeypatch.setattr(runtime, "RECKON_AHEAD_BYTES", len(user.stage.token()) + 1)
        grant = await user.grant()
        arrival = user.arriving(grant)
        assert isinstance(arrival, Filling)
        assert isinstance(await user.take(arrival, grant), Accepted)
        await user.close()

    asyncio.run(work())


def test_a_user_ends_although_a_token_is_still_arriving(tmp_path: Path) -> None:
    async def work() -> None:
        user = User(tmp_path)
        grant = await user.grant()
        arrival = user.arriving(grant)
        arrival.put(user.stage.token()[:1000])
        await user.close()
        assert await arrival.digest() is None
        assert isinstance(user.arriving(grant), Filling)

    asyncio.run(work())
