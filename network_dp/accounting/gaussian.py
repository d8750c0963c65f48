"""Exact calculus of Gaussian mechanisms: mu <-> (epsilon, delta).

A mechanism is mu-GDP when telling two neighbours apart is no easier than telling N(0, 1) from N(mu, 1)
(Dong, Roth & Su 2022). Its exact privacy profile (Balle & Wang 2018, Thm 8) is

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

With x = epsilon/mu - mu/2, density phi and Mills ratio M(s) = Phi(-s)/phi(s), e^epsilon phi(x + mu) = phi(x), so

    delta(epsilon) = phi(x) (M(x) - M(x + mu)) = phi(x) * integral of (1 - s M(s)) over [x, x + mu].

No term overflows, and the integral has no cancellation when mu is small: this is what the code evaluates.
Gaussian mechanisms compose by adding mu^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from network_dp.errors import require, require_share

Floats = NDArray[np.float64]

_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_FAR = 1e150  # the density is 0 or 1 long before, and its square is still a number
_SMALL_MU = 0.5  # below it the integral is used; 12 nodes then leave no error above rounding
_ASYMPTOTIC_FROM = 30.0  # from here on six terms of the asymptotic series are exact to rounding


def _mills(s: Floats) -> Floats:
    """M(s) = Phi(-s) / phi(s)."""
    return _SQRT_HALF_PI * np.asarray(erfcx(s / math.sqrt(2)), dtype=np.float64)


def _mills_slope(s: Floats) -> Floats:
    """-M'(s) = 1 - s M(s), by its asymptotic series where the difference would cancel."""
    inverse_square = 1.0 / np.maximum(s, _ASYMPTOTIC_FROM) ** 2
    series = np.zeros_like(inverse_square)
    for odd in (11.0, 9.0, 7.0, 5.0, 3.0, 1.0):
        series = odd * inverse_square * (1.0 - series)
    return np.where(s > _ASYMPTOTIC_FROM, series, 1.0 - s * _mills(np.minimum(s, _ASYMPTOTIC_FROM)))


def _log_delta(mu: Floats, epsilon: Floats) -> Floats:
    """ln delta(epsilon) for arrays of mu > 0 (finite) and epsilon >= 0."""
    with np.errstate(over="ignore"):
        x = np.clip(epsilon / mu - mu / 2, -_FAR, _FAR)
    # The integral is for small mu, where x >= -mu/2; elsewhere it is not used, and M(x) at a far negative x overflows.
    start, half = np.maximum(x, -_SMALL_MU / 2), np.minimum(mu, _SMALL_MU) / 2
    nodes = (start + half)[..., None] + half[..., None] * _NODES
    integral = half * (_mills_slope(nodes) @ _WEIGHTS)
    difference = _mills(np.maximum(x, 0.0)) - _mills(x + mu)
    log_phi = -0.5 * x * x - _LOG_SQRT_2PI
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        by_integral = log_phi + np.log(integral)
        by_difference = log_phi + np.log(difference)
        by_tails = np.log(ndtr(-x) - np.exp(log_phi) * _mills(x + mu))
    return np.where(mu <= _SMALL_MU, by_integral, np.where(x >= 0, by_difference, by_tails))


def _log_delta_scalar(mu: float, epsilon: float) -> float:
    return float(_log_delta(np.array([mu]), np.array([epsilon]))[0])


def delta(mu: float, epsilon: float) -> float:
    """Exact delta of a mu-GDP mechanism at `epsilon` >= 0 (Balle & Wang 2018, Thm 8)."""
    require(mu >= 0 and epsilon >= 0, f"mu and epsilon must be >= 0, got mu={mu}, epsilon={epsilon}")
    if mu == 0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    return math.exp(min(_log_delta_scalar(mu, epsilon), 0.0))


def deltas(mus: ArrayLike, epsilons: ArrayLike) -> Floats:
    """`delta` for many mu and finite epsilon at once, broadcast against each other."""
    values, losses = np.broadcast_arrays(np.asarray(mus, dtype=np.float64), np.asarray(epsilons, dtype=np.float64))
    require(bool(np.all(values >= 0) and np.all(losses >= 0)), "every mu and epsilon must be >= 0")
    result = np.where(np.isinf(values), 1.0, 0.0)
    inside = (values > 0) & np.isfinite(values)
    with np.errstate(under="ignore"):
        result[inside] = np.exp(np.minimum(_log_delta(values[inside], losses[inside]), 0.0))
    return result


def epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon >= 0 at which a mu-GDP mechanism is (epsilon, delta)-DP."""
    require_share("delta", delta)
    require(mu >= 0, f"mu must be >= 0, got {mu}")
    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return math.inf
    target = math.log(delta)
    if _log_delta_scalar(mu, 0.0) <= target:
        return 0.0
    # At x = sqrt(2 ln(1/delta)) the first tail alone is below delta.
    highest = mu * mu / 2 + mu * math.sqrt(-2 * target)
    return _root(lambda value: _log_delta_scalar(mu, value) - target, 0.0, highest)


def epsilons(mus: ArrayLike, delta: float) -> Floats:
    """`epsilon` for many mu at once; the upper end of a relative 1e-12 is returned."""
    require_share("delta", delta)
    values = np.asarray(mus, dtype=np.float64)
    require(bool(np.all(values >= 0)), "every mu must be >= 0")
    distinct, inverse = np.unique(values, return_inverse=True)
    result = np.where(np.isinf(distinct), np.inf, 0.0)
    inside = np.flatnonzero((distinct > 0) & np.isfinite(distinct))
    inside = inside[_log_delta(distinct[inside], np.zeros(len(inside))) > math.log(delta)]
    result[inside] = _epsilons_above_zero(distinct[inside], math.log(delta))
    return result[inverse].reshape(values.shape)


def _epsilons_above_zero(mus: Floats, target: float) -> Floats:
    """Where ln delta(epsilon) falls to `target`: false position, an end that stays twice counting half (Illinois)."""
    low, high = np.zeros_like(mus), mus**2 / 2 + mus * math.sqrt(-2 * target)
    over, under = _log_delta(mus, low) - target, _log_delta(mus, high) - target
    was_over = np.zeros(len(mus), dtype=np.bool_)
    for turn in range(200):
        if bool(np.all(high - low <= 1e-12 * high)):
            break
        share = over / (over - under) if turn % 5 else 0.5  # a halving now and then, for curves far from straight
        # a little beyond the root, seen from the end that moved last: so both ends close in
        beside = np.where(was_over, 3e-13, -3e-13) * high
        middle = np.clip(low + (high - low) * share + beside, low, high)
        found = _log_delta(mus, middle) - target
        is_over = found > 0
        over, under = (
            np.where(is_over, found, np.where(was_over, over, over / 2)),
            np.where(is_over, np.where(was_over, under / 2, under), found),
        )
        low, high = np.where(is_over, middle, low), np.where(is_over, high, middle)
        was_over = is_over
    return high


def mu(epsilon: float, delta: float) -> float:
    """Largest mu at which a mu-GDP mechanism is (epsilon, delta)-DP: the inverse of `epsilon` and `delta`."""
    require_share("delta", delta)
    require(epsilon >= 0, f"epsilon must be >= 0, got {epsilon}")
    if math.isinf(epsilon):
        return math.inf
    target = math.log(delta)

    def excess(log_mu: float) -> float:
        return max(_log_delta_scalar(math.exp(log_mu), epsilon), -1e6) - target

    low, high = 0.0, 0.0
    while excess(low) > 0:
        low -= 2.0
    while excess(high) < 0:
        high += 1.0
    return math.exp(_root(excess, low, high))


def sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Least standard deviation of Gaussian noise for (epsilon, delta)-DP (analytic Gaussian mechanism)."""
    require(sensitivity >= 0, f"sensitivity must be >= 0, got {sensitivity}")
    return sensitivity / mu(epsilon, delta)


def rdp_to_epsilon(order: float, rdp: float, delta: float) -> float:
    """(alpha, rdp)-Renyi DP gives (epsilon, delta)-DP (Canonne, Kamath & Steinke 2020, Prop. 12):

    epsilon = rdp + ln((alpha-1)/alpha) - (ln delta + ln alpha)/(alpha-1).
    """
    require(order > 1, f"the Renyi order must exceed 1, got {order}")
    require(rdp >= 0, f"rdp must be >= 0, got {rdp}")
    if math.isinf(order):  # pure DP
        require_share("delta", delta)
        return rdp
    return moment_to_epsilon(order - 1, rdp * (order - 1), delta)


def moment_to_epsilon(above_one: float, log_moment: float, delta: float) -> float:
    """`rdp_to_epsilon` from alpha - 1 and (alpha - 1) rdp: keeps its precision at orders very close to 1."""
    require_share("delta", delta)
    log_order = math.log1p(above_one)
    value = log_moment / above_one + math.log(above_one) - log_order - (math.log(delta) + log_order) / above_one
    return max(value, 0.0)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    if low == high:
        return low
    return float(brentq(function, low, high, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500))
