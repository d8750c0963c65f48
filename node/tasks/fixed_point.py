"""Fixed point: how numbers become integers on the public grid, and why they can never overflow (THEORY.md#grid)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from network_dp.plan import Plan, PlanError

PAYLOAD_LIMIT = 3 << 61  # a coordinate beyond it is no sum of honest users' numbers, nor can it be computed with
ADDITION_LIMIT = 1 << 61  # most that one visit may add, so that received + added fits int64
REISSUES_MAX = 1000  # full noises that recoveries may add to one run


def grid_of(plan: Plan) -> float:
    """The step of the plan's grid; randomised response counts in ones."""
    if plan.mechanism.fixed_grid is not None:
        return plan.mechanism.fixed_grid
    if plan.noise.grid is None:
        raise PlanError("noise.grid is missing: provisioning must choose it before a run")
    return plan.noise.grid


def unit_scale(plan: Plan) -> Fraction:
    """The scale of one noise component (sigma, or Laplace's b) in grid steps, exactly as the sampler takes it."""
    if not plan.noise.calibrated:
        raise PlanError(f"noise.{plan.mechanism.size_key} is missing: provisioning must compute it before a run")
    return Fraction(plan.unit_size) / Fraction(grid_of(plan))


def headroom(plan: Plan) -> float:
    """Bits left between the largest token that can occur and the limit of int64: it cannot saturate while above 0.

    Counts every step as a contribution at its bound, every noise component of every step at its reach (exceeded
    with probability below 2^-1000 each), all of one sign, and `REISSUES_MAX` recoveries.
    """
    steps = plan.n if plan.in_one_round else plan.total_steps
    bound = Fraction(plan.task.coordinate_bound) / Fraction(grid_of(plan)) + 1
    components = (steps + REISSUES_MAX) * plan.unit_count
    most = plan.mechanism.largest_token(steps, plan.n, bound, components, unit_scale(plan))
    return math.log2(ADDITION_LIMIT) - math.log2(most)


def check_grid(plan: Plan) -> None:
    """Raise PlanError unless the noise is fine enough for the theory and the token can never saturate."""
    least, most = plan.mechanism.steps_allowed
    if not least <= unit_scale(plan) <= most:
        raise PlanError(
            f"noise.grid = {grid_of(plan):g}: one noise component must be from 2^10 to 2^50 grid steps, "
            f"it is {float(unit_scale(plan)):g} (sigma of a component: {plan.unit_size:g})"
        )
    if headroom(plan) <= 0:
        raise PlanError(
            f"noise.grid = {grid_of(plan):g}: too fine, the token could overflow; take a larger power of two"
        )


def to_grid(values: NDArray[np.float64], grid: float) -> NDArray[np.int64]:
    """The nearest grid points; division by a power of two is exact, so only the rounding rounds."""
    return np.rint(values / grid).astype(np.int64)
