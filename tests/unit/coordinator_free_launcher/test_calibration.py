"""A target becomes a size of noise that meets it, by the valid bounds, and no calculation is done where none exists."""

from __future__ import annotations

import math
from typing import Any

import pytest

from coordinator_free_launcher.identity.finalise import finalise
from network_dp.accounting import bounds
from network_dp.plan import Plan, PlanError

TARGET = {"epsilon": 1.0, "delta": 1e-6}
COMPLETE = {"topology": "complete", "steps": 60, "min_live": 18}
SGD = {"kind": "sgd", "features": 3, "step_size": 1.0}


def sigma_of(plan: Plan) -> float:
    assert plan.noise.sigma is not None
    return plan.noise.sigma


@pytest.mark.parametrize("task", [{"kind": "mean", "lower": 0.1, "upper": 0.3}, SGD])
def test_a_complete_walk_meets_its_target_for_the_least_number_alive(make_plan: Any, task: dict[str, Any]) -> None:
    plan = finalise(make_plan(20, walk=COMPLETE, task=task, noise=TARGET))
    kind = "sgd" if task is SGD else "sum"
    reached = bounds.network_epsilon(kind, 18, 60, sigma_of(plan), plan.sensitivity, 1e-6, True)  # type: ignore[arg-type]
    assert 0.99 < reached <= 1.0


def test_a_ring_meets_its_target_with_the_sensitivity_of_its_grid(make_plan: Any) -> None:
    plan = finalise(make_plan(task={"kind": "mean", "lower": 0.1, "upper": 0.3}, noise=TARGET))
    assert plan.sensitivity > 0.2  # the bounds are not on the grid: widened
    reached = bounds.ring_epsilon(2, sigma_of(plan), plan.sensitivity, 1e-6, reissues=1)
    assert 0.999 < reached <= 1.0


def test_finishing_a_calibrated_plan_again_changes_nothing(make_plan: Any) -> None:
    plan = finalise(make_plan(noise=TARGET))
    assert finalise(plan) == plan


def test_laplace_composes_its_rounds_and_its_reissue(make_plan: Any) -> None:
    noise = {"mechanism": "laplace", "epsilon": 2.0}
    plan = finalise(make_plan(walk={"topology": "ring", "rounds": 4}, noise=noise, task={"kind": "sum", "upper": 9.0}))
    assert plan.noise.scale == pytest.approx((4 + 1) * 9 / 2.0, rel=1e-9)
    assert plan.noise.scale * 2.0 >= (4 + 1) * 9


def test_local_calibration_counts_capped_contributions(make_plan: Any) -> None:
    noise = TARGET | {"against": "local"}
    plan = finalise(make_plan(20, walk=COMPLETE, noise=noise, caps={"contributions": 5}))
    assert 0.999 < bounds.local_epsilon(5, sigma_of(plan), plan.sensitivity, 1e-6) <= 1.0
    with pytest.raises(PlanError, match=r"caps\.contributions"):
        finalise(make_plan(20, walk=COMPLETE, noise=noise))


def test_a_ring_without_spread_noise_has_no_local_guarantee(make_plan: Any) -> None:
    for noise in ({"against": "local"}, {"against": "local", "mechanism": "laplace"}):
        with pytest.raises(PlanError, match="no local guarantee"):
            finalise(make_plan(noise=TARGET | noise))
    spread = finalise(make_plan(5, noise=TARGET | {"against": "local", "spread": True}))
    assert 0.999 < bounds.local_epsilon((2 + 1) * 4, sigma_of(spread), spread.sensitivity, 1e-6) <= 1.0


def test_sgd_on_a_ring_is_local_with_one_noise_a_round(make_plan: Any) -> None:
    plan = finalise(make_plan(task=SGD, noise=TARGET | {"against": "local"}))
    assert 0.999 < bounds.local_epsilon(2 + 1, sigma_of(plan), plan.sensitivity, 1e-6) <= 1.0


def test_a_varying_step_size_is_not_calibrated_by_the_bound_for_a_constant_one(make_plan: Any) -> None:
    with pytest.raises(PlanError, match=r"task\.schedule"):
        finalise(make_plan(20, walk=COMPLETE, task=SGD | {"schedule": "inverse_sqrt"}, noise=TARGET))


def test_local_randomised_response_splits_its_budget(make_plan: Any) -> None:
    plan = finalise(make_plan(task={"kind": "histogram", "buckets": 4}, noise=TARGET | {"against": "local"}))
    assert plan.noise.gamma == pytest.approx(4 / (math.exp(1 / 3) + 3))  # 2 rounds and a re-issue


def test_network_randomised_response_lies_less_than_local(make_plan: Any) -> None:
    walk = {"topology": "ring", "rounds": 1, "min_live": 60}
    task = {"kind": "histogram", "buckets": 4}
    network = finalise(make_plan(60, walk=walk, task=task, noise=TARGET))
    local = finalise(make_plan(60, walk=walk, task=task, noise=TARGET | {"against": "local"}))
    assert network.noise.gamma is not None and local.noise.gamma is not None
    assert network.noise.gamma < local.noise.gamma
