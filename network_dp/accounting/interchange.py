"""A guarantee in the words of other tools: privacy-loss distribution, privacy profile, trade-off curve, Renyi orders.

All of them are upper bounds, made of the same curve delta(epsilon) (`guarantee`): computing on with them stays on
the safe side. Each has a plain form, for a file, and the objects of dp-accounting and OpenDP where those are installed.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from network_dp.accounting import composition, gaussian
from network_dp.accounting.guarantee import Guarantee, losses
from network_dp.accounting.moments import log_moment
from network_dp.errors import require
from network_dp.plan import Plan
from network_dp.promise import promised, walk_law

Floats = NDArray[np.float64]

ORDERS: Final = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 256.0)
_ALPHAS: Final = 401
INTERVAL: Final = 1e-3


def loss_distribution(guarantee: Guarantee, interval: float = INTERVAL) -> composition.Part:
    """A privacy-loss distribution that dominates the run: P(loss = (lowest + i) interval), and an infinite loss."""
    require(guarantee.exists, "nothing is promised: there is no distribution")
    most = float(guarantee.epsilons[-1])
    require(most / interval <= 1e6, f"an interval of {interval:g} is too fine for losses up to {most:g}")
    return losses(guarantee, interval)


def to_dp_accounting(guarantee: Guarantee, interval: float = INTERVAL) -> Any:
    """The same as a `PrivacyLossDistribution` of dp-accounting: symmetric, pessimistic, ready to be composed there."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    part = loss_distribution(guarantee, interval)
    masses = {part.lowest + i: mass for i, mass in enumerate(part.probabilities.tolist()) if mass > 0}
    pmf = pld_pmf.create_pmf(masses, interval, part.infinite, pessimistic_estimate=True)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def to_opendp(guarantee: Guarantee) -> Any:
    """The same as a `PrivacyProfile` of OpenDP (needs its features contrib and honest-but-curious)."""
    import opendp.prelude as dp

    return dp.new_privacy_profile(guarantee.delta)  # type: ignore[no-untyped-call]


def trade_off(guarantee: Guarantee, n_points: int = _ALPHAS) -> tuple[Floats, Floats]:
    """(alpha, beta): whoever accuses an innocent user's data with probability alpha misses a guilty one with at least
    beta (f-DP; Dong, Roth & Su 2022, Prop. 6). beta = max over epsilon of 1 - delta - e^epsilon alpha and
    e^-epsilon (1 - delta - alpha), both directions being alike."""
    alphas = np.concatenate([[0.0], np.geomspace(1e-9, 0.01, n_points // 4), np.linspace(0.01, 1.0, n_points)[1:]])
    epsilons = np.append(0.0, guarantee.epsilons) if guarantee.exists else np.zeros(1)
    rest = 1.0 - guarantee.deltas_at(epsilons)
    with np.errstate(over="ignore", invalid="ignore"):
        steep = rest[:, None] - np.where(alphas[None, :] > 0, np.exp(epsilons)[:, None] * alphas[None, :], 0.0)
        flat = np.exp(-epsilons)[:, None] * (rest[:, None] - alphas[None, :])
    best = np.maximum(np.maximum(steep, flat).max(axis=0), 0.0)
    return alphas, np.asarray(best * (1 - 1e-12), dtype=np.float64)


def trade_off_csv(guarantee: Guarantee) -> str:
    """The f-DP curve as CSV with the columns alpha and beta."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("alpha", "beta"))
    writer.writerows(zip(*(values.tolist() for values in trade_off(guarantee)), strict=True))
    return text.getvalue()


def renyi(plan: Plan, orders: Sequence[float] = ORDERS, colluders: int = 1) -> dict[float, float] | None:
    """(alpha, epsilon_alpha)-Renyi DP of a plan; None where no moment of it is known.

    Gaussian: alpha mu^2/2. A walk: ln E exp(b S) / (alpha - 1), b = alpha (alpha - 1) (Delta/sigma)^2/2. Pure epsilon:
    the lesser of epsilon and alpha epsilon^2/2 (Bun & Steinke 2016)."""
    found, law = promised(plan, colluders), walk_law(plan, colluders)
    if found.epsilon is None:
        return None
    if found.mu2 is not None:
        return {order: order * found.mu2 / 2 for order in orders}
    if plan.mechanism.pure:
        return {order: min(found.epsilon, order * found.epsilon**2 / 2) for order in orders}
    if law is None:
        return None
    mu = plan.sensitivity / plan.mechanism.size
    values = {order: log_moment(law, order * (order - 1) * mu * mu / 2) / (order - 1) for order in orders}
    return {order: value for order, value in values.items() if math.isfinite(value)}


def as_plain(guarantee: Guarantee, interval: float = INTERVAL) -> dict[str, Any]:
    """Profile and privacy-loss distribution as plain numbers, for JSON."""
    known: dict[str, Any] = {
        "adjacency": "replacement of all data of one user",
        "mu": None if guarantee.mu2 is None else math.sqrt(guarantee.mu2),
        "profile": {"epsilon": guarantee.epsilons.tolist(), "delta": guarantee.deltas.tolist()},
    }
    if guarantee.exists:
        part = loss_distribution(guarantee, interval)
        known["pld"] = {
            "interval": interval,
            "lowest": part.lowest,
            "probabilities": part.probabilities.tolist(),
            "infinity_mass": part.infinite,
        }
    return known


def of_exposure(plan: Plan, exposure: float) -> Guarantee:
    """What one pair of a finished run has come to: a Gaussian mechanism with mu^2 = S (Delta/sigma)^2."""
    from network_dp.accounting.guarantee import of_gaussian

    require(plan.mechanism.by_exposure, "a pair's guarantee is a curve for Gaussian noise only")
    require(math.isfinite(exposure), "this pair has no guarantee: some combination shows data without noise")
    mu = math.sqrt(exposure) * plan.sensitivity / plan.mechanism.size
    require(mu > 0, "this observer saw nothing of that user")
    return of_gaussian(max(mu, 1e-12), min(plan.noise.delta, gaussian.delta(mu, 0.0)) * 1e-4)
