"""Fixed point: how numbers become integers on the public grid, and why they can never overflow (THEORY.md#grid)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from network_dp.plan import CustomTask, HistogramTask, Plan, PlanError, SgdTask, SumTask

SIGMA_STEPS_MIN = 1 << 10  # the Gaussian formulas hold from here on (THEORY.md#grid)
SIGMA_STEPS_MAX = 1 << 50  # the sampler's reach
PAYLOAD_LIMIT = 3 << 61  # a coordinate beyond it is no sum of honest users' numbers, nor can it be computed with
ADDITION_LIMIT = 1 << 61  # most that one visit may add, so that received + added fits int64
REISSUES_MAX = 1000  # full noises that recoveries may add to one run
# Deviations that one noise component exceeds with probability below 2^-1000: exp(-40^2/2), exp(-700).
GAUSSIAN_REACH, LAPLACE_REACH = 40, 700


def grid_of(plan: Plan) -> float:
    """The step of the plan's grid; randomised response counts in ones."""
    if plan.noise.mechanism == "rr":
        return 1.0
    if plan.noise.grid is None:
        raise PlanError("noise.grid is missing: provisioning must choose it before a run")
    return plan.noise.grid


def unit_scale(plan: Plan) -> Fraction:
    """The scale of one noise component (sigma, or Laplace's b) in grid steps, exactly as the sampler takes it."""
    size = plan.noise.scale if plan.noise.mechanism == "laplace" else plan.unit_sigma
    if size is None:
        raise PlanError("noise.scale is missing: provisioning must compute it before a run")
    return Fraction(size) / Fraction(grid_of(plan))


def coordinate_bound(plan: Plan) -> float:
    """The largest absolute value of one coordinate of one contribution, in data units."""
    match plan.task:
        case SumTask(norm=None) as task:
            return max(abs(task.lower), abs(task.upper))
        case SumTask() as task:
            return cast(float, task.norm)
        case CustomTask() as task:
            return task.sensitivity
        case HistogramTask():
            return 1.0
        case SgdTask():
            raise PlanError('task.kind = "sgd": an SGD token is not on a grid')


def headroom(plan: Plan) -> float:
    """Bits left between the largest token that can occur and the limit of int64: it cannot saturate while above 0.

    Counts every step as a contribution at its bound, every noise component of every step at its reach (exceeded
    with probability below 2^-1000 each), all of one sign, and `REISSUES_MAX` recoveries.
    """
    steps = plan.total_steps
    if plan.noise.mechanism == "rr":
        most = Fraction(3 * steps + 2 * plan.n)
    else:
        reach = LAPLACE_REACH if plan.noise.mechanism == "laplace" else GAUSSIAN_REACH
        bound = Fraction(coordinate_bound(plan)) / Fraction(grid_of(plan)) + 1
        most = steps * bound + (steps + REISSUES_MAX) * plan.unit_count * reach * unit_scale(plan)
    return math.log2(ADDITION_LIMIT) - math.log2(most)


def check_grid(plan: Plan) -> None:
    """Raise PlanError unless the noise is fine enough for the theory and the token can never saturate."""
    if plan.noise.mechanism == "gaussian" and not SIGMA_STEPS_MIN <= unit_scale(plan) <= SIGMA_STEPS_MAX:
        raise PlanError(
            f"noise.grid = {grid_of(plan):g}: one noise component must be from 2^10 to 2^50 grid steps, "
            f"it is {float(unit_scale(plan)):g} (sigma of a component: {plan.unit_sigma:g})"
        )
    if headroom(plan) <= 0:
        raise PlanError(
            f"noise.grid = {grid_of(plan):g}: too fine, the token could overflow; take a larger power of two"
        )


def to_grid(values: NDArray[np.float64], grid: float) -> NDArray[np.int64]:
    """The nearest grid points; division by a power of two is exact, so only the rounding rounds."""
    return np.rint(values / grid).astype(np.int64)
