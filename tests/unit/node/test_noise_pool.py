"""Noise drawn ahead: every draw is handed out once, in time, and a long one keeps nobody waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from node.noise import SystemSource
from node.noise_pool import NoisePool
from node.tasks import Noise
from node.worker import NoiseDraw


class Numbered:
    """Draws noises that can be told apart; ``gate`` closed: a draw takes until it is opened."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.threads: list[int] = []
        self.at_once = self.most_at_once = 0
        self._numbers: Iterator[int] = iter(range(1000))

    def __call__(self) -> list[NoiseDraw]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.threads.append(threading.get_ident())
        assert self.gate.wait(20.0)
        self.at_once -= 1
        return [NoiseDraw(Noise(np.array([[next(self._numbers)]])), SystemSource())]


def number(supply: NoiseDraw) -> int:
    return int(supply.noise.units[0, 0])


@pytest.mark.parametrize("aside", [False, True])
def test_every_noise_is_handed_out_once_and_in_order(aside: bool) -> None:
    async def walk() -> list[int]:
        stock, seen = NoisePool(Numbered(), least=2, aside=aside), []
        for visit in range(60):
            seen.append(number(stock.take()))
            if visit % 3 == 0:
                stock.restock()
            if visit % 4 == 0:
                await asyncio.sleep(0.001 * (visit % 5))
        stock.close()
        return seen

    assert asyncio.run(walk()) == list(range(60))


def test_a_draw_under_way_leaves_the_loop_free_and_is_waited_for_only_when_none_is_left() -> None:
    async def walk() -> None:
        draw = Numbered()
        stock = NoisePool(draw, least=2, aside=True)
        draw.gate.clear()
        first = stock.take()
        stock.restock()
        started = time.monotonic()
        await asyncio.sleep(0.01)
        second = stock.take()  # at hand: not one moment of the draw is waited for
        assert time.monotonic() - started < 10.0 and draw.at_once == 1
        asyncio.get_running_loop().run_in_executor(None, _open_soon, draw.gate)
        third = stock.take()
        assert [number(supply) for supply in (first, second, third)] == [0, 1, 2]
        await asyncio.sleep(0.2)
        assert number(stock.take()) == 3, "what was told afterwards was collected already"
        assert draw.most_at_once == 1 and threading.get_ident() not in draw.threads[2:]
        stock.close()

    asyncio.run(walk())


def _open_soon(gate: threading.Event) -> None:
    time.sleep(0.05)
    gate.set()


def test_closing_with_a_draw_under_way_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    draw = Numbered()

    async def leave() -> None:
        stock = NoisePool(draw, least=2, aside=True)
        draw.gate.clear()
        stock.take()
        stock.restock()
        stock.close()
        stock.restock()  # a timer that nobody cancelled

    asyncio.run(leave())
    draw.gate.set()
    time.sleep(0.1)
    assert capfd.readouterr().err == ""
