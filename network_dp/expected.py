"""The expected error of a plan's estimate, from public numbers only (light: a node writes it into its result).

Ring: the noises of the token over the number of contributions. Random walk: one noise per step, plus the sampling error
of the walk; the spread of the users' values is private, so its largest possible value enters. On a graph one step
depends on the last: that error is larger (``Topology.sampling_factor``).
"""

from __future__ import annotations

import math
from typing import Final

from network_dp import utility
from network_dp.noise_rule import cover_elements
from network_dp.plan import Plan

CERTAIN: Final = 1.96  # standard deviations to each side hold 95 % of the noise


def expected_error(plan: Plan) -> float | None:
    """Standard deviation of one coordinate of the estimate ("value" in result.json); None where there is no number."""
    if plan.task.width == math.inf:
        return None
    noise = _noise_std(plan) if plan.mechanism.additive else _response_std(plan)
    contributions, factor, correction = (
        expected_contributions(plan),
        plan.topology.sampling_factor,
        plan.topology.correction,
    )
    if factor is None:
        return None
    half = plan.task.width / 2.0 if correction == 1.0 else plan.task.coordinate_bound  # shares move values towards 0
    total = correction * math.hypot(noise, factor * _sampling_std(plan, half))
    return total / contributions if plan.task.per_user else total


def expected_contributions(plan: Plan) -> float:
    """Real contributions of an undisturbed walk, in expectation; caps make them fewer than its steps."""
    walk, caps = plan.walk, plan.caps
    if plan.in_one_round:
        return float(plan.n)
    if not plan.topology.drawn:
        rounds = walk.rounds or 0
        return plan.n * (rounds if caps.contributions is None else min(rounds, caps.contributions))
    steps, n = plan.total_steps, plan.n
    most = float(steps)
    if caps.contributions is not None:
        most = n * utility.mean_capped(steps, 1.0 / n, caps.contributions)
    if caps.edge is not None:
        # Every ordered pair of users is drawn with probability 1/n^2 per step; hops to oneself are not capped.
        to_others = n * (n - 1) * utility.mean_capped(steps, 1.0 / n**2, caps.edge)
        most = min(most, to_others + steps / n)
    return most


def _noise_std(plan: Plan) -> float:
    walk, noise = plan.walk, plan.noise
    size = plan.mechanism.std_per_size * plan.mechanism.size
    if plan.in_one_round:  # a share of everybody
        return size * math.sqrt(plan.n / plan.unit_count)
    if plan.caps.past == "forward":  # complete graph: who forwards adds no noise
        return size * math.sqrt(expected_contributions(plan))
    return utility.sum_std(
        size,
        topology="complete" if plan.topology.drawn else "ring",
        n_users=plan.n,
        n_rounds=walk.rounds,
        n_steps=walk.steps,
        released=walk.release == "all",
        spread=noise.spread,
    )


def _sampling_std(plan: Plan, value_std: float) -> float:
    """Of the walk itself, on the sum of its draws: zero on a ring, where everybody contributes equally often."""
    return 0.0 if not plan.topology.drawn or plan.in_one_round else value_std * math.sqrt(expected_contributions(plan))


def _response_std(plan: Plan) -> float:
    """Of one debiased count."""
    contributions, gamma = expected_contributions(plan), plan.mechanism.size
    ends = 0 if plan.topology.drawn else 2 if plan.walk.release == "all" else 1
    capped = 0 if plan.caps.past == "forward" else plan.total_steps - round(contributions)
    cover = ends * cover_elements(gamma, plan.n) + capped
    return utility.histogram_std(round(contributions), plan.task.dimension, gamma, cover)
