"""What a plan promises before anything runs, as numbers with their meaning: privacy by the valid bounds, and error."""

from __future__ import annotations

import math
from typing import Any, Literal

from network_dp.plan import Plan


def promises(plan: Plan, colluders: int = 1) -> dict[str, tuple[Any, str]]:
    """key -> (number or None, meaning). None: theory gives no guarantee there."""
    from analyzer.promise import promised_epsilon
    from network_dp.expected import expected_error

    delta = plan.noise.delta
    facts: dict[str, tuple[Any, str]] = {
        "network_epsilon": (
            promised_epsilon(plan),
            f"any one user about any other, delta = {delta:g}, even if it knows the whole path",
        ),
        "local_epsilon": (_local(plan), "against somebody who sees every message"),
    }
    hidden = _if_hidden(plan)
    if hidden is not None:
        facts["network_epsilon_if_path_hidden"] = (hidden, "not promised: TLS hides values, not who held the token")
    if colluders > 1:
        text = f"any {colluders} users together; none promised on a ring, where two can enclose a third"
        facts[f"network_epsilon_{colluders}_colluders"] = (promised_epsilon(plan, colluders), text)
    error = expected_error(plan)
    if error is not None:
        facts["expected_std"] = (error, "of the estimate, from noise and from the walk's own chance")
    return facts


def _if_hidden(plan: Plan) -> float | None:
    """What the same noise would give if nobody could tell who held the token (theory.md 2): for comparison only."""
    import numpy as np

    from network_dp import bounds
    from network_dp.plan import SgdTask

    gaussian_walk = plan.walk.topology == "complete" and plan.noise.mechanism == "gaussian"
    if not gaussian_walk or plan.caps.contributions is not None or plan.caps.edge is not None:
        return None
    assert plan.noise.sigma is not None
    task: Literal["sum", "sgd"] = "sgd" if isinstance(plan.task, SgdTask) else "sum"
    with np.errstate(over="ignore"):
        epsilon = bounds.network_epsilon(
            task, plan.walk.min_live, plan.total_steps, plan.noise.sigma, plan.sensitivity, plan.noise.delta,
            plan.walk.release == "all", path="hidden",
        )  # fmt: skip
    return None if math.isinf(epsilon) else epsilon


def _local(plan: Plan) -> float | None:
    from analyzer.promise import local_epsilon
    from network_dp import bounds

    if plan.noise.mechanism == "rr":
        return None
    cap = plan.caps.contributions
    if plan.walk.topology == "ring":
        most = plan.walk.rounds or 0
    else:
        most = bounds.visits(plan.n, plan.total_steps, plan.noise.delta)
    epsilon = local_epsilon(plan, most if cap is None else min(most, cap))
    return None if math.isinf(epsilon) else epsilon
