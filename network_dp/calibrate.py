"""The least noise, or the longest run, that meets a target (epsilon, delta): searches on the valid bounds only.

Noise on the wire is discrete (THEORY.md#grid): on the required grid the Gaussian formulas hold with delta
inflated by 1e-5 relative, so `sigma` and `steps` aim at delta / (1 + 1e-5).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from network_dp.accounting import bounds, gaussian
from network_dp.accounting.bounds import Accountant
from network_dp.accounting.moments import Task
from network_dp.accounting.search import least as least
from network_dp.errors import AccountingError, PlanError, UnreachableError, require, require_target, require_whole
from network_dp.plan import Noise, Plan
from network_dp.promise import DISCRETE_INFLATION, most_contributions, promised_epsilon

Topology = Literal["complete", "ring"]
Privacy = Literal["network", "local"]

_UPWARDS = 1.0 + 1e-12  # floating-point results are rounded towards more noise by this much


def sigma(
    epsilon: float,
    delta: float,
    sensitivity: float,
    *,
    topology: Topology = "complete",
    privacy: Privacy = "network",
    task: Task = "sum",
    n_users: int | None = None,
    n_steps: int | None = None,
    n_rounds: int | None = None,
    n_contributions: int | None = None,
    released: bool = False,
    colluders: int = 1,
    cap: int | None = None,
    path: bounds.Path = "known",
    reissues: int = 0,
) -> float:
    """Least sigma (to 0.1 %, rounded up) with which a run is (epsilon, delta)-DP.

    privacy="local": every contribution carries its own full noise; `n_contributions` is how many each user makes
    (`cap` and, on a ring, `n_rounds` are accepted for it). privacy="network": the ring needs `n_rounds`, the complete
    graph `n_users` (the least number alive) and `n_steps`. `reissues`: how often a ring may take its token up again.
    """
    require_target(epsilon, delta, sensitivity)
    aim = delta / DISCRETE_INFLATION
    if privacy == "local":
        count = next((k for k in (n_contributions, cap, n_rounds) if k is not None), None)
        if count is None:
            raise UnreachableError("local calibration needs n_contributions (or cap, or n_rounds on a ring)")
        require_whole("n_contributions (or cap, or n_rounds)", count)
        return gaussian.sigma(epsilon, aim, math.sqrt(count) * sensitivity) * (1 + 1e-12)
    require(privacy == "network", f'privacy must be "network" or "local", got {privacy!r}')
    _check_topology(topology)
    if topology == "ring":
        if n_rounds is None:
            raise UnreachableError("calibrating a ring needs n_rounds")
        require_whole("n_rounds", n_rounds, 1)
        if colluders > 1:
            raise UnreachableError("a ring resists no collusion: no sigma protects a user between two colluders")
        require_whole("reissues", reissues)
        return gaussian.sigma(epsilon, aim, math.sqrt(n_rounds + reissues) * sensitivity) * (1 + 1e-12)
    if n_users is None or n_steps is None:
        raise UnreachableError("calibrating the complete graph needs n_users and n_steps")
    users, steps = n_users, n_steps

    def reached(noise: float) -> float:
        return bounds.network_epsilon(task, users, steps, noise, sensitivity, aim, released, colluders, cap, path)

    return least(reached, epsilon, start=max(gaussian.sigma(epsilon, aim, sensitivity), 1e-12 * sensitivity))


def steps(
    epsilon: float,
    delta: float,
    sensitivity: float,
    sigma: float,
    *,
    n_users: int,
    task: Task = "sum",
    released: bool = False,
    colluders: int = 1,
    path: bounds.Path = "known",
) -> int:
    """The largest number of steps T on the complete graph that stays (epsilon, delta)-DP with the given sigma.

    By the Renyi bound, for walks of any length in the same time; the tightest one may allow some more."""
    require_target(epsilon, delta, sensitivity)
    aim = delta / DISCRETE_INFLATION

    def within(n_steps: int) -> bool:
        size = (n_users, n_steps, sigma, sensitivity, aim, released, colluders, None)
        return bounds.network_epsilon(task, *size, path, accountant="renyi") <= epsilon

    if not within(1):
        raise UnreachableError(f"sigma = {sigma} is too small: even one step exceeds epsilon = {epsilon}")
    low, high = 1, 2
    while within(high):
        low, high = high, 2 * high
        if high > 10**12:
            raise UnreachableError("more than 10^12 steps fit the budget; choose a smaller sigma")
    while high - low > max(1, low // 10_000):
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low


def gamma(
    epsilon: float,
    delta: float,
    *,
    topology: Topology,
    n_users: int,
    n_buckets: int,
    n_rounds: int | None = None,
    n_steps: int | None = None,
    released: bool = False,
    reissues: int = 0,
) -> float:
    """Least probability of a random answer with which a histogram run is (epsilon, delta)-network-DP.

    Every candidate is checked with the shuffle accountant; the answer is rounded up by at most 0.1 %.
    """
    from network_dp.accounting import shuffle
    from network_dp.accounting.response_walk import LONGEST_WALK

    require_target(epsilon, delta, 1.0)
    _check_topology(topology)

    def reached(probability: float, accountant: Accountant = "renyi") -> float:
        if probability >= 1:  # answers nothing but noise: always private
            return 0.0
        if topology == "ring":
            if n_rounds is None:
                raise UnreachableError("calibrating a ring needs n_rounds")
            return shuffle.ring_epsilon(n_users, n_rounds, n_buckets, probability, delta, released, reissues)
        if n_steps is None:
            raise UnreachableError("calibrating the complete graph needs n_steps")
        size = (n_users, n_steps, n_buckets, probability, delta, released)
        return shuffle.complete_epsilon(*size, accountant=accountant)

    found = least(reached, epsilon, 0.5, 1e-3)
    if n_steps is not None and n_steps <= LONGEST_WALK:  # a tighter bound of short walks, which takes longer
        found = least(lambda size: reached(size, "tightest"), epsilon, found, 1e-3)
    return min(found, 1.0)


def calibrated_noise(plan: Plan) -> Noise:
    """The plan's noise with its size filled in: the least that meets its target for ``min_live`` users, rounded up."""
    noise = plan.noise
    assert noise.epsilon is not None
    calibrate = {"sigma": _plan_sigma, "scale": _plan_scale, "gamma": _plan_gamma}[plan.mechanism.size_key]
    try:
        size = {plan.mechanism.size_key: calibrate(plan, noise.epsilon)}
        return replace(noise, **size)  # type: ignore[arg-type]  # every size is a float
    except AccountingError as error:
        raise PlanError(f"noise.epsilon = {noise.epsilon:g}: {error}") from None


def _plan_sigma(plan: Plan, epsilon: float) -> float:
    walk, noise = plan.walk, plan.noise
    if plan.rounds is not None and noise.against == "network":
        return _anonymous_sigma(plan, epsilon)
    if noise.against == "local":
        return sigma(epsilon, noise.delta, plan.sensitivity, privacy="local", n_contributions=_local_exposure(plan))
    if not plan.task.has_walk_law:
        raise PlanError(plan.task.without_law)
    if noise.distance is not None:
        from network_dp.graphs.promise import least_sigma

        return least_sigma(plan, epsilon, noise.distance) * _UPWARDS
    return sigma(
        epsilon,
        noise.delta,
        plan.sensitivity,
        topology="complete" if plan.topology.drawn else "ring",
        task=plan.task.accounting,
        n_users=walk.min_live,
        n_steps=walk.steps,
        n_rounds=walk.rounds,
        released=walk.release == "all",
        cap=plan.caps.contributions,
        reissues=noise.reissues,
    )


def _anonymous_sigma(plan: Plan, epsilon: float) -> float:
    """Least sigma of a hidden path or a masked sum: a search on what such a plan promises."""

    def reached(size: float) -> float:
        promised = promised_epsilon(replace(plan, noise=replace(plan.noise, sigma=size)))
        return math.inf if promised is None else promised

    return least(reached, epsilon, start=gaussian.sigma(epsilon, plan.noise.delta, plan.sensitivity))


def _plan_contributions(plan: Plan) -> int:
    """The most real contributions of one user, when each carries a noise of its own."""
    most = most_contributions(plan)
    if most is None:
        raise PlanError(
            'noise.against = "local": the walk may meet a user any number of times; give caps.contributions'
        )
    return most


def _local_exposure(plan: Plan) -> int:
    """How often one full noise covers a user against somebody who sees every message (THEORY.md#exposure-local)."""
    if plan.in_one_round:
        return _plan_contributions(plan) * plan.unit_count
    if not plan.noise_rule.by_ledger:
        return _plan_contributions(plan)
    if not plan.noise.spread:
        raise _no_local_ring()
    return ((plan.walk.rounds or 0) + plan.noise.reissues) * (plan.n - 1)


def _no_local_ring() -> PlanError:
    return PlanError(
        'noise.against = "local": on a ring most contributions travel without noise of their own, so there is no local '
        'guarantee at any size; use noise.against = "network", or noise.spread = true'
    )


def _plan_scale(plan: Plan, epsilon: float) -> float:
    """Pure DP, composed over K rounds and the re-issues: scale = (K + r) Delta / epsilon, for single numbers."""
    if plan.noise.against == "local":
        raise _no_local_ring()
    return ((plan.walk.rounds or 0) + plan.noise.reissues) * plan.sensitivity / epsilon * _UPWARDS


def _plan_gamma(plan: Plan, epsilon: float) -> float:
    walk, buckets = plan.walk, plan.task.dimension
    if plan.noise.against == "local":
        # Each response is eps0-LDP with gamma = L / (e^eps0 + L - 1) (THEORY.md#histograms); pure DP adds up.
        each = epsilon / _plan_contributions(plan)
        size = buckets / (math.exp(min(each, 700.0)) + buckets - 1.0) * _UPWARDS
    else:
        size = gamma(
            epsilon,
            plan.noise.delta,
            topology="complete" if plan.topology.drawn else "ring",
            n_users=walk.min_live,
            n_buckets=buckets,
            n_rounds=walk.rounds,
            n_steps=walk.steps,
            released=walk.release == "all",
            reissues=plan.noise.reissues,
        )
    if size > 1.0 - 2.0**-20:
        raise PlanError(f"noise.epsilon = {epsilon:g}: reached only by answers that are all random; ask for less")
    return size


def _check_topology(topology: str) -> None:
    require(topology in ("complete", "ring"), f'topology must be "complete" or "ring", got {topology!r}')
