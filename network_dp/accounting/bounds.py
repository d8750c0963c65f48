"""Valid privacy bounds before a run: what a plan may promise (THEORY.md#before-a-run, #ring).

Every bound is user-level, replacement adjacency, and holds even when every user knows the whole path, except where
`path="hidden"` is asked for. On the complete graph `n_users` is the least number of live, accepting users.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from network_dp.accounting import gaussian, profile
from network_dp.accounting.moments import EXACT_STEPS, RECURSION_STEPS, Law, Task, log_moment
from network_dp.errors import require, require_noise, require_share, require_whole

Path = Literal["known", "hidden"]
Accountant = Literal["tightest", "renyi"]  # renyi: of any length in a second, and with more noise

# b = alpha (alpha - 1) Delta^2 / (2 sigma^2) is searched on a fixed grid, so that moments are shared between sigmas.
GRID = 0.05
_LOWEST, _HIGHEST = -400, 160
LEAST_MU, GREATEST_MU = 1e-140, 1e140  # Delta/sigma whose square is still a number; rounding up is safe


@dataclass(frozen=True)
class NetworkBound:
    """An ex-ante bound, which one it is and, if infinite, the reason."""

    epsilon: float
    name: str = ""
    reason: str = ""


#: What bounds are called where people read them.
PROFILE, COMPOSED, RENYI, HIDDEN, CAPPED = (
    "Gaussian profile averaged over paths",
    "exact compositions averaged over paths",
    "Renyi moments averaged over paths",
    "subsampled Gaussian, path hidden",
    "every contribution seen, as many as the cap allows",
)


def network_epsilon(
    task: Task,
    n_users: int,
    n_steps: int,
    sigma: float,
    sensitivity: float,
    delta: float,
    released: bool = False,
    colluders: int = 1,
    cap: int | None = None,
    path: Path = "known",
    accountant: Accountant = "tightest",
) -> float:
    """Epsilon of network DP for the uniform walk on the complete graph; see `network_bound`."""
    size = (n_users, n_steps, sigma, sensitivity, delta, released, colluders, cap)
    return network_bound(task, *size, path, accountant).epsilon


def network_bound(
    task: Task,
    n_users: int,
    n_steps: int,
    sigma: float,
    sensitivity: float,
    delta: float,
    released: bool = False,
    colluders: int = 1,
    cap: int | None = None,
    path: Path = "known",
    accountant: Accountant = "tightest",
) -> NetworkBound:
    """Epsilon at `delta` of the view of any `colluders` users (1: a single observer), about any other user.

    The least of two valid bounds. The path does not depend on data and may be revealed, so delta is at most the average
    of the exact Gaussian one over all paths (`profile`; THEORY.md#profile), where that can be computed. And
    (alpha-1) eps_alpha <= ln E_path exp(b S_uv), because the Renyi moment is jointly convex; converted by Canonne,
    Kamath & Steinke 2020, Prop. 12, with the best order; accountant="renyi": this one alone. Conditions: next
    holder uniform over all users (also by colluders); "sgd": convex, beta-smooth, every step size at most 2/beta,
    projection on a convex set, sensitivity = 2 L. `cap`: contributions per user (later visits add noise only), which
    also bounds S by `cap`.

    path="hidden": T-fold subsampled Gaussian, valid only if nobody can tell who else held the token and if
    contributions do not depend on the user's own visit count (so `cap` is refused).
    """
    law = Law(task, n_users, n_steps, colluders, released)
    require_noise(sigma, sensitivity)
    require_share("delta", delta)
    if cap is not None:
        require_whole("cap", cap)
    require(path in ("known", "hidden"), f'path must be "known" or "hidden", got {path!r}')
    independent = cap is None or path == "known"
    require(independent, 'path="hidden" needs contributions that do not depend on the visit count: no cap')
    if n_steps == 0 or sensitivity == 0 or cap == 0:
        return NetworkBound(0.0)
    if sigma == 0:
        return NetworkBound(math.inf, reason="sigma is 0: there is no noise")
    mu = max(sensitivity / sigma, LEAST_MU)
    if not mu <= GREATEST_MU:
        reason = "sigma is too small for the sensitivity: there is hardly any noise"
        return NetworkBound(math.inf, reason=reason)
    # Hiding the path takes something away from the observer: what holds for a known path still does, and with few users
    # or little noise it is better, or within the range of the accountant.
    valid = []
    if path == "hidden":
        valid.append(_hidden(law, mu, delta))
    if accountant == "tightest":
        valid.append(NetworkBound(profile.epsilon(law, 1.0, mu, delta), PROFILE))
    if accountant == "renyi" or not profile.is_fine(law, delta) or math.isinf(valid[-1].epsilon):
        valid.append(_renyi(law, mu, delta))
    if cap is not None:
        valid.append(NetworkBound(gaussian.epsilon(math.sqrt(cap) * mu, delta), CAPPED))
    best = min(valid, key=lambda bound: bound.epsilon)
    if math.isinf(best.epsilon):
        return NetworkBound(math.inf, reason="no Renyi order has a finite moment: sigma is too small")
    return best


def _hidden(law: Law, mu: float, delta: float) -> NetworkBound:
    from network_dp import hidden  # scipy's optimisation takes a while to import

    return NetworkBound(hidden.epsilon(law.n_users, law.n_steps, mu, delta, law.colluders), HIDDEN)


@lru_cache(maxsize=100_000)
def _cached_moment(law: Law, index: int, refine: bool) -> float:
    return log_moment(law, math.exp(index * GRID), refine)


def _renyi(law: Law, mu: float, delta: float) -> NetworkBound:
    """Best Renyi order, by a search over the grid of b. Any order is valid; a better one is only tighter."""

    def at(index: int, refine: bool = False) -> float:
        # Beyond 1/delta the conversion only gets worse; a lower order has a lower moment than the one used.
        above_one = min(order_above_one(index, mu), 1 / delta)
        return gaussian.moment_to_epsilon(above_one, _cached_moment(law, index, refine), delta)

    best = least_index(at, _LOWEST, _HIGHEST)
    epsilon = at(best)
    if EXACT_STEPS < law.n_steps <= RECURSION_STEPS and math.isfinite(epsilon):
        epsilon = min(epsilon, at(best, refine=True))
    return NetworkBound(epsilon, RENYI)


def order_above_one(index: int, mu: float) -> float:
    """alpha - 1 > 0 with alpha (alpha - 1) mu^2 / 2 = b."""
    ratio = 2 * math.exp(index * GRID) / (mu * mu)
    return 2 * ratio / (1 + math.sqrt(1 + 4 * ratio))


def least_index(function: Callable[[int], float], low: int, high: int) -> int:
    """Ternary search for the least value between low and high; infinite values all lie to the right of finite ones."""
    while high - low > 2:
        left = low + (high - low) // 3
        right = high - (high - low) // 3
        left_value = function(left)
        if math.isinf(left_value):
            high = left
        elif left_value <= function(right):
            high = right
        else:
            low = left
    return min(range(low, high + 1), key=function)


def ring_epsilon(n_rounds: int, sigma: float, sensitivity: float, delta: float, reissues: int = 0) -> float:
    """Network DP of the ring's real sum (Alg. 1 and the spread ring), released with closing noise or not.

    Every increment that any one user sees holds one full foreign noise for each round since it last held the token, and
    one contribution of each other user; so S <= K and the whole run is one Gaussian mechanism with
    mu = sqrt(K) Delta / sigma (THEORY.md#ring-missed-rounds; ADR 13). Whoever saw a token that was lost and taken up
    again saw one round more: S <= K + `reissues` (ADR 19). Against two colluders around a user a ring gives nothing:
    see `exposure.local`.
    """
    require_whole("n_rounds", n_rounds)
    require_whole("reissues", reissues)
    return _gaussian_epsilon(float(n_rounds + reissues), sigma, sensitivity, delta)


def local_epsilon(n_contributions: int, sigma: float, sensitivity: float, delta: float) -> float:
    """Local DP of contributions that each carry their own full noise: exact, mu = sqrt(k) Delta / sigma."""
    require_whole("n_contributions", n_contributions)
    return _gaussian_epsilon(float(n_contributions), sigma, sensitivity, delta)


def exposure_epsilon(exposure: float, sigma: float, sensitivity: float, delta: float) -> float:
    """Epsilon of a pair with the given exposure S on an actual path (THEORY.md#exposure)."""
    require(exposure >= 0, f"exposure must be >= 0, got {exposure}")
    return _gaussian_epsilon(exposure, sigma, sensitivity, delta)


def _gaussian_epsilon(exposure: float, sigma: float, sensitivity: float, delta: float) -> float:
    require_noise(sigma, sensitivity)
    if exposure == 0 or sensitivity == 0:
        return gaussian.epsilon(0.0, delta)
    return gaussian.epsilon(math.sqrt(exposure) * sensitivity / sigma if sigma > 0 else math.inf, delta)


def visits(n_users: int, n_steps: int, delta_hat: float) -> int:
    """Least N with P(a given user is visited more than N times in T uniform steps) <= delta_hat: exact binomial."""
    from scipy.special import betainc

    require_whole("n_users", n_users, 1)
    require_whole("n_steps", n_steps)
    require_share("delta_hat", delta_hat)
    low, high = -1, n_steps  # P(X > low) > delta_hat >= P(X > high)
    while high - low > 1:
        middle = (low + high) // 2
        # P(X > k) is an incomplete beta function: precise however small (scipy's own quantile is not below 1e-16)
        rare = float(betainc(middle + 1, n_steps - middle, 1 / n_users)) <= delta_hat
        low, high = (low, middle) if rare else (middle, high)
    return high
