"""What a plan promises before anything runs, by the valid bounds only (THEORY.md#before-a-run).

``plan check``, calibration and the analyzer ask these functions: there is one answer to what a plan promises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from network_dp import exposure
from network_dp.accounting import bounds, response_walk, shuffle
from network_dp.accounting.moments import Law
from network_dp.accounting.randomised_response import Response
from network_dp.plan import Plan, Rounds

Floats = NDArray[np.float64]

#: Noise on the wire is discrete: on its grid the formulas hold with delta inflated by so much (THEORY.md#grid).
DISCRETE_INFLATION = 1 + 1e-5


def aim(plan: Plan) -> float:
    """The delta to compute with, so that the discrete noise keeps the plan's delta."""
    return plan.noise.delta / DISCRETE_INFLATION


def has_walk_law(plan: Plan) -> bool:
    """Is there an ex-ante law of the exposure? Uniform walk, Gaussian noise at every step, constant step size."""
    return plan.topology.uniform and not plan.in_one_round and noise_at_every_step(plan)


def noise_at_every_step(plan: Plan) -> bool:
    """Gaussian, whoever holds the token, and step sizes for which windows can be counted."""
    forwards = plan.caps.contributions is not None and plan.caps.past == "forward"
    return plan.mechanism.by_exposure and not forwards and plan.task.has_walk_law


def response_of(plan: Plan) -> Response:
    """The randomised response of a plan: its buckets and its gamma."""
    return Response(plan.task.dimension, plan.mechanism.size)


@dataclass(frozen=True)
class Promise:
    """eps at the plan's delta, None when nothing is promised; the bound that gives it, in words; and mu^2 where the
    whole run is one Gaussian mechanism."""

    epsilon: float | None
    bound: str
    mu2: float | None = None


EXACT = "Gaussian mechanism, exact"
ENCLOSED = "Gaussian mechanism, a user's own share of the noise alone"
WORST_PAIR = "Renyi moment of the worst pair of the graph"
WORST_SET = "Renyi moment of the worst set of users of the graph"
AGAINST_ALL = "every contribution seen, as many as chance allows"
NOTHING = Promise(None, "no bound")


def walk_law(plan: Plan, colluders: int = 1) -> Law | None:
    """The law of the walk that the promise rests on (the noise does not enter); None where it rests on no such law."""
    if plan.rounds is not None or not has_walk_law(plan) or plan.walk.min_live <= colluders:
        return None
    released = plan.walk.release == "all"
    return Law(plan.task.accounting, plan.walk.min_live, plan.total_steps, colluders, released)


def promised_epsilon(plan: Plan, colluders: int = 1, accountant: bounds.Accountant = "tightest") -> float | None:
    """eps at the plan's delta that the plan promises for ``min_live`` users; None when it promises nothing."""
    return promised(plan, colluders, accountant).epsilon


def promised(plan: Plan, colluders: int = 1, accountant: bounds.Accountant = "tightest") -> Promise:
    """What the plan promises for ``min_live`` users, by the tightest valid bound there is (or by Renyi's alone)."""
    noise = plan.noise
    if plan.rounds is not None:
        return _anonymous_promise(plan, plan.rounds, colluders)
    if plan.mechanism.pure:
        most = float((plan.walk.rounds or 0) + noise.reissues)
        return Promise(laplace_epsilon(plan, most), "pure, one round after the other") if colluders == 1 else NOTHING
    if not plan.mechanism.additive:
        return _response_promise(plan, colluders, accountant)
    assert noise.sigma is not None
    if not plan.topology.drawn:
        rounds = (plan.walk.rounds or 0) + noise.reissues
        if colluders == 1:
            return _gaussian(plan, rounds, EXACT)  # as `bounds.ring_epsilon`
        # Two users around a third see it under its own share of the noise alone (THEORY.md#exposure-local).
        return _gaussian(plan, rounds * (plan.n - 1), ENCLOSED) if noise.spread else NOTHING
    if noise.distance is not None:
        return _graph_promise(plan, noise.distance, colluders)
    law, cap = walk_law(plan, colluders), plan.caps.contributions
    if law is None:  # every contribution carries its own full noise, whoever looks
        return NOTHING if cap is None else _gaussian(plan, cap, bounds.CAPPED)
    size = (law.n_users, law.n_steps, noise.sigma, plan.sensitivity, aim(plan), law.released, colluders, cap)
    bound = bounds.network_bound(law.task, *size, accountant=accountant)
    return Promise(bound.epsilon, bound.name)


def _graph_promise(plan: Plan, distance: int, colluders: int) -> Promise:
    """Of the worst pair that far apart; of several observers together of the worst set, or else of everybody."""
    cap, sigma = plan.caps.contributions, plan.noise.sigma
    assert sigma is not None
    valid = [] if cap is None else [_gaussian(plan, cap, bounds.CAPPED)]
    if noise_at_every_step(plan):
        from network_dp.graphs import promise as graphs  # only graphs need it

        if colluders == 1:
            valid.append(Promise(graphs.worst_pair(plan, distance), WORST_PAIR))
        elif (found := graphs.worst_set(plan, colluders, distance)) < math.inf:
            valid.append(Promise(found, WORST_SET))
        else:
            valid.append(Promise(graphs.against_all(plan), AGAINST_ALL))
    return min(valid, key=lambda found: math.inf if found.epsilon is None else found.epsilon, default=NOTHING)


def _gaussian(plan: Plan, exposure: int, bound: str) -> Promise:
    value = bounds.exposure_epsilon(exposure, plan.mechanism.size, plan.sensitivity, aim(plan))
    return Promise(value, bound, exposure * (plan.sensitivity / plan.mechanism.size) ** 2)


def _anonymous_promise(plan: Plan, rounds: Rounds, colluders: int) -> Promise:
    """Against any users that pool what they see, as many as the plan withstands; against more: nothing.

    Hidden path: every step is a secretly subsampled Gaussian of rate 1/(least attendance - c), convex loss or not
    (THEORY.md#hidden-path); steps that an absence made known compose as a Gaussian. Masked sum: every attempt shows a
    total under one full noise of the honest users (THEORY.md#masked-sum).
    """
    if colluders > rounds.colluders:
        return NOTHING
    size = plan.mechanism.size
    if plan.in_one_round:
        return _gaussian(plan, rounds.attempts, EXACT)
    from network_dp import hidden  # scipy's optimisation takes a while to import

    mu, known = plan.sensitivity / size, float(rounds.known_steps)
    value = hidden.epsilon(plan.walk.min_live, plan.total_steps, mu, aim(plan), rounds.colluders, known)
    return Promise(value, bounds.HIDDEN)


def _response_promise(plan: Plan, colluders: int, accountant: bounds.Accountant) -> Promise:
    """Randomised response before the run, for the least number of live users."""
    response, live = response_of(plan), plan.walk.min_live
    if live <= colluders or (not plan.topology.drawn and colluders > 1):
        return NOTHING
    if not plan.topology.drawn:
        size = (live, plan.walk.rounds or 0, response.n_buckets, response.gamma)
        value = shuffle.ring_epsilon(*size, plan.noise.delta, plan.walk.release == "all", plan.noise.reissues)
        return Promise(value, "privacy-loss distributions of all windows, composed")
    valid = [Promise(response_law(plan, live, plan.noise.delta, colluders), bounds.RENYI)]
    if accountant == "tightest":
        law = Law("sum", live, plan.total_steps, colluders, plan.walk.release == "all")
        valid.append(Promise(response_walk.epsilon(law, response, plan.noise.delta), bounds.COMPOSED))
    if plan.caps.contributions is not None:
        valid.append(Promise(local_epsilon(plan, plan.caps.contributions), bounds.CAPPED))
    return min(valid, key=lambda found: math.inf if found.epsilon is None else found.epsilon)


def response_law(plan: Plan, n_live: int, delta: float, colluders: int, orders: Floats | None = None) -> float:
    """Randomised response on the complete graph: eps of the walk's Renyi moments."""
    response, released = response_of(plan), plan.walk.release == "all"
    orders = shuffle.ORDERS if orders is None else orders
    size = (n_live, plan.total_steps, response.n_buckets, response.gamma)
    return shuffle.complete_epsilon(*size, delta, released, colluders, orders, "renyi")


def laplace_epsilon(plan: Plan, n_contributions: float) -> float:
    """Pure eps: Delta_1 / scale for each contribution seen (L1 sensitivity <= sqrt(d) times L2)."""
    return n_contributions * math.sqrt(plan.task.dimension) * plan.sensitivity / plan.mechanism.size


def reached_epsilon(plan: Plan) -> float | None:
    """The epsilon that the plan's noise gives, of the kind its ``noise.epsilon`` asks for; None: no bound is known."""
    if plan.noise.against == "network":
        return promised_epsilon(plan)
    most = most_contributions(plan)
    return None if most is None else local_epsilon(plan, most)


def most_contributions(plan: Plan) -> int | None:
    """How often one user gives data at most, abandoned tokens included; None on a walk without a cap."""
    cap = plan.caps.contributions
    if plan.rounds is not None and plan.in_one_round:
        return plan.rounds.attempts
    if plan.topology.drawn:
        return cap
    rounds = (plan.walk.rounds or 0) + plan.noise.reissues
    return rounds if cap is None else min(cap, rounds)


def usual_local_epsilon(plan: Plan) -> float:
    """eps if somebody sees every message, for as many contributions as a user may make, but for half of delta where
    chance decides: it does not depend on how often anybody really did, which a hidden path keeps secret."""
    most = most_contributions(plan)
    if most is not None:
        return local_epsilon(plan, most)
    half = plan.noise.delta / 2
    count = bounds.visits(plan.walk.min_live, plan.total_steps, half)
    return local_epsilon(replace(plan, noise=replace(plan.noise, delta=half)), count)


def local_epsilon(plan: Plan, n_contributions: int) -> float:
    """eps if somebody sees every message (THEORY.md#exposure-local): infinite on a ring that shares its noise."""
    noise = plan.noise
    if plan.mechanism.pure:
        return math.inf
    if not plan.mechanism.additive:
        response = response_of(plan)
        return shuffle.local_epsilon(n_contributions, response.n_buckets, response.gamma, noise.delta)
    assert noise.sigma is not None
    kind: Literal["full", "ring", "spread_ring"] = "full"
    if plan.noise_rule.by_ledger:
        kind = "spread_ring" if noise.spread else "ring"
    value = exposure.local(n_contributions, kind, plan.n)
    if plan.in_one_round:  # a share alone is a small part of a noise
        value *= plan.unit_count
    return bounds.exposure_epsilon(value, noise.sigma, plan.sensitivity, aim(plan))
