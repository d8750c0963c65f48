"""From a plan's target (epsilon, delta) to the size of its noise, by the valid bounds only, for ``min_live`` users."""

from __future__ import annotations

import math
from dataclasses import replace

from network_dp import calibrate
from network_dp.errors import AccountingError
from network_dp.plan import HistogramTask, Noise, Plan, PlanError, SgdTask, SumTask

#: Floating-point results are rounded towards more noise by this much.
UPWARDS = 1.0 + 1e-12


def calibrated_noise(plan: Plan) -> Noise:
    """The plan's noise with its size filled in: the least that meets the target, rounded up."""
    noise = plan.noise
    assert noise.epsilon is not None
    try:
        match noise.mechanism:
            case "gaussian":
                return replace(noise, sigma=_sigma(plan, noise.epsilon))
            case "laplace":
                return replace(noise, scale=_laplace_scale(plan, noise.epsilon))
            case "rr":
                return replace(noise, gamma=_gamma(plan, noise.epsilon))
    except AccountingError as error:
        raise PlanError(f"noise.epsilon = {noise.epsilon:g}: {error}") from None


def _contributions(plan: Plan) -> int:
    """The most real contributions of one user, when each carries a noise of its own."""
    cap = plan.caps.contributions
    if plan.walk.topology == "ring":
        assert plan.walk.rounds is not None
        rounds = plan.walk.rounds + plan.noise.reissues
        return rounds if cap is None else min(cap, rounds)
    if cap is None:
        raise PlanError(
            'noise.against = "local": the walk may meet a user any number of times; give caps.contributions'
        )
    return cap


def _sigma(plan: Plan, epsilon: float) -> float:
    walk, noise = plan.walk, plan.noise
    sgd = isinstance(plan.task, SgdTask)
    if noise.against == "local":
        return calibrate.sigma(
            epsilon, noise.delta, plan.sensitivity, privacy="local", n_contributions=_local_exposure(plan)
        )
    if isinstance(plan.task, SgdTask) and plan.task.schedule != "constant":
        raise PlanError(
            'task.schedule: the target is met by calculation for "constant" steps only; give noise.sigma instead of '
            'noise.epsilon, or use noise.against = "local"'
        )
    return calibrate.sigma(
        epsilon,
        noise.delta,
        plan.sensitivity,
        topology=walk.topology,
        task="sgd" if sgd else "sum",
        n_users=walk.min_live,
        n_steps=walk.steps,
        n_rounds=walk.rounds,
        released=walk.release == "all",
        cap=plan.caps.contributions,
        reissues=noise.reissues,
    )


def _local_exposure(plan: Plan) -> int:
    """How often one full noise covers a user against somebody who sees every message (THEORY.md#exposure-local)."""
    if plan.walk.topology == "ring" and not isinstance(plan.task, SgdTask):
        if not plan.noise.spread:
            raise _no_local_ring()
        assert plan.walk.rounds is not None
        return (plan.walk.rounds + plan.noise.reissues) * (plan.n - 1)
    return _contributions(plan)


def _no_local_ring() -> PlanError:
    return PlanError(
        'noise.against = "local": on a ring most contributions travel without noise of their own, so there is no local '
        'guarantee at any size; use noise.against = "network", or noise.spread = true'
    )


def _laplace_scale(plan: Plan, epsilon: float) -> float:
    """Pure DP, composed over K rounds and the re-issues: scale = (K + r) Delta / epsilon, for single numbers."""
    if plan.noise.against == "local":
        raise _no_local_ring()
    assert plan.walk.rounds is not None and isinstance(plan.task, SumTask) and plan.task.dimension == 1
    return (plan.walk.rounds + plan.noise.reissues) * plan.sensitivity / epsilon * UPWARDS


def _gamma(plan: Plan, epsilon: float) -> float:
    walk, task = plan.walk, plan.task
    assert isinstance(task, HistogramTask)
    if plan.noise.against == "local":
        # Each response is eps0-LDP with gamma = L / (e^eps0 + L - 1) (THEORY.md#histograms); pure DP adds up.
        each = epsilon / _contributions(plan)
        gamma = task.buckets / (math.exp(min(each, 700.0)) + task.buckets - 1.0) * UPWARDS
    else:
        gamma = calibrate.gamma(
            epsilon,
            plan.noise.delta,
            topology=walk.topology,
            n_users=walk.min_live,
            n_buckets=task.buckets,
            n_rounds=walk.rounds,
            n_steps=walk.steps,
            released=walk.release == "all",
            reissues=plan.noise.reissues,
        )
    if gamma > 1.0 - 2.0**-20:
        raise PlanError(f"noise.epsilon = {epsilon:g}: reached only by answers that are all random; ask for less")
    return gamma
