"""Sums and means: clipping, grid, noise components, headroom, exact conservation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from network_dp.plan import Plan, PlanError
from node.noise import SeededSource
from node.tasks import (
    DataError,
    PayloadError,
    Tally,
    TaskError,
    clip_to_norm,
    headroom,
    make_task,
    table_of,
)

MakePlan = Callable[..., Plan]
MEAN = {"kind": "mean", "lower": -1.0, "upper": 1.0}
GAUSS = {"sigma": 2.0, "grid": 2.0**-16}
PER_VISIT = {"rows": "per_visit"}


def test_values_outside_the_bounds_are_clipped_and_counted(make_plan: MakePlan) -> None:
    task = make_task(make_plan({**MEAN, **PER_VISIT}, GAUSS))
    data = task.prepare(table_of([0.5, -7, 1.0, 1e300]))
    assert (data.clipped, data.checked) == (2, 4)
    assert (data.rows * 2.0**-16).tolist() == [[0.5], [-1], [1], [1]]


def test_contributions_differ_by_no_more_than_the_sensitivity(make_plan: MakePlan) -> None:
    """Bounds off the grid: the plan's sensitivity counts the widened bounds, rounding must stay inside them."""
    task = {"kind": "sum", "lower": -0.3, "upper": 0.7, **PER_VISIT}
    plan = make_plan(task, {"sigma": 200.0, "grid": 0.125}, length=999)
    rows = make_task(plan).prepare(table_of(np.linspace(-2, 2, 999))).rows
    assert (int(rows.max()) - int(rows.min())) * 0.125 <= plan.sensitivity


@given(st.lists(st.lists(st.floats(-1e308, 1e308), min_size=3, max_size=3), min_size=1, max_size=5))
def test_clipping_to_a_norm_never_leaves_a_longer_row(values: list[list[float]]) -> None:
    rows = np.array(values)
    clipped, count = clip_to_norm(rows, 2.0)
    lengths = [math.hypot(*row) for row in clipped]
    assert max(lengths) <= 2.0
    assert count == sum(math.hypot(*row) > 2.0 for row in values)
    for before, after in zip(rows, clipped, strict=True):
        if math.hypot(*before) <= 2.0:
            assert (before == after).all()


def test_vectors_can_be_bounded_by_their_norm(make_plan: MakePlan) -> None:
    task = make_task(make_plan({"kind": "sum", "dimension": 2, "norm": 1.0, **PER_VISIT}, GAUSS))
    data = task.prepare(table_of([[3.0, 4.0], [0.0, 0.0], [0.5, -0.5]]))
    assert (data.clipped, data.checked) == (1, 3)
    np.testing.assert_allclose(data.rows * 2.0**-16, [[0.6, 0.8], [0, 0], [0.5, -0.5]], atol=2.0**-16)


def test_a_sequence_gives_one_element_a_visit_and_starts_again(make_plan: MakePlan) -> None:
    task = make_task(make_plan({**MEAN, **PER_VISIT}, GAUSS))
    data = task.prepare(table_of([0.25, 0.5, 0.75]))
    start = task.initial(SeededSource(b""))
    seen = [float(task.contribution(start, data, i)[0]) * 2.0**-16 for i in (1, 2, 3, 4)]
    assert seen == [0.25, 0.5, 0.75, 0.25]


def test_a_wrong_number_of_columns_is_refused(make_plan: MakePlan) -> None:
    with pytest.raises(DataError, match="has 2 columns, the plan needs 1"):
        make_task(make_plan(MEAN, GAUSS)).prepare(table_of([[1, 2]]))


def test_a_walk_is_conserved_to_the_last_bit(make_plan: MakePlan) -> None:
    task = make_task(make_plan({**MEAN, "dimension": 3}, GAUSS))
    source = SeededSource(b"walk")
    data = task.prepare(table_of([[0.1, -0.2, 0.3]]))
    payload, added = task.initial(source), np.zeros(3, dtype=np.int64)
    for step in range(1, 51):
        noise = task.draw(source)
        value = task.contribution(payload, data, step) if step % 3 else None
        noise_sum = task.noise_sum(noise, 1, value)
        payload = task.apply(payload, value, noise_sum, step)
        task.validate(payload)
        added += noise_sum if value is None else noise_sum + value
    assert (payload == added).all()


def test_spread_components_are_nested_and_add_up_to_the_full_variance(make_plan: MakePlan) -> None:
    plan = make_plan(MEAN, {**GAUSS, "spread": True}, n=9, topology="ring", length=1)
    task = make_task(plan)
    source = SeededSource(b"spread")
    noise = task.draw(source)
    assert noise.units.shape == (8, 1)
    sums = [int(task.noise_sum(noise, j, None)[0]) for j in range(9)]
    assert sums[0] == 0
    assert np.diff(sums).tolist() == noise.units[:, 0].tolist()
    full = np.array([task.noise_sum(task.draw(source), 8, None)[0] for _ in range(4000)]) * 2.0**-16
    assert abs(full.var() / 4.0 - 1) < 5 * math.sqrt(2 / 4000)  # false alarm below 1e-6


@pytest.mark.parametrize("units", [-1, 2])
def test_noise_that_was_not_drawn_is_never_invented(make_plan: MakePlan, units: int) -> None:
    task = make_task(make_plan(MEAN, GAUSS))
    with pytest.raises(TaskError):
        task.noise_sum(task.draw(SeededSource(b"")), units, None)


def test_laplace_noise_has_its_scale(make_plan: MakePlan) -> None:
    noise = {"mechanism": "laplace", "scale": 3.0, "grid": 2.0**-16}
    task = make_task(make_plan(MEAN, noise, topology="ring"))
    source = SeededSource(b"laplace")
    draws = np.array([task.draw(source).units[0, 0] for _ in range(4000)]) * 2.0**-16
    assert abs(np.abs(draws).mean() / 3.0 - 1) < 5 / math.sqrt(4000)


def test_forwarding_changes_nothing(make_plan: MakePlan) -> None:
    task = make_task(make_plan(MEAN, GAUSS))
    received = np.array([7])
    received.flags.writeable = False  # as it comes out of a message
    assert task.apply(received, None, None, 3).tolist() == [7]


def test_mean_divides_by_the_contributions_that_were_made(make_plan: MakePlan) -> None:
    estimate = make_task(make_plan(MEAN, GAUSS)).finish(np.array([3 << 16]), Tally(contributions=4, cover=0))
    assert estimate["value"] == estimate["mean"] == [0.75]
    assert estimate["sum_over_users"] == [3.75]


def test_sum_is_the_total_in_the_token(make_plan: MakePlan) -> None:
    task = make_task(make_plan({**MEAN, "kind": "sum"}, GAUSS))
    assert task.finish(np.array([3 << 16]), Tally(4, 0))["value"] == [3.0]


def test_no_contribution_gives_no_mean(make_plan: MakePlan) -> None:
    assert make_task(make_plan(MEAN, GAUSS)).finish(np.array([5]), Tally(0, 0))["value"] is None


@pytest.mark.parametrize(
    "payload",
    [np.array([1.0]), np.array([1, 2]), np.array([[1]]), np.array([3 * 2**61 + 1]), np.array([-(2**63)])],
)
def test_a_payload_no_honest_user_sends_is_refused(make_plan: MakePlan, payload: np.ndarray) -> None:
    with pytest.raises(PayloadError):
        make_task(make_plan(MEAN, GAUSS)).validate(payload)


def test_the_largest_token_stays_below_the_limit(make_plan: MakePlan) -> None:
    """A billion steps, all at the bound and all noise at 40 sigma on one side: what headroom counts, recounted."""
    plan = make_plan(MEAN, {"sigma": 1.0, "grid": 2.0**-20}, length=10**9)
    worst = 10**9 * (2**20 + 1) + (10**9 + 1000) * 40 * 2**20
    assert headroom(plan) == pytest.approx(61 - math.log2(worst))
    assert headroom(plan) > 0


def test_headroom_counts_every_component_of_a_spread_noise(make_plan: MakePlan) -> None:
    """100 components of sigma / 10 each, all of one sign, reach ten times as far as one of sigma."""
    plan = make_plan(MEAN, {**GAUSS, "spread": True}, n=101, topology="ring")
    steps, sigma_steps = 100 * 101, 2.0 * 2**16
    worst = steps * (2**16 + 1) + (steps + 1000) * 100 * 40 * sigma_steps / 10
    assert headroom(plan) == pytest.approx(61 - math.log2(worst))


def test_values_go_to_the_nearest_grid_point(make_plan: MakePlan) -> None:
    """Anything else would move a vector by more than the sqrt(d) grid / 2 that the sensitivity allows for."""
    task = make_task(make_plan({"kind": "sum", "dimension": 4, "norm": 9.0}, {"sigma": 2000.0, "grid": 1.0}))
    assert task.prepare(table_of([[0.4, -0.4, 1.6, -1.6]])).rows.tolist() == [[0, 0, 2, -2]]


@pytest.mark.parametrize(
    ("noise", "why"),
    [
        ({"sigma": 1.0}, "noise.grid is missing"),
        ({"sigma": 1.0, "grid": 2.0**-9}, r"2\^10 to 2\^50 grid steps"),
        ({"sigma": 1.0, "grid": 2.0**-51}, r"2\^10 to 2\^50 grid steps"),
        ({"sigma": 1.0, "grid": 2.0**-50}, "could overflow"),
    ],
)
def test_a_grid_that_is_too_coarse_or_too_fine_is_refused(make_plan: MakePlan, noise: dict, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        make_task(make_plan(MEAN, noise))
