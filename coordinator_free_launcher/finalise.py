"""From a plan that states a wish to one that can be run: noise calibrated, grid chosen, saturation excluded.

The grid is public and fixed before anything runs (theory.md 8.4): fine enough that discrete noise behaves like the
continuous one in every formula and that rounding the data costs next to nothing, coarse enough that a token of
64-bit integers can never overflow.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from network_dp.plan import CustomTask, HistogramTask, Noise, Plan, PlanError, SgdTask, SumTask

#: One noise component is at least this many grid steps when the grid is chosen here ...
CHOSEN_STEPS: Final = 2.0**12
#: ... and at least this many when the plan brings its own grid (below it the Gaussian formulas stop to hold).
LEAST_STEPS: Final = 2.0**10
#: Rounding data to the grid may add this much to the sensitivity, relatively.
ROUNDING: Final = 2.0**-10
SGD_STEPS: Final = 2.0**40
TOKEN_LIMIT: Final = 2.0**62
#: No discrete Gaussian or Laplace draw is further out in the life of any plan (Laplace: probability e^-40 a draw).
TAIL: Final = 40.0


def finalise(plan: Plan) -> Plan:
    """The plan with its noise calibrated (if it only names a target), its grid chosen and its range checked.

    Changes nothing in a plan that is already final.
    """
    if plan.noise.mechanism == "rr":
        return replace(plan, noise=replace(_calibrated(plan).noise, grid=1.0))
    given = plan.noise.grid
    chosen = plan if plan.noise.calibrated else _calibrated(plan)
    if given is None:
        chosen = _with_grid(chosen, _choose_grid(chosen))
        # The grid widens the bounds by up to two steps: calibrate again, now for the sensitivity that will be used.
        # Noise only grows by it, so the grid stays fine enough.
        if not plan.noise.calibrated:
            chosen = _calibrated(_with_grid(plan, chosen.noise.grid))
    check_grid(chosen)
    return chosen


def _with_grid(plan: Plan, grid: float | None) -> Plan:
    return replace(plan, noise=replace(plan.noise, grid=grid))


def _calibrated(plan: Plan) -> Plan:
    """The least noise that meets the plan's target for ``min_live`` users."""
    if plan.noise.calibrated:
        return plan
    from network_dp import calibrate  # type: ignore[attr-defined]  # lazily: the accountant is heavy

    noise: Noise = calibrate.noise(plan)
    return replace(plan, noise=noise)


def component(plan: Plan) -> float:
    """Size of one noise component in data units: a Gaussian's standard deviation, Laplace's scale."""
    if plan.noise.mechanism == "laplace":
        assert plan.noise.scale is not None
        return plan.noise.scale
    return plan.unit_sigma


def power_of_two_below(value: float) -> float:
    """The largest power of two that is at most ``value``."""
    power = math.ldexp(1.0, math.frexp(value)[1] - 1) if value > 0.0 and math.isfinite(value) else 0.0
    if power == 0.0:
        raise PlanError(f"noise: a component of {value:g} has no usable grid; give a noise of ordinary size")
    return power


def _choose_grid(plan: Plan) -> float:
    size, task = component(plan), plan.task
    if isinstance(task, SgdTask):
        return power_of_two_below(size / SGD_STEPS)
    steps = size / CHOSEN_STEPS
    ungridded = _with_grid(plan, None)
    match task:
        case HistogramTask():  # counts are whole numbers: they must lie on the grid
            finest = 1.0
        case SumTask(norm=None):  # each bound moves outwards by less than one step
            finest = (task.upper - task.lower) / 2.0 * ROUNDING
        case SumTask() | CustomTask():  # a rounded vector moves by at most sqrt(d)/2 steps
            finest = ungridded.sensitivity / math.sqrt(task.dimension) * ROUNDING
    return power_of_two_below(min(steps, finest))


def _largest_value(plan: Plan) -> float:
    """The largest size of one coordinate of one contribution, without noise."""
    task = plan.task
    match task:
        case SumTask():
            return task.norm if task.norm is not None else max(abs(task.lower), abs(task.upper))
        case HistogramTask():
            return 1.0
        case SgdTask():
            return task.lipschitz
        case CustomTask():  # its values are its own; the sensitivity is the one public number about them
            return task.sensitivity


def check_grid(plan: Plan) -> None:
    """``PlanError`` unless the grid is fine enough for the noise and coarse enough for a 64-bit token."""
    grid, size = plan.noise.grid, component(plan)
    assert grid is not None
    if size < LEAST_STEPS * grid:
        raise PlanError(
            f"noise.grid = {grid!r}: one noise component ({size:g}) must be at least {LEAST_STEPS:g} grid steps; "
            f"use {power_of_two_below(size / CHOSEN_STEPS)!r} or leave the key out"
        )
    if isinstance(plan.task, SgdTask):
        return  # float64 token: nothing to saturate
    if isinstance(plan.task, HistogramTask) and grid > 1.0:
        raise PlanError(f"noise.grid = {grid!r}: counts are whole numbers, use 1.0 or less")
    full = size * math.sqrt(plan.unit_count)
    reach = plan.total_steps * (_largest_value(plan) + TAIL * full) / grid
    if reach >= TOKEN_LIMIT:
        raise PlanError(
            f"noise.grid = {grid!r}: after {plan.total_steps:,} steps a token could reach 2^{math.log2(reach):.0f} "
            "grid steps, 2^62 is the most; use narrower bounds, fewer steps, more noise or a coarser grid"
        )
