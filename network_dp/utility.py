"""Expected error of every algorithm (THEORY.md#estimates). Standard deviations, not bounds, unless said."""

from __future__ import annotations

import math
from typing import Literal

from network_dp.errors import AccountingError, require, require_whole

Topology = Literal["ring", "complete"]


def _check_ring(n_users: int, n_rounds: int) -> None:
    require(n_users >= 3, f"a ring needs at least 3 users, got {n_users}")
    require_whole("n_rounds", n_rounds, 1)


def ring_noises(n_users: int, n_rounds: int, released: bool) -> int:
    """Full noises in K rounds of Alg. 1 without faults.

    The last holder hands nothing over: Kn - 1 hops, with noise at hops 1, n, 2n-1, ..., which are
    ceil((Kn-1)/(n-1)). A release adds one full closing noise (THEORY.md#release). The paper prints floor(Kn/(n-1)).
    """
    _check_ring(n_users, n_rounds)
    hops = n_rounds * n_users - 1
    return -(-hops // (n_users - 1)) + (1 if released else 0)


def spread_ring_noises(n_users: int, n_rounds: int, released: bool) -> float:
    """Variance, in units of sigma^2, of the ring whose noise is spread over users (Remark 1, corrected).

    Hop 1 brings a full noise, each of the other Kn - 2 hops sigma^2/(n-1), the closing hop of a release a full one.
    """
    _check_ring(n_users, n_rounds)
    return 1 + (n_rounds * n_users - 2) / (n_users - 1) + (1 if released else 0)


def sum_std(
    sigma: float,
    *,
    topology: Topology,
    n_users: int | None = None,
    n_rounds: int | None = None,
    n_steps: int | None = None,
    released: bool = False,
    spread: bool = False,
) -> float:
    """Standard deviation of the noise in the final token of a sum (per coordinate)."""
    require(sigma >= 0, f"sigma must be >= 0, got {sigma}")
    require(topology in ("ring", "complete"), f'topology must be "ring" or "complete", got {topology!r}')
    if topology == "complete":
        if n_steps is None:
            raise AccountingError("the complete graph needs n_steps")
        require_whole("n_steps", n_steps)
        return sigma * math.sqrt(n_steps)
    if n_users is None or n_rounds is None:
        raise AccountingError("a ring needs n_users and n_rounds")
    noises = spread_ring_noises if spread else ring_noises
    return sigma * math.sqrt(noises(n_users, n_rounds, released))


def mean_std(
    sigma: float,
    *,
    topology: Topology,
    n_users: int,
    n_rounds: int | None = None,
    n_steps: int | None = None,
    released: bool = False,
    spread: bool = False,
    value_std: float = 0.0,
    cap: int | None = None,
) -> float:
    """Standard deviation of the estimated mean over users.

    Ring: noise of the sum over Kn. Complete graph: the sum over its number of real contributions, plus the sampling
    error of the walk, value_std / sqrt(contributions), where value_std is the spread of the users' values. With a `cap`
    noise of all T steps stays while the contributions shrink to their expected number.
    """
    noise = sum_std(
        sigma, topology=topology, n_users=n_users, n_rounds=n_rounds, n_steps=n_steps, released=released, spread=spread
    )
    if topology == "ring":
        return noise / (n_users * (n_rounds or 1))
    steps = n_steps or 0
    contributions = float(steps) if cap is None else n_users * mean_capped(steps, 1 / n_users, cap)
    if contributions == 0:
        return math.inf
    return math.hypot(noise / contributions, value_std / math.sqrt(contributions))


def mean_capped(trials: int, p: float, cap: int) -> float:
    """E min(X, cap), X ~ Binomial(trials, p); what lies ten deviations out is left away."""
    mean, reach = trials * p, 10.0 * math.sqrt(trials * p * (1.0 - p)) + 20.0
    if cap >= mean + reach:
        return mean
    first, last = max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))
    log_p, log_q, log_all = math.log(p), math.log1p(-p), math.lgamma(trials + 1)
    return math.fsum(
        min(x, cap)
        * math.exp(log_all - math.lgamma(x + 1) - math.lgamma(trials - x + 1) + x * log_p + (trials - x) * log_q)
        for x in range(first, last + 1)
    )


def histogram_std(
    n_responses: int, n_buckets: int, gamma: float, n_random: int = 0, share: float | None = None
) -> float:
    """Standard deviation of one debiased count h = (tau - (gamma N + R)/L) / (1 - gamma) (THEORY.md#debiasing).

    `share`: fraction of the true answers in that bucket; None takes the worse of 0 and 1 (variance is linear in it).
    """
    require(0 <= gamma <= 1, f"gamma must lie in [0, 1], got {gamma}")
    require_whole("n_buckets", n_buckets, 2)
    if gamma == 1:  # nothing but uniform answers
        return math.inf
    stay, stray, uniform = 1 - gamma + gamma / n_buckets, gamma / n_buckets, 1 / n_buckets
    mine, other = stay * (1 - stay), stray * (1 - stray)
    per_response = max(mine, other) if share is None else share * mine + (1 - share) * other
    variance = n_responses * per_response + n_random * uniform * (1 - uniform)
    return math.sqrt(variance) / (1 - gamma)


def sgd_suboptimality(diameter: float, lipschitz: float, dimension: int, sigma: float, n_steps: int) -> float:
    """Upper bound on E F(tau) - F(w*) for eta_t = D/(G sqrt t) (Prop. 1, after Shamir & Zhang 2013, Thm 2).

    2 D G (2 + ln T)/sqrt(T), G^2 = L^2 + d sigma^2.
    """
    require_whole("n_steps", n_steps, 1)
    require_whole("dimension", dimension, 1)
    require(
        diameter >= 0 and lipschitz >= 0 and sigma >= 0,
        f"diameter, lipschitz and sigma must be >= 0, got {diameter}, {lipschitz} and {sigma}",
    )
    gradient = math.sqrt(lipschitz**2 + dimension * sigma**2)
    return 2 * diameter * gradient * (2 + math.log(n_steps)) / math.sqrt(n_steps)
