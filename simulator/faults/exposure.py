"""What one user could compute from all it saw: every other user's exposure is finite (THEORY.md#exposure-general)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from simulator.faults.evidence import Content

_TINY = 1e-8


def exposures(observations: Sequence[Content], full: int) -> dict[int, float]:
    """S_u = c' Sigma^+ c for every user u in the observations; infinite when c is outside Sigma's range.

    Rows are tokens seen, without the observer's own parts; a noise component has variance 1/full.
    """
    seen = [observation for observation in observations if observation.contributions]
    if not seen:
        return {}
    noises = sorted(frozenset().union(*(observation.noise for observation in seen)))
    column = {noise: i for i, noise in enumerate(noises)}
    incidence = np.zeros((len(seen), len(noises)))
    for row, observation in enumerate(seen):
        incidence[row, [column[noise] for noise in observation.noise]] = 1.0
    covariance = incidence @ incidence.T / full
    inverse = np.linalg.pinv(covariance, hermitian=True)
    users = sorted({visit[0] for observation in seen for visit in observation.contributions})
    worst: dict[int, float] = {}
    for user in users:
        c = np.array([sum(visit[0] == user for visit in observation.contributions) for observation in seen], np.float64)
        outside = np.abs(covariance @ (inverse @ c) - c).max() > _TINY
        worst[user] = float("inf") if outside else float(c @ inverse @ c)
    return worst


def ring_ceiling(observations: Sequence[Content], rounds: int) -> float:
    """What a ring's noise rule promises: S <= K from the tokens of one branch (ADR 13). Each token seen beside it is
    allowed as many more as it holds new contributions of one user."""
    branch, beside = list[Content](), list[Content]()
    for observation in reversed(observations):
        (branch if not branch or observation.within(branch[-1]) else beside).append(observation)
    return rounds + sum(_most_new(observation, observations) for observation in beside)


def _most_new(observation: Content, observations: Sequence[Content]) -> int:
    """Most contributions of one user since the last token that led to this one."""
    before = (other for other in observations if other is not observation and other.within(observation))
    last = max(before, key=lambda other: len(other.noise) + len(other.contributions))
    new = Counter(visit[0] for visit in observation.contributions - last.contributions)
    return max(new.values(), default=0)


def ceiling(observations: Sequence[Content], user: int) -> float:
    """With one full fresh noise between any two observations, S_u cannot exceed this."""
    return 2.0 * sum(sum(visit[0] == user for visit in observation.contributions) ** 2 for observation in observations)
