"""One timer ends many waits, each at its time, and nobody else's cancelling is taken for it."""

from __future__ import annotations

import asyncio

import pytest

from node.transport.patience import Patience
from tests.transport.stage import run_async


async def _wait(patience: Patience, seconds: float) -> str:
    try:
        with patience.of(seconds):
            await asyncio.sleep(3600)
    except TimeoutError:
        return "given up"
    return "over"


def test_each_wait_ends_at_its_time_whatever_the_order_of_beginning() -> None:
    async def work() -> None:
        patience, loop = Patience(), asyncio.get_running_loop()
        begun = loop.time()
        ends: dict[float, float] = {}

        async def one(seconds: float) -> None:
            assert await _wait(patience, seconds) == "given up"
            ends[seconds] = loop.time() - begun

        await asyncio.gather(*map(one, (0.3, 0.1, 0.2)))
        assert list(ends) == [0.1, 0.2, 0.3]
        assert all(took >= seconds for seconds, took in ends.items())

    run_async(work)


def test_a_wait_that_is_over_costs_the_task_nothing_later() -> None:
    async def work() -> None:
        patience = Patience()
        with patience.of(0.05):
            await asyncio.sleep(0)
        await asyncio.sleep(0.2)
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0
        assert await _wait(patience, 0.05) == "given up", "the timer had come to nothing; the next wait sets it again"

    run_async(work)


def test_who_is_cancelled_by_somebody_else_is_cancelled() -> None:
    async def work() -> None:
        task = asyncio.ensure_future(_wait(Patience(), 3600))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_async(work)


def test_cancelled_by_somebody_else_in_the_moment_of_giving_up_is_cancelled() -> None:
    async def work() -> None:
        task = asyncio.ensure_future(_wait(Patience(), 0.0))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.0, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    run_async(work)


def test_an_error_in_the_moment_of_giving_up_stays_that_error() -> None:
    async def work() -> None:
        with pytest.raises(ZeroDivisionError), Patience().of(0.0):
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                raise ZeroDivisionError from None
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0

    run_async(work)


def test_a_wait_begun_after_closing_still_ends() -> None:
    async def work() -> None:
        patience = Patience()
        with patience.of(0.01):
            patience.close()
        assert await _wait(patience, 0.05) == "given up"

    run_async(work)
