"""What a hidden path and a masked sum promise, and that calibration is the inverse of it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from coordinator_free_launcher.identity.finalise import finalise
from network_dp import hidden
from network_dp.accounting import bounds
from network_dp.expected import expected_error
from network_dp.plan import Plan
from network_dp.plan_reader import from_dict
from network_dp.promise import aim, local_epsilon, promised_epsilon


def plan_of(walk: dict[str, Any], rounds: dict[str, Any], task: dict[str, Any] | None = None, **noise: Any) -> Plan:
    users = [{"name": f"u{i}", "address": f"h:{i + 1}"} for i in range(20)]
    return from_dict(
        {
            "walk": {"topology": "complete", "min_live": 18, **walk},
            "task": task or {"kind": "mean"},
            "noise": noise or {"sigma": 4.0, "grid": 2.0**-12},
            "rounds": rounds,
            "users": users,
        }
    )


HIDDEN, MASKED = {"path": "hidden", "steps": 60}, {"protocol": "masked_sum"}


@pytest.mark.parametrize(("walk", "rounds"), [(HIDDEN, {"known_steps": 1}), (MASKED, {"attempts": 3})])
def test_calibration_is_the_inverse_of_the_promise(walk: dict[str, Any], rounds: dict[str, Any]) -> None:
    plan = finalise(plan_of(walk, rounds, epsilon=1.0, delta=1e-6))
    promised = promised_epsilon(plan)
    assert promised is not None and 0.999 < promised <= 1.0


def test_a_hidden_path_subsamples_among_the_honest_of_the_least_attendance() -> None:
    plan = plan_of(HIDDEN, {"colluders": 3})
    rate = hidden.epsilon(18, 60, plan.sensitivity / 4.0, aim(plan), 3)
    assert promised_epsilon(plan) == promised_epsilon(plan, 3) == rate
    assert promised_epsilon(plan, 4) is None


def test_known_steps_cost_at_least_their_own_gaussian() -> None:
    none, two = plan_of(HIDDEN, {}), plan_of(HIDDEN, {"known_steps": 2})
    alone = bounds.exposure_epsilon(2.0, 4.0, two.sensitivity, aim(two))
    both, hidden_only = promised_epsilon(two), promised_epsilon(none)
    assert both is not None and hidden_only is not None
    assert max(alone, hidden_only) < both < alone + hidden_only + 1.0


def test_a_masked_sum_costs_one_noise_an_attempt_and_its_shares_are_small() -> None:
    plan = plan_of(MASKED, {"attempts": 2, "colluders": 2})
    assert plan.unit_count == 16 and plan.unit_size == pytest.approx(4.0 / 4)
    assert promised_epsilon(plan) == bounds.exposure_epsilon(2.0, 4.0, plan.sensitivity, aim(plan))
    alone = bounds.exposure_epsilon(2.0 * 16, 4.0, plan.sensitivity, aim(plan))
    assert local_epsilon(plan, 2) == pytest.approx(alone)
    assert expected_error(plan) == pytest.approx(4.0 * math.sqrt(20 / 16) / 20)


def test_a_hidden_path_needs_no_contraction() -> None:
    sgd = {"kind": "sgd", "features": 3, "step_size": 1.0, "schedule": "inverse_sqrt"}
    promised = promised_epsilon(plan_of(HIDDEN, {}, sgd, sigma=8.0))
    assert promised is not None and math.isfinite(promised)
