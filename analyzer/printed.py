"""What the paper's own theorems would state for a plan: shown to compare, and no verdict looks at it (theory.md 9)."""

from __future__ import annotations

import math

from analyzer.responses import response_of
from network_dp import printed
from network_dp.plan import Plan, SgdTask


def printed_epsilon(plan: Plan, delta: float) -> float | None:
    """The paper's theorem at ``delta`` (its deltas split evenly); None where it has none or its number is too large."""
    try:
        if plan.noise.mechanism == "rr":
            return _responses(plan, delta)
        return _gaussian(plan, delta) if plan.noise.mechanism == "gaussian" else None
    except OverflowError:
        return None


def _responses(plan: Plan, delta: float) -> float:
    """Thm 2, its gamma solved for eps as printed, and its analogue on the complete graph."""
    single, walk = response_of(plan).epsilon, plan.walk
    if walk.topology == "ring":
        rounds = walk.rounds or 1
        epsilon = single * math.sqrt(plan.n / math.log(2 * rounds / delta)) / 12
        return printed.theorem_2(rounds, epsilon, delta / (2 * rounds), delta / 2).epsilon
    part = delta / (3 * _cycles(plan, delta))
    return printed.theorem_3_histogram(plan.n, plan.total_steps, single, part, delta / 3, delta / 3).epsilon


def _cycles(plan: Plan, delta: float) -> float:
    return printed.visits(plan.n, plan.total_steps, delta / 3) + plan.total_steps / plan.n


def _gaussian(plan: Plan, delta: float) -> float | None:
    sigma, walk = plan.noise.sigma, plan.walk
    assert sigma is not None
    if isinstance(plan.task, SgdTask):
        if walk.topology == "ring":
            return None
        most = printed.visits(plan.n, plan.total_steps, delta / 2)
        return printed.theorem_4_numeric(sigma, plan.task.lipschitz, most, plan.n, delta / 2)
    if walk.topology == "ring":
        rounds = walk.rounds or 1
        single = math.sqrt(2 * math.log(1.25 * 2 * rounds / delta)) * plan.sensitivity / sigma
        return printed.theorem_1(rounds, single, delta / (2 * rounds), delta / 2).epsilon
    cycles = _cycles(plan, delta)
    single = math.sqrt(2 * math.log(1.25 * 3 * cycles / delta)) * plan.sensitivity / sigma
    return printed.theorem_3(plan.n, plan.total_steps, single, delta / (3 * cycles), delta / 3, delta / 3).epsilon
