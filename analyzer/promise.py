"""What the plan promised before the run, and how far an honest walk may go (theory.md 2, 3).

The promise on the complete graph is an average over paths, so a single honest run may exceed its epsilon. What it may
not do, but for a stated probability, is exceed the law of its own exposure: from the moment E exp(b S_uv) of the
uniform walk, Markov's inequality and a union over all pairs give a limit s with P(any S_uv > s) <= FALSE_ALARM.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, Literal

import numpy as np

from analyzer.chance import FALSE_ALARM
from analyzer.exposures import aim, laplace_epsilon
from network_dp import bounds, exposure
from network_dp.moments import Law, Task, log_moment
from network_dp.plan import Plan, SgdTask

_TILTS: Final = tuple(float(b) for b in np.geomspace(0.02, 60.0, 25))


def task_of(plan: Plan) -> Task:
    return "sgd" if isinstance(plan.task, SgdTask) else "sum"


def has_walk_law(plan: Plan) -> bool:
    """Is there an ex-ante law of the exposure? Uniform walk, Gaussian noise, constant step size."""
    if plan.walk.topology != "complete" or plan.noise.mechanism != "gaussian":
        return False
    return not (isinstance(plan.task, SgdTask) and plan.task.schedule != "constant")


@lru_cache(maxsize=64)
def exposure_limit(law: Law, n_events: float) -> float:
    """s with P(S > s for any of ``n_events`` pairs or sets) <= FALSE_ALARM on an honest walk."""
    room = math.log(n_events / FALSE_ALARM)
    return min((log_moment(law, b) + room) / b for b in _TILTS)


def walk_law(plan: Plan, n_live: int, colluders: int = 1) -> Law:
    return Law(task_of(plan), n_live, plan.total_steps, colluders, plan.walk.release == "all")


def limit_for(plan: Plan, n_live: int, colluders: int = 1) -> float | None:
    """The exposure an honest run stays under; None when theory gives no law."""
    if plan.walk.topology == "ring":
        if colluders > 1 or plan.noise.mechanism != "gaussian":
            return None
        assert plan.walk.rounds is not None
        return float(plan.walk.rounds)
    if not has_walk_law(plan) or n_live <= colluders:
        return None
    events = float(plan.n) * math.comb(plan.n - 1, colluders)
    limit = exposure_limit(walk_law(plan, n_live, colluders), events)
    return limit if plan.caps.contributions is None else min(limit, float(plan.caps.contributions))


def promised_epsilon(plan: Plan, colluders: int = 1) -> float | None:
    """eps at the plan's delta that the plan promises for ``min_live`` users; None when it promises nothing."""
    noise = plan.noise
    if noise.mechanism == "laplace":
        return laplace_epsilon(plan, float(plan.walk.rounds or 0)) if colluders == 1 else None
    if noise.mechanism != "gaussian":
        return None
    assert noise.sigma is not None
    if plan.walk.topology == "ring":
        if colluders > 1:
            return None
        return bounds.ring_epsilon(plan.walk.rounds or 0, noise.sigma, plan.sensitivity, aim(plan))
    if not has_walk_law(plan) or plan.walk.min_live <= colluders:
        return None
    return bounds.network_epsilon(
        task_of(plan),
        plan.walk.min_live,
        plan.total_steps,
        noise.sigma,
        plan.sensitivity,
        aim(plan),
        plan.walk.release == "all",
        colluders,
        plan.caps.contributions,
    )


def local_epsilon(plan: Plan, n_contributions: int) -> float:
    """eps against somebody who sees every message (theory.md 2): infinite on a ring that shares its noise."""
    noise = plan.noise
    if noise.mechanism == "laplace":
        return math.inf
    assert noise.mechanism == "gaussian" and noise.sigma is not None
    ring_sum = plan.walk.topology == "ring" and not isinstance(plan.task, SgdTask)
    kind: Literal["full", "ring", "spread_ring"] = "full"
    if ring_sum:
        kind = "spread_ring" if noise.spread else "ring"
    value = exposure.local(n_contributions, kind, plan.n)
    return bounds.exposure_epsilon(value, noise.sigma, plan.sensitivity, aim(plan))
