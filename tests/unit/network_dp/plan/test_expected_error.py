"""The expected error a plan states: noise over the contributions that will really be made, caps and norms included."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from network_dp.expected import expected_contributions, expected_error
from network_dp.plan import Plan
from network_dp.plan_reader import from_dict
from network_dp.utility import mean_std
from tests.unit.network_dp.plan.plans import users


def _plan(walk: dict[str, Any], caps: dict[str, Any], *, n: int = 4, **parts: Any) -> Plan:
    values = {"walk": walk, "caps": caps, "task": {"kind": "mean"}, "noise": {"sigma": 2.0}, "users": users(n)}
    return from_dict(values | parts)


@pytest.mark.parametrize("cap", [1, 3, 30, 500, None])
def test_a_capped_mean_divides_by_the_contributions_that_are_made(cap: int | None) -> None:
    """Against the accountant's own formula, which may use scipy."""
    plan = _plan({"topology": "complete", "steps": 120}, {} if cap is None else {"contributions": cap})
    wanted = mean_std(2.0, topology="complete", n_users=4, n_steps=120, released=True, value_std=0.5, cap=cap)
    assert expected_error(plan) == pytest.approx(wanted, rel=1e-9)


def test_a_capped_ring_divides_by_the_contributions_that_are_made() -> None:
    free = expected_error(_plan({"topology": "ring", "rounds": 6}, {}))
    capped = expected_error(_plan({"topology": "ring", "rounds": 6}, {"contributions": 2}))
    assert free is not None and capped == pytest.approx(3 * free)


def test_expected_contributions_under_an_edge_cap_match_simulated_walks() -> None:
    n, steps, cap = 4, 60, 2
    plan = _plan({"topology": "complete", "steps": steps}, {"edge": cap})
    walks = np.random.default_rng(7).integers(0, n, (4000, steps + 1))
    edges = walks[:, :-1] * n + walks[:, 1:]
    used = np.stack([(edges == edge).sum(axis=1) for edge in range(n * n)])
    own = np.arange(n * n) % (n + 1) == 0
    made = used[own].sum(axis=0) + np.minimum(used[~own], cap).sum(axis=0)
    standard_error = made.std() / math.sqrt(len(made))
    assert abs(expected_contributions(plan) - made.mean()) < 5 * standard_error  # false alarm 6e-7


def test_forwarding_users_add_no_noise() -> None:
    walk, cap = {"topology": "complete", "steps": 400}, {"contributions": 1}
    local = {"sigma": 2.0, "against": "local"}
    forward = expected_error(_plan(walk, {**cap, "past": "forward"}, noise=local))
    noisy = expected_error(_plan(walk, cap, noise=local))
    assert forward == pytest.approx(math.hypot(2.0, 0.5) / 2.0)  # 4 contributions of 4 users
    assert noisy is not None and noisy > 5 * (forward or 0.0)


def test_a_norm_bounds_the_spread_of_the_values_in_place_of_the_box() -> None:
    walk = {"topology": "complete", "steps": 100}
    boxed = _plan(walk, {}, task={"kind": "mean", "lower": -3.0, "upper": 3.0}, noise={"sigma": 1e-3})
    normed = _plan(walk, {}, task={"kind": "mean", "norm": 3.0}, noise={"sigma": 1e-3})
    assert expected_error(normed) == pytest.approx(expected_error(boxed))


def test_a_long_walk_is_computed_in_no_time() -> None:
    plan = _plan({"topology": "complete", "steps": 10**9}, {"contributions": 10**8}, n=10)
    assert expected_contributions(plan) == pytest.approx(1e9, rel=1e-3)
