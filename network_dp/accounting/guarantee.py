"""A guarantee as a whole curve delta(epsilon), and what several of them add up to (THEORY.md#budget).

A plan's promise is asked for at many deltas; between two of these points the true delta is below the chord in
e^epsilon, in which every privacy profile is convex. All pairs here are symmetric (replacement), so that one curve
bounds both directions and gives, by reflection, the negative losses too: connecting the dots makes a pair of
distributions that dominates the run, and such pairs compose. Gaussian mechanisms compose exactly, by adding mu^2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from network_dp.accounting import bounds, composition, gaussian, profile
from network_dp.errors import require_share
from network_dp.ledger import Charge, LedgerError, Walked
from network_dp.plan import Plan
from network_dp.promise import DISCRETE_INFLATION, promised, walk_law

Floats = NDArray[np.float64]

_POINTS: Final = 33
_HIGHEST: Final = 0.3  # delta of the first point
_SMALLEST: Final = 1e-4  # delta of the last one, in units of the plan's
_FINE: Final = 301  # points of a curve that is known everywhere: their distance is felt when many runs compose
_CELLS: Final = 100_000


@dataclass(frozen=True)
class Guarantee:
    """delta(epsilon) at points with rising epsilon; `mu2` where a Gaussian mechanism's. No points: no guarantee."""

    epsilons: Floats
    deltas: Floats
    mu2: float | None = None

    @property
    def exists(self) -> bool:
        return len(self.epsilons) > 0

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at any epsilon >= 0."""
        return float(self.deltas_at(np.array([epsilon]))[0])

    def deltas_at(self, epsilons: Floats) -> Floats:
        if not self.exists:
            return np.ones_like(epsilons)
        known, values = np.append(-1e-300, self.epsilons), np.append(1.0, self.deltas)  # delta <= 1 below the first
        right = np.minimum(np.searchsorted(known, epsilons, side="right"), len(known) - 1)
        left = right - 1
        # a chord in e^epsilon, seen from its right end: nothing overflows
        share = np.expm1(epsilons - known[right]) / np.expm1(known[left] - known[right])
        chord = values[right] + (values[left] - values[right]) * np.clip(share, 0.0, 1.0)
        return np.asarray(np.where(epsilons >= known[-1], values[-1], chord), dtype=np.float64)

    def epsilon(self, delta: float) -> float:
        """Least epsilon found at which delta(epsilon) <= `delta`; infinite below the last point."""
        require_share("delta", delta)
        if not self.exists or delta < self.deltas[-1]:
            return math.inf
        low, high = 0.0, float(self.epsilons[-1])
        if self.delta(0.0) <= delta:
            return 0.0
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return min(high, float(self.epsilons[self.deltas <= delta][0]))


def of_plan(plan: Plan, colluders: int = 1) -> Guarantee:
    """What a calibrated plan promises, at all deltas down to a ten-thousandth of its own."""
    first = promised(plan, colluders)
    if first.epsilon is None or math.isinf(first.epsilon):
        return Guarantee(np.zeros(0), np.zeros(0))
    if plan.mechanism.pure:  # the profile of randomised response bounds all that is epsilon-DP: a chord
        return Guarantee(np.array([0.0, first.epsilon]), np.array([math.tanh(first.epsilon / 2), 0.0]))
    if first.mu2 is not None:
        exact = of_gaussian(math.sqrt(first.mu2), plan.noise.delta * _SMALLEST)
        return Guarantee(exact.epsilons, np.minimum(exact.deltas * DISCRETE_INFLATION, 1.0), first.mu2)
    curve = _asked_for(plan, colluders)
    law = walk_law(plan, colluders)
    if law is None or first.bound != bounds.PROFILE:
        return curve
    # The averaged profile is a curve by itself, as fine as one likes; what was asked for is lower in its tail.
    epsilons = np.unique(np.append(np.linspace(0.0, float(curve.epsilons[-1]), _FINE), curve.epsilons))
    deltas = profile.deltas(law, plan.mechanism.size, plan.sensitivity, epsilons) * DISCRETE_INFLATION
    return Guarantee(epsilons, np.minimum.accumulate(np.minimum(deltas, curve.deltas_at(epsilons))))


def _asked_for(plan: Plan, colluders: int) -> Guarantee:
    points: dict[float, float] = {}
    grid = np.geomspace(_HIGHEST, max(plan.noise.delta * _SMALLEST, 1e-15), _POINTS)
    for delta in (plan.noise.delta, *grid.tolist()):
        found = promised(replace(plan, noise=replace(plan.noise, delta=delta)), colluders).epsilon
        if found is not None and math.isfinite(found):
            points[found] = min(delta, points.get(found, 1.0))
    epsilons = sorted(points)
    falling = np.minimum.accumulate([points[epsilon] for epsilon in epsilons])
    return Guarantee(np.array(epsilons), np.asarray(falling, dtype=np.float64))


def of_gaussian(mu: float, smallest: float) -> Guarantee:
    """A Gaussian mechanism's curve, down to the smallest delta that matters; its points are exact, rounded up."""
    epsilons = np.linspace(0.0, max(gaussian.epsilon(mu, smallest), 1e-9), _FINE)
    return Guarantee(epsilons, np.minimum(gaussian.deltas(mu, epsilons) * (1 + 1e-9), 1.0), mu * mu)


def charge_of(final: Plan) -> Charge:
    """What a run of the plan costs each of its users at most: to be charged before any token."""
    plan = final
    if plan.noise.distance is not None:  # on a graph it is the worst pair that counts, whatever the plan aims at
        plan = replace(plan, noise=replace(plan.noise, distance=1))
    found, bound = of_plan(plan), promised(plan).bound
    points = tuple(zip(found.epsilons.tolist(), found.deltas.tolist(), strict=True))
    return Charge(final.hash, final.run_id, final.name, bound, found.mu2, points)


def of_charge(charge: Charge) -> Guarantee:
    """A charge as a curve; one whose mu^2 is not that of its points is refused."""
    points = np.array(charge.points, dtype=np.float64).reshape(-1, 2)
    found = Guarantee(points[:, 0], points[:, 1], charge.mu2)
    if found.mu2 is not None:
        exact = gaussian.deltas(math.sqrt(found.mu2), found.epsilons)
        highest = np.minimum(exact * (1 + 2 * (DISCRETE_INFLATION - 1)), 1.0)
        if not found.exists or not np.all((exact <= found.deltas) & (found.deltas <= highest)):
            raise LedgerError(
                f"the charge of run {charge.run[:12]} contradicts itself (its points are not those of its mu2): "
                f"provision or accept the plan again"
            )
    return found


def of_run(charge: Charge, walked: Walked | None) -> Guarantee:
    """What a run counts as: its charge or, where it showed more than that at its delta, what it showed.

    Never less than the charge. A Gaussian mechanism counts as the higher of both curves. Of any other only the point
    (epsilon, delta) is known: neighbours are symmetric, so that delta(0) <= t + delta (1 - t), t = tanh(epsilon/2), and
    below that delta nothing is known (THEORY.md#budget).
    """
    charged = of_charge(charge)
    if walked is None or not charged.exists:
        return charged
    if walked.epsilon is None:
        return Guarantee(np.zeros(0), np.zeros(0))
    least = walked.epsilon / (1 + walked.slack)  # the same cost computed in two ways is no excess
    if charged.mu2 is None:
        within = charged.delta(least) > walked.delta
    else:
        within = gaussian.delta(math.sqrt(charged.mu2), least) * DISCRETE_INFLATION > walked.delta
    if within or walked.epsilon == 0:
        return charged
    if not walked.gaussian:
        t = math.tanh(walked.epsilon / 2)
        return Guarantee(np.array([0.0, walked.epsilon]), np.array([t + walked.delta * (1 - t), walked.delta]))
    mu = gaussian.mu(walked.epsilon, walked.delta / DISCRETE_INFLATION) * (1 + 1e-9)
    seen = of_gaussian(mu, max(float(charged.deltas[-1]), 1e-300))
    epsilons = np.union1d(seen.epsilons, charged.epsilons)
    deltas = np.maximum(np.minimum(seen.deltas_at(epsilons) * DISCRETE_INFLATION, 1.0), charged.deltas_at(epsilons))
    return Guarantee(epsilons, deltas, None if charged.mu2 is None else max(seen.mu2 or 0.0, charged.mu2))


def composed_epsilon(parts: Iterable[Guarantee], delta: float) -> float:
    """Epsilon at `delta` of all of them together; infinite where one of them is no guarantee."""
    require_share("delta", delta)
    guarantees = list(parts)
    if not all(part.exists for part in guarantees):
        return math.inf
    gaussians = [part.mu2 for part in guarantees if part.mu2 is not None]
    others = [part for part in guarantees if part.mu2 is None]
    if len(others) == len(guarantees) == 1:
        return others[0].epsilon(delta)
    aim, mu = delta / DISCRETE_INFLATION ** len(gaussians), math.sqrt(math.fsum(gaussians))
    if not others:
        return gaussian.epsilon(mu, aim) * (1 + 1e-12)
    if mu > 0:
        others.append(of_gaussian(mu, aim * _SMALLEST))
    tops = [float(part.epsilons[-1]) for part in others]
    interval = max(min(1e-2, min(top for top in tops if top > 0) / 400), max(tops) / _CELLS) if any(tops) else 1e-2
    return composition.epsilon([losses(part, interval) for part in others], interval, aim)


def losses(part: Guarantee, interval: float) -> composition.Part:
    """Losses on a grid that dominate the guarantee: its curve for losses >= 0, its reflection below."""
    count = math.ceil(float(part.epsilons[-1]) / interval) + 1
    up = part.deltas_at(np.arange(count + 1, dtype=np.float64) * interval)
    size = np.arange(count, 0, -1) * interval
    down = -np.expm1(-size) + np.exp(-size) * up[:0:-1]
    return composition.connected(np.concatenate([down, up]), interval, -count, 1)
