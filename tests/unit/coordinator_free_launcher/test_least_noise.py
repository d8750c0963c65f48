"""Calibration and promise are inverses, by the tightest bound, which is named."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coordinator_free_launcher.cli.promise import promises
from coordinator_free_launcher.identity.finalise import finalise
from network_dp.accounting import bounds, gaussian
from network_dp.accounting.profile import epsilon as profile_epsilon
from network_dp.plan import Plan
from network_dp.promise import local_epsilon, promised, promised_epsilon, walk_law

TARGET = {"epsilon": 1.0, "delta": 1e-6}
WALK = {"topology": "complete", "steps": 120, "min_live": 18}
SGD = {"kind": "sgd", "features": 3, "step_size": 1.0}
MEAN = {"kind": "mean", "upper": 2.0}


def with_noise(plan: Plan, factor: float) -> Plan:
    assert plan.noise.sigma is not None
    return replace(plan, noise=replace(plan.noise, sigma=plan.noise.sigma * factor))


@pytest.mark.parametrize("task", [SGD, MEAN], ids=["sgd", "mean"])
def test_calibrated_noise_is_the_least_that_keeps_the_promise(make_plan: Any, task: dict[str, Any]) -> None:
    plan = finalise(make_plan(20, walk=WALK, task=task, noise=TARGET))
    found = promised(plan)
    assert found.bound == bounds.PROFILE
    assert found.epsilon is not None and 0.999 < found.epsilon <= 1.0
    less = promised_epsilon(with_noise(plan, 0.999))
    assert less is not None and less > 1.0
    by_renyi = promised_epsilon(plan, accountant="renyi")
    assert by_renyi is not None and by_renyi > 1.05  # what the noise would have had to cover before


def test_a_plan_check_names_its_bound(make_plan: Any) -> None:
    plan = finalise(make_plan(20, walk=WALK, task=MEAN, noise=TARGET))
    assert bounds.PROFILE in promises(plan)[0].note
    ring = finalise(make_plan(5, noise=TARGET))
    assert "exact" in promises(ring)[0].note


@pytest.mark.parametrize("colluders", [2, 3])
def test_a_spread_ring_promises_its_shares_against_colluders(make_plan: Any, colluders: int) -> None:
    """Two users around a third: K contributions, each under one share of n - 1. A ring of whole noises: nothing."""
    spread = finalise(make_plan(5, noise=TARGET | {"spread": True}))
    assert spread.noise.sigma is not None
    found, mu = promised_epsilon(spread, colluders), math.sqrt(3 * 4) * spread.sensitivity / spread.noise.sigma
    assert found == pytest.approx(gaussian.epsilon(mu, 1e-6), rel=1e-4)  # 2 rounds and a re-issue, shares of 1/4
    assert found == pytest.approx(local_epsilon(spread, 3), rel=1e-12)
    assert promised_epsilon(finalise(make_plan(5, noise=TARGET)), colluders) is None


def test_a_walk_too_long_for_a_profile_falls_back_to_renyi() -> None:
    size = (1000, 10**6, 30.0, 1.0, 1e-6)
    found = bounds.network_bound("sgd", *size)
    assert found.name == bounds.RENYI
    assert found.epsilon == bounds.network_epsilon("sgd", *size, accountant="renyi")


def test_a_delta_below_the_resolution_of_the_profile_falls_back_to_renyi() -> None:
    found = bounds.network_bound("sum", 20, 200, 10.0, 1.0, 1e-12)
    assert found.name == bounds.RENYI and found.epsilon < np.inf


def test_the_profile_of_a_sum_covers_simulated_walks_far_in_the_tail(make_plan: Any) -> None:
    """The law of c^2/m has a heavy tail (v, u, v in a row): where Renyi moments lose most, so look there.

    Simulated cycle by cycle: delta at the profile's epsilon is at most the delta asked for, but for five standard
    errors."""
    n, steps, sigma, delta, walks = 30, 90, 6.0, 2e-4, 150_000
    plan = make_plan(n, walk={"topology": "complete", "steps": steps, "min_live": n, "release": "holder"}, noise=TARGET)
    law = walk_law(plan)
    assert law is not None
    found = profile_epsilon(law, sigma, 1.0, delta)
    rng = np.random.default_rng(7)
    lengths = rng.geometric(1 / n, size=(walks, 16))  # v comes back after so many steps
    ended = np.cumsum(lengths, axis=1) <= steps
    mine = rng.binomial(lengths - 1, 1 / (n - 1))
    exposures = np.where(ended, mine**2 / np.maximum(lengths - 1, 1), 0.0).sum(axis=1)
    deltas = gaussian.deltas(np.sqrt(exposures) / sigma, found)
    assert deltas.mean() - 5 * deltas.std() / np.sqrt(walks) <= delta
    assert deltas.mean() > delta / 3  # and not far above what is true
    renyi = bounds.network_epsilon("sum", n, steps, sigma, 1.0, delta, accountant="renyi")
    assert found < renyi
