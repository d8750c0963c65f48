"""A finished plan: calibrated, gridded, unable to saturate."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_free_launcher.identity.finalise import NOISE_STEPS, finalise, power_of_two_below
from network_dp.plan import Plan, PlanError

COMPLETE = {"topology": "complete", "steps": 1000}


def grid_of(plan: Plan) -> float:
    grid = finalise(plan).noise.grid
    assert grid is not None
    return grid


@given(st.floats(1e-300, 1e300))
def test_the_power_of_two_below_is_the_largest(value: float) -> None:
    power = power_of_two_below(value)
    assert math.frexp(power)[0] == 0.5
    assert power <= value < 2.0 * power


@pytest.mark.parametrize("sigma", [1e-3, 0.7, 1.0, 33.0])
def test_the_grid_is_the_coarsest_that_noise_and_bounds_allow(make_plan: Any, sigma: float) -> None:
    grid = grid_of(make_plan(noise={"sigma": sigma}))
    finest = min(sigma / NOISE_STEPS, 2.0**-11)
    assert grid <= finest < 2.0 * grid


def test_a_spread_ring_counts_the_steps_of_one_share(make_plan: Any) -> None:
    plan = finalise(make_plan(17, noise={"sigma": 0.25, "spread": True}))
    assert plan.unit_size == 0.25 / 4
    assert plan.noise.grid == 2.0**-4 / NOISE_STEPS


def test_laplace_counts_the_steps_of_its_scale(make_plan: Any) -> None:
    plan = finalise(make_plan(noise={"mechanism": "laplace", "scale": 0.125}))
    assert plan.unit_size == 0.125
    assert plan.noise.grid == 0.125 / NOISE_STEPS


def test_much_noise_does_not_blur_the_data(make_plan: Any) -> None:
    """Noise far above the bounds: rounding still moves the sensitivity by a thousandth at most."""
    plan = finalise(make_plan(noise={"sigma": 1e9}, task={"kind": "mean", "lower": 0.1, "upper": 0.3}))
    assert 0.2 <= plan.sensitivity <= 0.2 * (1.0 + 2.0**-10)


def test_a_long_vector_is_rounded_finely_enough(make_plan: Any) -> None:
    plan = finalise(make_plan(task={"kind": "sum", "dimension": 10**6, "norm": 1.0}))
    assert 2.0 < plan.sensitivity <= 2.0 * (1.0 + 2.0**-10)


def test_counts_lie_on_the_grid_of_a_gaussian_histogram(make_plan: Any) -> None:
    task = {"kind": "histogram", "buckets": 4}
    assert grid_of(make_plan(task=task, noise={"mechanism": "gaussian", "sigma": 1e6})) == 1.0
    with pytest.raises(PlanError, match="whole numbers"):
        finalise(make_plan(task=task, noise={"mechanism": "gaussian", "sigma": 1e6, "grid": 2.0}))


def test_randomised_response_counts_in_ones(make_plan: Any) -> None:
    assert grid_of(make_plan(task={"kind": "histogram", "buckets": 4}, noise={"gamma": 0.3})) == 1.0


def test_an_sgd_gradient_has_forty_bits_below_its_noise(make_plan: Any) -> None:
    task = {"kind": "sgd", "features": 3, "step_size": 1.0}
    assert grid_of(make_plan(walk=COMPLETE, task=task, noise={"sigma": 1.5})) == 2.0**-40


def test_a_given_grid_is_kept_or_refused(make_plan: Any) -> None:
    assert grid_of(make_plan(noise={"sigma": 1.0, "grid": 2.0**-10})) == 2.0**-10
    with pytest.raises(PlanError, match=r"noise\.grid = 0\.00195312: .*2\^10"):
        finalise(make_plan(noise={"sigma": 1.0, "grid": 2.0**-9}))


def test_a_token_that_could_saturate_is_refused(make_plan: Any) -> None:
    with pytest.raises(PlanError, match="overflow"):
        finalise(make_plan(noise={"sigma": 1e-9}, task={"kind": "sum", "lower": -1e9, "upper": 1e9}))
    with pytest.raises(PlanError, match="overflow"):
        finalise(make_plan(noise={"sigma": 1.0, "grid": 2.0**-50}, walk={"topology": "complete", "steps": 1000}))


@given(
    sigma=st.floats(1e-12, 1e12),
    size=st.floats(1e-9, 1e9),
    steps=st.integers(1, 10**9),
    dimension=st.sampled_from([1, 7, 10**4]),
)
def test_a_finished_plan_never_saturates_and_finishing_again_changes_nothing(
    make_plan: Any, sigma: float, size: float, steps: int, dimension: int
) -> None:
    task = {"kind": "sum", "lower": -size, "upper": size, "dimension": dimension}
    try:
        plan = finalise(make_plan(walk={"topology": "complete", "steps": steps}, noise={"sigma": sigma}, task=task))
    except PlanError:
        return
    assert plan.noise.grid is not None
    assert steps * (size + 40.0 * sigma) / plan.noise.grid < 2.0**62
    assert sigma / plan.noise.grid >= NOISE_STEPS
    assert finalise(plan) == plan
