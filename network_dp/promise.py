"""What a plan promises before anything runs, by the valid bounds only (THEORY.md#before-a-run).

``plan check``, calibration and the analyzer ask these functions: there is one answer to what a plan promises.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from network_dp import bounds, exposure, shuffle
from network_dp.calibrate import DISCRETE_INFLATION
from network_dp.moments import Task
from network_dp.plan import HistogramTask, Plan, SgdTask
from network_dp.randomised_response import Response

Floats = NDArray[np.float64]


def aim(plan: Plan) -> float:
    """The delta to compute with, so that the discrete noise keeps the plan's delta."""
    return plan.noise.delta / DISCRETE_INFLATION


def task_of(plan: Plan) -> Task:
    return "sgd" if isinstance(plan.task, SgdTask) else "sum"


def has_walk_law(plan: Plan) -> bool:
    """Is there an ex-ante law of the exposure? Uniform walk, Gaussian noise at every step, constant step size."""
    if plan.walk.topology != "complete" or plan.noise.mechanism != "gaussian":
        return False
    if plan.caps.contributions is not None and plan.caps.past == "forward":
        return False
    return not (isinstance(plan.task, SgdTask) and plan.task.schedule != "constant")


def response_of(plan: Plan) -> Response:
    assert isinstance(plan.task, HistogramTask) and plan.noise.gamma is not None
    return Response(plan.task.buckets, plan.noise.gamma)


def promised_epsilon(plan: Plan, colluders: int = 1) -> float | None:
    """eps at the plan's delta that the plan promises for ``min_live`` users; None when it promises nothing."""
    noise = plan.noise
    if noise.mechanism == "laplace":
        most = float((plan.walk.rounds or 0) + noise.reissues)
        return laplace_epsilon(plan, most) if colluders == 1 else None
    if noise.mechanism == "rr":
        return _response_promise(plan, colluders)
    assert noise.sigma is not None
    if plan.walk.topology == "ring":
        if colluders > 1:
            return None
        rounds = plan.walk.rounds or 0
        return bounds.ring_epsilon(rounds, noise.sigma, plan.sensitivity, aim(plan), noise.reissues)
    if not has_walk_law(plan) or plan.walk.min_live <= colluders:
        cap = plan.caps.contributions  # every contribution carries its own full noise, whoever looks
        return None if cap is None else bounds.local_epsilon(cap, noise.sigma, plan.sensitivity, aim(plan))
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


def _response_promise(plan: Plan, colluders: int) -> float | None:
    """Randomised response before the run, for the least number of live users."""
    response, live = response_of(plan), plan.walk.min_live
    if live <= colluders or (plan.walk.topology == "ring" and colluders > 1):
        return None
    if plan.walk.topology == "ring":
        size = (live, plan.walk.rounds or 0, response.n_buckets, response.gamma)
        return shuffle.ring_epsilon(*size, plan.noise.delta, plan.walk.release == "all", plan.noise.reissues)
    promised = response_law(plan, live, plan.noise.delta, colluders)
    cap = plan.caps.contributions
    return promised if cap is None else min(promised, local_epsilon(plan, cap))


def response_law(plan: Plan, n_live: int, delta: float, colluders: int, orders: Floats | None = None) -> float:
    """Randomised response on the complete graph: eps of the walk's Renyi moments."""
    response, released = response_of(plan), plan.walk.release == "all"
    more = () if orders is None else (orders,)
    size = (n_live, plan.total_steps, response.n_buckets, response.gamma)
    return shuffle.complete_epsilon(*size, delta, released, colluders, *more)


def laplace_epsilon(plan: Plan, n_contributions: float) -> float:
    """Pure eps: Delta_1 / scale for each contribution seen (L1 sensitivity <= sqrt(d) times L2)."""
    assert plan.noise.scale is not None
    return n_contributions * math.sqrt(plan.task.dimension) * plan.sensitivity / plan.noise.scale


def reached_epsilon(plan: Plan) -> float | None:
    """The epsilon that the plan's noise gives, of the kind its ``noise.epsilon`` asks for; None: no bound is known."""
    if plan.noise.against == "network":
        return promised_epsilon(plan)
    most = most_contributions(plan)
    return None if most is None else local_epsilon(plan, most)


def most_contributions(plan: Plan) -> int | None:
    """How often one user gives data at most, abandoned tokens included; None on a walk without a cap."""
    cap = plan.caps.contributions
    if plan.walk.topology == "complete":
        return cap
    rounds = (plan.walk.rounds or 0) + plan.noise.reissues
    return rounds if cap is None else min(cap, rounds)


def local_epsilon(plan: Plan, n_contributions: int) -> float:
    """eps if somebody sees every message (THEORY.md#exposure-local): infinite on a ring that shares its noise."""
    noise = plan.noise
    if noise.mechanism == "laplace":
        return math.inf
    if noise.mechanism == "rr":
        response = response_of(plan)
        return shuffle.local_epsilon(n_contributions, response.n_buckets, response.gamma, noise.delta)
    assert noise.mechanism == "gaussian" and noise.sigma is not None
    ring_sum = plan.walk.topology == "ring" and not isinstance(plan.task, SgdTask)
    kind: Literal["full", "ring", "spread_ring"] = "full"
    if ring_sum:
        kind = "spread_ring" if noise.spread else "ring"
    value = exposure.local(n_contributions, kind, plan.n)
    return bounds.exposure_epsilon(value, noise.sigma, plan.sensitivity, aim(plan))
