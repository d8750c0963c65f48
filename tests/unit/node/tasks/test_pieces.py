"""Long payloads, computed in pieces and on two cores: the same numbers as at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from network_dp.plan import Plan
from node.noise import SeededSource
from node.tasks import PayloadError, make_task, table_of
from node.tasks.additive import FEW, add
from node.tasks.fixed_point import PAYLOAD_LIMIT
from node.tasks.pieces import PIECE, WORTH_A_THREAD, over_pieces
from node.worker import BoundTask

MakePlan = Callable[..., Plan]
LONG = WORTH_A_THREAD + PIECE + 3
SIZES = [0, 1, PIECE, PIECE + 1, WORTH_A_THREAD - 1, WORTH_A_THREAD, LONG]
GAUSS = {"sigma": 2.0, "grid": 2.0**-16}


@pytest.mark.parametrize("size", SIZES)
def test_pieces_cover_everything_once_and_in_order(size: int) -> None:
    found = over_pieces(lambda piece: np.arange(size)[piece], size)
    assert np.concatenate(found).tolist() == list(range(size))


@pytest.mark.parametrize("size", SIZES)
def test_a_sum_in_pieces_is_the_sum(size: int) -> None:
    start, first, second = (np.random.default_rng(seed).integers(-(2**40), 2**40, size) for seed in range(3))
    unaligned = np.frombuffer(b"\0" + start.tobytes(), np.int64, offset=1)
    out = np.full(size, 7)
    for given in ((), (None,), (first,), (None, second), (first, second)):
        whole = start + sum((part for part in given if part is not None), start=np.zeros(size, np.int64))
        assert (add(start, *given) == whole).all()
        assert add(unaligned, *given, out=out) is out and (out == whole).all()


@pytest.mark.parametrize("at", [0, PIECE - 1, PIECE, LONG // 2, LONG - 1])
def test_a_number_out_of_bounds_is_found_wherever_it_is(at: int, make_plan: MakePlan) -> None:
    task = make_task(make_plan({"kind": "sum", "dimension": LONG, "lower": 0.0, "upper": 1.0}, GAUSS))
    payload = np.zeros(LONG, np.int64)
    for number, fits in (
        (PAYLOAD_LIMIT, True),
        (-PAYLOAD_LIMIT, True),
        (PAYLOAD_LIMIT + 1, False),
        (-PAYLOAD_LIMIT - 1, False),
        (np.iinfo(np.int64).min, False),
    ):
        payload[at] = number
        if fits:
            task.validate(payload)
        else:
            with pytest.raises(PayloadError):
                task.validate(payload)


@pytest.mark.parametrize("units", [0, 1])
def test_a_payload_mixed_in_its_place_is_the_payload(units: int, make_plan: MakePlan) -> None:
    task = make_task(make_plan({"kind": "sum", "dimension": 3, "lower": 0.0, "upper": 1.0}, GAUSS))
    worker = BoundTask(task, task.prepare(table_of([[0.25, 0.5, 0.75]])), 1, 1)
    supply, received, out = worker.supply(SeededSource(b"mix")), np.array([1, 2, 3]), np.zeros(3, np.int64)
    contribution = worker.contribute(received, 1)
    mixed = worker.mix(received, contribution, supply, units, 1, False, out)
    assert mixed.payload is out
    assert mixed.noise is not None and (mixed.noise == supply.noise.units[0] * units).all()
    assert (out == received + contribution + mixed.noise).all()
    assert (worker.mix(received, contribution, supply, units, 1, False).payload == out).all()


def test_a_task_that_does_not_add_makes_an_array_of_its_own(make_plan: MakePlan) -> None:
    rr = {"mechanism": "rr", "gamma": 0.5}
    task = make_task(make_plan({"kind": "histogram", "buckets": 3}, rr))
    worker = BoundTask(task, task.prepare(table_of([[1]])), 1, 1)
    supply, received, out = worker.supply(SeededSource(b"mix")), np.array([1, 2, 3]), np.zeros(3, np.int64)
    mixed = worker.mix(received, worker.contribute(received, 1), supply, 1, 1, False, out)
    assert mixed.payload is not out and mixed.payload.sum() == 7 and not out.any()


@pytest.mark.parametrize("size", [1, FEW, FEW + 1, PIECE + 1])
def test_what_is_not_the_payloads_kind_or_shape_is_never_added(size: int) -> None:
    """Fractions beside integer noise would show through it, and so would the differences of a row that became a
    table: nothing may leave, whoever wrote the task."""
    payload = np.zeros(size, np.int64)
    with pytest.raises(TypeError, match="casting"):
        add(payload, np.full(size, 0.6), payload)
    if size > 1:
        with pytest.raises(ValueError, match="shape"):
            add(payload, np.ones((size, 1), np.int64), payload)
