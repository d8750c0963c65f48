"""What the paper's own theorems would state for a plan: shown to compare, never judged by (THEORY.md#printed)."""

from __future__ import annotations

from network_dp import printed
from network_dp.plan import HistogramTask, Plan, SgdTask


def theorem_of(plan: Plan) -> str | None:
    """The theorem that speaks of such a plan; None where the paper has none."""
    if plan.noise.mechanism == "laplace":
        return None
    ring, responses = plan.walk.topology == "ring", plan.noise.mechanism == "rr"
    if isinstance(plan.task, SgdTask):
        return None if ring else "Thm 4"
    if responses:
        return "Thm 2" if ring else "Thm 3, histograms"
    return "Thm 1" if ring else "Thm 3"


def as_printed(plan: Plan) -> float | None:
    """Its epsilon at the plan's delta, split evenly among its parts; the paper knows no users that are down."""
    n, steps, delta, sigma = plan.n, plan.total_steps, plan.noise.delta, plan.noise.sigma or 0.0
    rounds, gamma = plan.walk.rounds or 1, plan.noise.gamma or 0.0
    match theorem_of(plan), plan.task:
        case "Thm 1", _:
            return printed.theorem_1_at(rounds, sigma, plan.sensitivity, delta)
        case "Thm 2", HistogramTask() as task:
            return printed.theorem_2_at(n, rounds, task.buckets, gamma, delta)
        case "Thm 3", _:
            return printed.theorem_3_at(n, steps, sigma, plan.sensitivity, delta)
        case "Thm 3, histograms", HistogramTask() as task:
            return printed.theorem_3_histogram_at(n, steps, task.buckets, gamma, delta)
        case "Thm 4", SgdTask() as task:
            return printed.theorem_4_at(n, steps, sigma, task.lipschitz, delta, plan.caps.contributions)
        case _:
            return None
