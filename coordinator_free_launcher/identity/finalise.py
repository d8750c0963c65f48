"""From a plan that states a wish to one that can be run: noise calibrated, grid chosen, saturation excluded.

The grid is public and fixed before anything runs (THEORY.md#grid): fine enough that discrete noise behaves like the
continuous one in every formula and that rounding the data costs next to nothing, coarse enough that a token of
64-bit integers can never overflow.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from network_dp.plan import Plan, PlanError
from node.tasks.fixed_point import check_grid

#: One noise component is at least this many grid steps (the formulas hold from 2^10 on) ...
NOISE_STEPS: Final = 2.0**12
#: ... and a gradient is rounded far below its noise: an SGD token is float64, nothing can saturate.
SGD_STEPS: Final = 2.0**40
#: An epsilon is met if it is exceeded by no more than this, relatively: what rounding may do.
MET: Final = 1e-6


def finalise(plan: Plan) -> Plan:
    """The plan with its noise calibrated (if it only names a target), its grid chosen and its range checked.

    Changes nothing in a plan that is already final; refuses noise that does not give the epsilon the plan names.
    """
    if plan.mechanism.fixed_grid is not None:
        final = _with_grid(_calibrated(plan), plan.mechanism.fixed_grid)
    elif plan.noise.grid is not None:
        final = _calibrated(plan)
    else:
        # The grid widens the bounds by up to two steps, so what is calibrated here is calibrated again for the
        # sensitivity that will be used. The noise only grows by it: the grid stays fine enough.
        final = _calibrated(_with_grid(plan, _choose_grid(_calibrated(plan))))
    plan.task.check_grid(final.noise.grid or 1.0)
    if plan.task.additive:
        check_grid(final)
    if plan.noise.calibrated:
        _check_target(final)
    return final


def _check_target(plan: Plan) -> None:
    """A plan that names both its noise and an epsilon must mean the same by them."""
    target = plan.noise.epsilon
    if target is None:
        return
    from network_dp.promise import reached_epsilon

    reached = reached_epsilon(plan)
    if reached is None or reached > target * (1 + MET):
        key, size = plan.mechanism.size_key, plan.mechanism.size
        gives = "no epsilon that is known" if reached is None else f"epsilon {reached:.4g}"
        raise PlanError(
            f"noise.{key} = {size:g}: gives {gives} of {plan.noise.against} DP, not noise.epsilon = {target:g}; "
            f"leave noise.{key} out and it is computed, or take noise.epsilon out"
        )


def _with_grid(plan: Plan, grid: float) -> Plan:
    return replace(plan, noise=replace(plan.noise, grid=grid))


def _calibrated(plan: Plan) -> Plan:
    if plan.noise.calibrated:
        return plan
    from network_dp.calibrate import calibrated_noise  # the accountant is heavy: only when needed

    return replace(plan, noise=calibrated_noise(plan))


def power_of_two_below(value: float) -> float:
    """The largest power of two that is at most ``value``."""
    power = math.ldexp(1.0, math.frexp(value)[1] - 1) if value > 0.0 and math.isfinite(value) else 0.0
    if power == 0.0:
        raise PlanError(f"noise: a component of {value:g} has no usable grid; give a noise of ordinary size")
    return power


def _choose_grid(plan: Plan) -> float:
    """The largest power of two that noise and bounds allow."""
    if not plan.task.additive:
        return power_of_two_below(plan.unit_size / SGD_STEPS)
    by_data = plan.task.largest_grid(plan.sensitivity)
    by_noise = plan.unit_size / NOISE_STEPS
    return power_of_two_below(by_noise if by_data is None else min(by_noise, by_data))
