"""The law of the least energy of a cycle, by the faces of a convex minorant (THEORY.md#minorant).

In a cycle of m steps, x_t = 1 where u contributes, else 0. The least energy that absorbs u's shifts is the sum of
height^2 / width over the faces of the greatest convex minorant of the walk 0, x_1, x_1 + x_2, ... Over all orders of
x_1 .. x_m it has the same law as sum over the cycles of a uniform permutation of (sum of x over the cycle)^2 / length:
Bohnenblust and Spitzer's lemma (Spitzer 1956; for faces: Abramson, Pitman, Ross & Uribe Bravo 2011). On a uniform walk
the x are independent, so with G(l) = E exp(b C^2/l), C ~ Binomial(l, 1/(n-c)), by the exponential formula

    sum_m g(m) z^m = exp(sum_l G(l) z^l / l) = psi(z) / (1 - z),      psi(z) = exp(sum_l (G(l) - 1) z^l / l).

With w = 1 - hit, the renewal equation has the solution F(z) = 1 / (1 - kappa(z)), kappa(z) = z + hit z (psi(w z) - 1),
where the end is not seen, and psi(w z) F(z) where it is. No coefficient is negative, since G >= 1. So if
kappa(1/growth) <= 1, then value(t) <= growth^t by induction; where the end is seen, psi(w/growth) times that, which is
at most 1 + (growth - 1)/hit.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from network_dp.accounting.renewal import Kernel, by_length, dot, least_growth, log_period, log_series, log_sum
from network_dp.accounting.rounding import UNIT

Floats = NDArray[np.float64]


def recursion(kernel: Kernel, n_steps: int) -> float:
    """ln value(T), step by step, tilted by the growth of the closed form: every value is at most 1.

    m psi(m) = sum over l of w^l (G(l) - 1) psi(m - l), the derivative of psi, and value(t) = sum kappa(j) value(t - j).
    All terms are positive, and every value is rounded up by more than the error of its sum.
    """
    log_growth = _log_growth(kernel)
    lengths = np.arange(n_steps + 1, dtype=np.float64)
    log_gain = _log_gain(by_length(kernel, kernel.log_g, lengths))
    exponent = log_gain + lengths * (kernel.log_s - log_growth)
    exponent += 8 * UNIT * (np.abs(log_gain) + lengths * (log_growth - kernel.log_s))
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        gain = (np.exp(exponent[1:]) * (1 + 16 * UNIT))[::-1].copy()
        psi = np.ones(n_steps + 1)
        for m in range(1, n_steps + 1):
            psi[m] = dot(gain[n_steps - m :], psi[:m]) / m * (1 + (m + 8) * UNIT)
        kappa = psi[:n_steps] * (math.exp(kernel.log_hit - log_growth) * (1 + 32 * UNIT * (1 - kernel.log_hit)))
        if n_steps:
            kappa[0] = math.exp(-log_growth) * (1 + 16 * UNIT)
        backwards, value = kappa[::-1].copy(), np.ones(n_steps + 1)
        for t in range(1, n_steps + 1):
            value[t] = dot(backwards[n_steps - t :], value[:t]) * (1 + (t + 8) * UNIT)
        final = dot(psi[::-1], value) * (1 + (n_steps + 8) * UNIT) if kernel.released else float(value[-1])
    if not 1e-280 < final < math.inf:  # so strong a tilt that terms underflowed: an order that no short walk needs
        return closed_form(kernel, n_steps)
    total = n_steps * log_growth
    return max(math.log(final) + total + UNIT * (64 + 4 * total + 16 * abs(math.log(final))), 0.0)


def closed_form(kernel: Kernel, n_steps: int) -> float:
    """ln of growth^T, or of what that becomes where the end is seen."""
    log_growth = _log_growth(kernel)
    seen = _log_psi_limit(kernel, log_growth) if kernel.released else 0.0
    return (n_steps * log_growth + seen) * (1 + 16 * UNIT)


def _log_gain(log_g: Floats) -> Floats:
    """ln(G - 1), rounded up."""
    value = np.where(log_g < 40, np.log(np.expm1(np.clip(log_g, UNIT, 40.0))), log_g)
    return np.asarray(value + 32 * UNIT * (1 + np.abs(value)), dtype=np.float64)


def _log_psi_limit(kernel: Kernel, log_growth: float) -> float:
    """ln(1 + (growth - 1)/hit)."""
    if log_growth > 30:
        return log_growth - kernel.log_hit
    return math.log1p(math.expm1(log_growth) * math.exp(-kernel.log_hit))


def _log_growth(kernel: Kernel) -> float:
    """ln of a growth at which kappa is at most 1: ln psi(w/growth) <= ln(1 + (growth - 1)/hit)."""
    faces = replace(kernel, start=kernel.start[1:], stop=kernel.stop[1:], log_g=kernel.log_g[1:])
    shares = _log_gain(faces.log_g) - np.log(faces.start)
    shares += 16 * UNIT * (np.abs(shares) + np.log(faces.start))

    def excess(log_growth: float) -> float:
        limit = _log_psi_limit(kernel, log_growth) * (1 - 64 * UNIT * (1 - kernel.log_hit))
        return _log_psi(kernel, faces, shares, log_growth) - limit

    return least_growth(excess)


def _log_psi(kernel: Kernel, faces: Kernel, shares: Floats, log_growth: float) -> float:
    """ln psi(w/growth) = sum over l of (G(l) - 1) (w/growth)^l / l, rounded up.

    Where the kernel repeats, with period P and factor y < 1: all later periods are at most G(l) x^l / P, summed over
    the first, times y + y^2 + ..
    """
    ratio = log_period(kernel, log_growth)
    if ratio >= 0:
        return math.inf
    series, error = log_series(faces, shares, log_growth)
    logs = series + error
    if ratio > -math.inf:
        series, error = log_series(kernel, kernel.log_g, log_growth)
        later = ratio - math.log1p(-math.exp(ratio)) - math.log(float(kernel.stop[-1]))
        logs = np.append(logs, log_sum(series + error) + later + 64 * UNIT * (1 + abs(later)))
    total = log_sum(logs) + log_growth
    return math.exp(min(total + 16 * UNIT * (1 + abs(total)), 700.0))
