"""What the paper's own theorems would state for a plan: shown to compare, never judged by (THEORY.md#printed)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from network_dp import printed
from network_dp.plan import Plan


def _size(plan: Plan) -> tuple[int, int]:
    return plan.n, plan.total_steps


def _theorem_1(plan: Plan) -> float:
    return printed.theorem_1_at(plan.walk.rounds or 1, plan.mechanism.size, plan.sensitivity, plan.noise.delta)


def _theorem_2(plan: Plan) -> float:
    rounds = plan.walk.rounds or 1
    return printed.theorem_2_at(plan.n, rounds, plan.task.dimension, plan.mechanism.size, plan.noise.delta)


def _theorem_3(plan: Plan) -> float:
    return printed.theorem_3_at(*_size(plan), plan.mechanism.size, plan.sensitivity, plan.noise.delta)


def _theorem_3_histogram(plan: Plan) -> float:
    return printed.theorem_3_histogram_at(*_size(plan), plan.task.dimension, plan.mechanism.size, plan.noise.delta)


def _theorem_4(plan: Plan) -> float:
    most = plan.task.gradient_bound or 0.0
    return printed.theorem_4_at(*_size(plan), plan.mechanism.size, most, plan.noise.delta, plan.caps.contributions)


#: (topology, what is seen, mechanism) -> the theorem that speaks of it, and its epsilon
_THEOREMS: Final[Mapping[tuple[str, str, str], tuple[str, Callable[[Plan], float]]]] = {
    ("ring", "sum", "gaussian"): ("Thm 1", _theorem_1),
    ("ring", "sum", "rr"): ("Thm 2", _theorem_2),
    ("complete", "sum", "gaussian"): ("Thm 3", _theorem_3),
    ("complete", "sum", "rr"): ("Thm 3, histograms", _theorem_3_histogram),
    ("complete", "sgd", "gaussian"): ("Thm 4", _theorem_4),
}


def _found(plan: Plan) -> tuple[str, Callable[[Plan], float]] | None:
    if not plan.task.additive and plan.task.gradient_bound is None:  # a loss that need not be convex
        return None
    return _THEOREMS.get((plan.walk.topology, plan.task.accounting, plan.noise.mechanism))


def theorem_of(plan: Plan) -> str | None:
    """The theorem that speaks of such a plan; None where the paper has none."""
    found = _found(plan)
    return found and found[0]


def as_printed(plan: Plan) -> float | None:
    """Its epsilon at the plan's delta, split evenly among its parts; the paper knows no users that are down."""
    found = _found(plan)
    return found and found[1](plan)
