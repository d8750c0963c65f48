"""The expected error of a plan's estimate, from public numbers only (light: a node writes it into its result).

Ring: the noises of the token over the number of contributions. Complete graph: one noise a step, plus the sampling
error of the walk; the spread of the users' values is private, so its largest possible value enters.
"""

from __future__ import annotations

import math

from network_dp import utility
from network_dp.plan import HistogramTask, Plan, SumTask


def expected_error(plan: Plan) -> float | None:
    """Standard deviation of one coordinate of the estimate ("value" in result.json); None where there is no number."""
    match plan.task:
        case SumTask():
            return _sum_error(plan, plan.task)
        case HistogramTask():
            return _histogram_error(plan, plan.task)
        case _:
            return None


def _noise_std(plan: Plan) -> float:
    walk, noise = plan.walk, plan.noise
    size = noise.sigma if noise.mechanism == "gaussian" else math.sqrt(2.0) * (noise.scale or 0.0)
    assert size is not None
    return utility.sum_std(
        size, topology=walk.topology, n_users=plan.n, n_rounds=walk.rounds, n_steps=walk.steps,
        released=walk.release == "all", spread=noise.spread,
    )  # fmt: skip


def _sampling_std(plan: Plan, value_std: float) -> float:
    """Of the walk itself, on the sum of T draws: zero on a ring, where everybody contributes equally often."""
    return 0.0 if plan.walk.topology == "ring" else value_std * math.sqrt(plan.total_steps)


def _sum_error(plan: Plan, task: SumTask) -> float:
    total = math.hypot(_noise_std(plan), _sampling_std(plan, (task.upper - task.lower) / 2.0))
    return total / plan.total_steps if task.kind == "mean" else total


def _histogram_error(plan: Plan, task: HistogramTask) -> float:
    """Of one share: counts over contributions."""
    if plan.noise.mechanism == "rr":
        assert plan.noise.gamma is not None
        ring = plan.walk.topology == "ring"
        ends = (2 if plan.walk.release == "all" else 1) if ring else 0
        random = ends * math.ceil(plan.noise.gamma * (plan.n - 2))
        noise = utility.histogram_std(plan.total_steps, task.buckets, plan.noise.gamma, random)
    else:
        noise = _noise_std(plan)
    return math.hypot(noise, _sampling_std(plan, 0.5)) / plan.total_steps
