"""What a walk has cost one user so far, and how far its estimate may be off: the plan's own bounds, cut short.

After s of T steps any one peer has seen no more than in a whole walk of s steps, so the bound of the shorter plan
holds (THEORY.md#before-a-run). It is computed at a few lengths; in between the next longer one counts, which is more.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Any, Final

from network_dp.expected import expected_error
from network_dp.plan import Plan

LENGTHS: Final = 12


def cut_short(plan: Plan, step: int) -> Plan:
    """The same plan with the shortest walk that has ``step`` steps."""
    key = plan.topology.length_key
    length: int = getattr(plan.walk, key)
    shorter = max(1, math.ceil(length * min(1.0, step / plan.total_steps)))
    change: dict[str, Any] = {key: shorter}
    return replace(plan, walk=replace(plan.walk, **change))


def error_at(plan: Plan, step: int) -> float | None:
    """Expected standard deviation of the estimate after ``step`` steps; None where there is no number."""
    return expected_error(cut_short(plan, step))


@dataclass(frozen=True, slots=True)
class Costs:
    """epsilon towards any one peer after each of some numbers of steps; the last is the plan's promise."""

    steps: tuple[int, ...]
    epsilons: tuple[float, ...]

    @property
    def promise(self) -> float | None:
        return self.epsilons[-1] if self.epsilons else None

    def at(self, step: int) -> float | None:
        """epsilon towards any one peer after ``step`` steps, at most; None where the plan promises nothing."""
        if not self.epsilons or step <= 0:
            return 0.0 if self.epsilons else None
        return self.epsilons[min(bisect_left(self.steps, step), len(self.steps) - 1)]


def costs_of(plan: Plan) -> Costs:
    """The curve of a plan; heavy (seconds): for a thread of its own."""
    from network_dp.promise import promised_epsilon

    found: dict[int, float] = {}
    most = promised_epsilon(plan)  # a shorter walk costs no more; the quick bound serves in between
    for part in range(1, LENGTHS + 1):
        shorter = cut_short(plan, math.ceil(plan.total_steps * part / LENGTHS))
        epsilon = promised_epsilon(shorter, accountant="renyi")
        if epsilon is None or most is None or not math.isfinite(most):
            return Costs((), ())
        found[shorter.total_steps] = min(epsilon, most)
    return Costs(tuple(found), tuple(found.values()))


def seen_by_all(plan: Plan, contributions: int) -> float | None:
    """epsilon towards somebody who saw every message, after so many contributions; None: infinite."""
    from network_dp.promise import local_epsilon

    epsilon = local_epsilon(plan, contributions) if contributions else 0.0
    return epsilon if math.isfinite(epsilon) else None
