"""Lower bounds on epsilon from canaries: users whose data is one of two values, by the flip of a fair coin.

An attacker scores every canary from its own view: the log-likelihood ratio of the two values. If the canary's score for
what it really held, times its sign, is at least a threshold t with probability p, and at most -t with probability q,
then p <= e^epsilon q + delta: the average of both directions of (epsilon, delta)-DP.

* `clopper_pearson` bounds p and q by counting (one-sided, joint confidence). It takes canaries to be independent, which
  holds between runs, and within one where each has a coordinate with noise of its own.
* `in_one_run` (Steinke, Nasr & Jagielski 2023, Thm 5.2) assumes nothing of the kind: of r guesses v are right with at
  most the probability that a binomial of rate e^epsilon / (1 + e^epsilon) has, but for 2 m delta alpha.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from network_dp.errors import require, require_share

Floats = NDArray[np.float64]

_SHARES: Final = (1.0, 0.7, 0.4, 0.2, 0.1)  # of the canaries that lie beyond a threshold
_WIDEST: Final = 40.0


def clopper_pearson(scores: Floats, delta: float, confidence: float) -> float:
    """A lower bound on epsilon. `scores`: log-likelihood ratio towards the truth, one per canary.

    Thresholds are quantiles of |score|, which do not tell who held what; each is tried with its part of the risk."""
    from scipy.stats import beta

    _check(scores, delta, confidence)
    n, risk, best = len(scores), (1 - confidence) / (2 * len(_SHARES)), 0.0
    for threshold in np.quantile(np.abs(scores), [1 - share for share in _SHARES]).tolist():
        hits, alarms = int(np.sum(scores >= threshold)), int(np.sum(scores <= -threshold))
        p = float(beta.ppf(risk, hits, n - hits + 1)) if hits else 0.0
        q = float(beta.ppf(1 - risk, alarms + 1, n - alarms)) if alarms < n else 1.0
        if p > delta:
            best = max(best, math.log((p - delta) / q))
    return best


def in_one_run(scores: Floats, delta: float, confidence: float) -> float:
    """A lower bound on epsilon, whatever the canaries of a run have to do with each other."""
    _check(scores, delta, confidence)
    risk, m, best = (1 - confidence) / len(_SHARES), len(scores), 0.0
    for threshold in np.quantile(np.abs(scores), [1 - share for share in _SHARES]).tolist():
        guessed = np.abs(scores) >= threshold
        r, v = int(guessed.sum()), int(np.sum(scores[guessed] > 0))
        low, high = best, _WIDEST
        if _chance(m, r, v, low, delta) > risk:
            continue
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if _chance(m, r, v, middle, delta) <= risk else (low, middle)
        best = low
    return best


def _chance(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The most probability with which v of r guesses about m canaries are right, under (epsilon, delta)-DP."""
    from scipy.stats import binom

    rate = 1 / (1 + math.exp(-epsilon))
    at_least = float(binom.sf(v - 1, r, rate))
    below = np.cumsum(binom.pmf(np.arange(v - 1, -1, -1), r, rate))  # P(v > binomial >= v - i), i = 1 .. v
    alpha = float(np.max(below / np.arange(1, v + 1), initial=0.0))
    return min(at_least + 2 * m * delta * alpha, 1.0)


def _check(scores: Floats, delta: float, confidence: float) -> None:
    require(len(scores) > 0, "there are no canaries")
    require(0 <= delta < 1, f"delta must be at least 0 and below 1, got {delta}")
    require_share("confidence", confidence)
