"""Empirical lower bounds on epsilon: an attack that works is a proof that a claim is false.

Many runs are simulated with user u's data at its two extremes. A threshold attack on what the worst-placed observer v
sees is chosen on one half of the runs and judged on the other half: if it says "extreme 1" with probability at least p
on runs with extreme 1 and at most q on runs with extreme 0, then epsilon >= ln((p - delta)/q) (Kairouz, Oh & Viswanath
2015). p and q are one-sided Clopper-Pearson bounds, so the result holds with the stated confidence. It must never
exceed what is claimed; with a planted bug it does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from network_dp.errors import require, require_share, require_whole
from network_dp.noise_rule import cover_elements

Floats = NDArray[np.float64]
Algorithm = Literal["ring_sum", "complete_sum", "complete_sgd", "ring_histogram"]
Bug = Literal["none", "half_noise", "no_closing_noise", "no_initial_elements"]

# Which planted bug makes sense where.
BUGS: dict[Algorithm, tuple[Bug, ...]] = {
    "ring_sum": ("none", "half_noise", "no_closing_noise"),
    "complete_sum": ("none", "half_noise"),
    "complete_sgd": ("none", "half_noise"),
    "ring_histogram": ("none", "no_initial_elements"),
}


@dataclass(frozen=True)
class AuditResult:
    """`lower` <= true epsilon with probability at least `confidence`; `claimed` is what the accountant promises."""

    algorithm: Algorithm
    bug: Bug
    claimed: float
    lower: float
    delta: float
    n_runs: int
    confidence: float

    @property
    def passed(self) -> bool:
        return self.lower <= self.claimed


def run(
    algorithm: Algorithm,
    *,
    n_users: int = 8,
    length: int = 3,
    sigma: float = 3.0,
    gamma: float = 0.5,
    n_buckets: int = 4,
    delta: float = 0.05,
    n_runs: int = 20_000,
    confidence: float = 0.999999,
    bug: Bug = "none",
    seed: int = 0,
) -> AuditResult:
    """Audit one algorithm. `length`: rounds of a ring, or steps per user of the complete graph. Sensitivity is 1.

    A large delta is deliberate: at a delta that runs cannot resolve, no attack can come near the claim.
    """
    require(algorithm in get_args(Algorithm), f"algorithm must be one of {get_args(Algorithm)}, got {algorithm!r}")
    require(bug in BUGS[algorithm], f"bug must be one of {BUGS[algorithm]} for {algorithm}, got {bug!r}")
    require_whole("n_runs", n_runs, 100)
    require_whole("n_users", n_users, 2)
    require_whole("length", length, 1)
    require_share("confidence", confidence)
    require(sigma > 0, f"sigma must be positive, got {sigma}")
    rng = np.random.default_rng(seed)
    if algorithm == "ring_sum":
        claimed, simulate = _ring_sum(n_users, length, sigma, delta, bug)
    elif algorithm == "ring_histogram":
        claimed, simulate = _ring_histogram(n_users, length, n_buckets, gamma, delta, bug)
    else:
        claimed, simulate = _complete(algorithm, n_users, length, sigma, delta, bug, rng)
    half = n_runs // 2
    zeros, ones = simulate(0, half, rng), simulate(1, half, rng)
    lower = lower_epsilon(zeros, ones, delta, confidence)
    return AuditResult(algorithm, bug, claimed, lower, delta, 2 * half, confidence)


def lower_epsilon(zeros: Floats, ones: Floats, delta: float, confidence: float) -> float:
    """Best threshold attack on any of the score columns: chosen on the first halves, judged on the second halves."""
    half = len(zeros) // 2
    best, chosen = -math.inf, None
    for column in range(zeros.shape[1]):
        for sign in (1.0, -1.0):
            for low, high in ((zeros, ones), (ones, zeros)):
                negative, positive = sign * low[:half, column], sign * high[:half, column]
                for quantile in np.quantile(negative, 1 - np.geomspace(0.5, 5 / half, 24)):
                    threshold = float(quantile)
                    value = _attack(negative, positive, threshold, delta, confidence)
                    if value > best:
                        best, chosen = value, (low, high, column, sign, threshold)
    if chosen is None:
        return 0.0
    low, high, column, sign, threshold = chosen
    return max(0.0, _attack(sign * low[half:, column], sign * high[half:, column], threshold, delta, confidence))


def _attack(negative: Floats, positive: Floats, threshold: float, delta: float, confidence: float) -> float:
    """ln((p - delta)/q) with p, q bounded at the given joint confidence (each errs with half of the rest)."""
    from scipy.stats import beta

    error = (1 - confidence) / 2
    hits, alarms = int(np.sum(positive > threshold)), int(np.sum(negative > threshold))
    n_positive, n_negative = len(positive), len(negative)
    p = float(beta.ppf(error, hits, n_positive - hits + 1)) if hits else 0.0
    q = float(beta.ppf(1 - error, alarms + 1, n_negative - alarms)) if alarms < n_negative else 1.0
    return math.log((p - delta) / q) if p > delta else -math.inf


# --- the runs: scores of one observer, one row per run, u's data at extreme 0 or 1

Simulate = Callable[[int, int, np.random.Generator], Floats]


def _ring_sum(n_users: int, n_rounds: int, sigma: float, delta: float, bug: Bug) -> tuple[float, Simulate]:
    """Alg. 1, released. u is the last user and v the one before it: only closing noise hides u's last value from v."""
    from network_dp.accounting import bounds

    require(n_users >= 3, f"a ring needs at least 3 users, got {n_users}")
    u, v = n_users - 1, n_users - 2
    std = sigma / 2 if bug == "half_noise" else sigma

    def simulate(extreme: int, n_runs: int, rng: np.random.Generator) -> Floats:
        increments, current, last = [], np.zeros(n_runs), None
        for position in range(1, n_users * n_rounds + 1):
            holder = (position - 1) % n_users
            if holder == v:
                increments.append(current)
                current = np.zeros(n_runs)
            if holder == u:
                current = current + extreme
            closing = position == n_users * n_rounds
            if bug != "no_closing_noise" if closing else (last is None or position + 1 >= last + n_users):
                last = position
                if holder != v:
                    current = current + rng.normal(0, std, n_runs)
        increments.append(current)
        seen = np.array(increments).T
        return np.column_stack([seen, seen.sum(axis=1)])

    return bounds.ring_epsilon(n_rounds, sigma, 1.0, delta), simulate


def _complete(
    algorithm: Algorithm, n_users: int, length: int, sigma: float, delta: float, bug: Bug, rng: np.random.Generator
) -> tuple[float, Simulate]:
    """One walk, drawn once and known to v; u and v are the pair with the largest exposure on it.

    SGD is run on linear losses, where it is a sum: its minorant bound must still hold.
    """
    from network_dp import exposure
    from network_dp.accounting import bounds

    task: Literal["sum", "sgd"] = "sum" if algorithm == "complete_sum" else "sgd"
    walk = rng.integers(n_users, size=n_users * length)
    exposed = exposure.matrix(walk, n_users, task)
    u, v = (int(i) for i in np.unravel_index(int(np.argmax(exposed)), exposed.shape))
    visits = np.flatnonzero(walk == v)
    cycles = [part[part != v] for part in np.split(walk, visits)[: len(visits)]]
    count = np.array([np.sum(part == u) for part in cycles], dtype=np.float64)
    noises = np.array([max(len(part), 1) for part in cycles], dtype=np.float64)
    std = sigma / 2 if bug == "half_noise" else sigma

    def simulate(extreme: int, n_runs: int, generator: np.random.Generator) -> Floats:
        seen = extreme * count + generator.normal(0, std, (n_runs, len(count))) * np.sqrt(noises)
        return (seen @ (count / noises))[:, None]

    return bounds.exposure_epsilon(float(exposed[u, v]), sigma, 1.0, delta), simulate


def _ring_histogram(
    n_users: int, n_rounds: int, n_buckets: int, gamma: float, delta: float, bug: Bug
) -> tuple[float, Simulate]:
    """Alg. 2, not released. u is the first user, v the second: initial elements alone hide u's first answer from v."""
    from network_dp.accounting import shuffle

    require(n_buckets >= 3, f"the audit needs n_buckets of at least 3, got {n_buckets}")
    initial = 0 if bug == "no_initial_elements" else cover_elements(gamma, n_users)

    def answers(value: int, n_runs: int, how_many: int, rng: np.random.Generator) -> Floats:
        """Counts of buckets 0 and 1 among the answers of `how_many` users that hold `value`."""
        stay = np.full(n_buckets, gamma / n_buckets)
        stay[value] += 1 - gamma
        return rng.multinomial(how_many, stay, size=n_runs)[:, :2].astype(np.float64)

    def simulate(extreme: int, n_runs: int, rng: np.random.Generator) -> Floats:
        scores = np.zeros((n_runs, n_rounds))
        for window in range(n_rounds):
            counts = answers(extreme, n_runs, 1, rng)
            if window == 0:
                counts = counts + rng.multinomial(initial, [1 / n_buckets] * n_buckets, size=n_runs)[:, :2]
            else:
                counts = counts + answers(2, n_runs, n_users - 2, rng)
            crowd = initial if window == 0 else gamma * (n_users - 2)
            ratios = gamma + (1 - gamma) * n_buckets * counts / (crowd + 1)
            scores[:, window] = np.log(ratios[:, 1] / ratios[:, 0])
        return np.column_stack([scores, scores.sum(axis=1)])

    return shuffle.ring_epsilon(n_users, n_rounds, n_buckets, gamma, delta), simulate
