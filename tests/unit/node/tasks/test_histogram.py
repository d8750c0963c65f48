"""Histograms: debiasing on counts, coins before data, cover elements at the ends of a ring, one-hot Gaussian sums."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest

from network_dp.plan import Plan, PlanError
from node.noise import SeededSource
from node.tasks import DataError, PayloadError, Tally, Task, TaskError, make_task, table_of
from node.tasks.histogram import debias

MakePlan = Callable[..., Plan]
HISTOGRAM = {"kind": "histogram", "buckets": 4}
RR = {"mechanism": "rr", "gamma": 0.4}
GAUSS = {"mechanism": "gaussian", "sigma": 1.0, "grid": 2.0**-16}


def walk(task: Task, truths: list[int | None], seed: bytes) -> tuple[np.ndarray, Tally]:
    """One visit per entry; None is a user past its cap."""
    source = SeededSource(seed)
    payload = task.initial(source)
    cover = task.opening_cover
    for step, truth in enumerate(truths, start=1):
        noise = task.draw(source)
        value = None if truth is None else task.contribution(payload, task.prepare(table_of([truth])), 1)
        payload = task.apply(payload, value, task.noise_sum(noise, 1, value), step)
        task.validate(payload)
        cover += int(truth is None and task.noise_only_is_cover)
    closing = task.closing(source)
    if closing is not None:
        payload = task.apply(payload, None, closing, len(truths))
        cover += task.closing_cover
    return payload, Tally(sum(t is not None for t in truths), cover)


def test_debiasing_is_unbiased_on_the_expected_counts() -> None:
    truth, gamma, tally = np.array([70.0, 20.0, 10.0, 0.0]), 0.3, Tally(100, 17)
    expected = (1 - gamma) * truth + gamma * 100 / 4 + 17 / 4
    np.testing.assert_allclose(debias(expected, gamma, tally), truth, atol=1e-12)


@pytest.mark.parametrize("topology", ["ring", "complete"])
def test_the_estimate_is_unbiased_with_cover_elements_and_capped_visits(make_plan: MakePlan, topology: str) -> None:
    task = make_task(make_plan(HISTOGRAM, RR, n=20, topology=topology))
    truths = [0] * 12 + [1] * 5 + [2] * 3 + [None] * 4
    runs = [walk(task, truths, b"%d" % i) for i in range(400)]
    estimates = np.array([task.finish(*run)["counts"] for run in runs])
    error = estimates.mean(axis=0) - np.array([12, 5, 3, 0])
    assert (np.abs(error) < 5 * estimates.std(axis=0) / math.sqrt(400)).all()


def test_every_visit_adds_exactly_one_element(make_plan: MakePlan) -> None:
    task = make_task(make_plan(HISTOGRAM, RR, n=20, topology="ring"))
    payload, tally = walk(task, [3] * 30 + [None] * 5, b"one")
    # R1 = ceil(0.4 * 18) = 8 cover elements at each end.
    assert tally == Tally(30, 8 + 5 + 8)
    assert int(payload.sum()) == 30 + 21


@pytest.mark.parametrize(
    ("topology", "release", "opening", "closing"),
    [("ring", "all", 8, 8), ("ring", "holder", 8, 0), ("complete", "all", 0, 0)],
)
def test_cover_elements_hide_the_ends_of_a_ring_only(
    make_plan: MakePlan, topology: str, release: str, opening: int, closing: int
) -> None:
    task = make_task(make_plan(HISTOGRAM, RR, n=20, topology=topology, release=release))
    assert (task.opening_cover, task.closing_cover) == (opening, closing)
    assert int(task.initial(SeededSource(b"")).sum()) == opening
    last = task.closing(SeededSource(b""))
    assert (0 if last is None else int(last.sum())) == closing


def test_a_response_tells_the_truth_with_its_probability_and_else_is_uniform(make_plan: MakePlan) -> None:
    task = make_task(make_plan(HISTOGRAM, RR))
    payload, _ = walk(task, [2] * 8000, b"law")
    p = np.array([0.1, 0.1, 0.7, 0.1])
    assert (np.abs(payload - 8000 * p) < 5 * np.sqrt(8000 * p * (1 - p))).all()


def test_the_coins_of_a_visit_do_not_depend_on_the_data(make_plan: MakePlan) -> None:
    task = make_task(make_plan(HISTOGRAM, RR))
    lies = 0
    for seed in range(200):
        noise = task.draw(SeededSource(b"%d" % seed))
        said = set()
        for truth in range(4):
            value = task.contribution(task.initial(SeededSource(b"")), task.prepare(table_of([truth])), 1)
            response = value + task.noise_sum(noise, 1, value)
            assert sorted(response.tolist()) == [0, 0, 0, 1]
            said.add(int(response.argmax()))
        assert len(said) in (1, 4)  # one lie for all, or the truth for each
        lies += len(said) == 1
    assert abs(lies - 80) < 5 * math.sqrt(200 * 0.4 * 0.6)


def test_a_truth_never_leaves_without_its_coins(make_plan: MakePlan) -> None:
    task = make_task(make_plan(HISTOGRAM, RR))
    start = task.initial(SeededSource(b""))
    value = task.contribution(start, task.prepare(table_of([1])), 1)
    with pytest.raises(TaskError):
        task.apply(start, value, None, 1)
    with pytest.raises(TaskError):
        task.noise_sum(task.draw(SeededSource(b"")), 0, value)


def test_no_component_adds_nothing_on_its_own(make_plan: MakePlan) -> None:
    task = make_task(make_plan(HISTOGRAM, RR))
    assert task.noise_sum(task.draw(SeededSource(b"")), 0, None).tolist() == [0, 0, 0, 0]


def test_a_gaussian_histogram_is_a_sum_of_one_hot_vectors(make_plan: MakePlan) -> None:
    plan = make_plan(HISTOGRAM, GAUSS)
    task = make_task(plan)
    start = task.initial(SeededSource(b""))
    values = [task.contribution(start, task.prepare(table_of([b])), 1) for b in range(4)]
    np.testing.assert_array_equal(np.stack(values), np.eye(4) * 2**16)
    assert np.linalg.norm(values[0] - values[1]) * 2.0**-16 == pytest.approx(plan.sensitivity)
    assert task.finish(values[0] + values[2], Tally(2, 0))["value"] == [0.5, 0.0, 0.5, 0.0]


def test_a_gaussian_histogram_needs_a_grid_that_holds_one(make_plan: MakePlan) -> None:
    with pytest.raises(PlanError, match="at most 1"):
        make_task(make_plan(HISTOGRAM, {"mechanism": "gaussian", "sigma": 1e6, "grid": 2.0}))


@pytest.mark.parametrize("noise", [RR, GAUSS])
def test_buckets_outside_are_clipped_and_counted(make_plan: MakePlan, noise: dict) -> None:
    data = make_task(make_plan({**HISTOGRAM, "rows": "per_visit"}, noise)).prepare(table_of([-1, 0, 3, 4, 1e30]))
    assert (data.clipped, data.checked) == (3, 5)
    assert data.rows[:, 0].tolist() == [0, 0, 3, 3, 3]


def test_a_bucket_that_is_not_whole_is_refused_without_saying_it(make_plan: MakePlan) -> None:
    with pytest.raises(DataError, match="row 2, column 1: is not a bucket index") as caught:
        make_task(make_plan(HISTOGRAM, RR)).prepare(table_of([1, 2.71828]))
    assert "2.7" not in str(caught.value)


@pytest.mark.parametrize("payload", [np.zeros(3, np.int64), np.zeros(4), np.array([0, 0, -1, 0]), np.full(4, 2**60)])
def test_a_payload_that_is_no_histogram_is_refused(make_plan: MakePlan, payload: np.ndarray) -> None:
    with pytest.raises(PayloadError):
        make_task(make_plan(HISTOGRAM, RR)).validate(payload)


@pytest.mark.parametrize("noise", [RR, GAUSS])
def test_the_estimate_is_ready_for_json(make_plan: MakePlan, noise: dict) -> None:
    task = make_task(make_plan(HISTOGRAM, noise))
    assert json.loads(json.dumps(task.finish(np.arange(4), Tally(0, 0))))["value"] is None
    assert len(json.loads(json.dumps(task.finish(np.arange(4), Tally(6, 0))))["value"]) == 4
