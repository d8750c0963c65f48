"""What one user could compute from all it saw: every other user's exposure is finite (THEORY.md#exposure-general)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from simulator.faults.evidence import Content

_TINY = 1e-8


def exposures(sights: Sequence[Content], full: int) -> dict[int, float]:
    """S_u = c' Sigma^+ c for every user u in the sights; infinite when c is outside Sigma's range.

    Rows are tokens seen, without the observer's own parts; a noise component has variance 1/full.
    """
    seen = [sight for sight in sights if sight.contributions]
    if not seen:
        return {}
    noises = sorted(frozenset().union(*(sight.noise for sight in seen)))
    column = {noise: i for i, noise in enumerate(noises)}
    incidence = np.zeros((len(seen), len(noises)))
    for row, sight in enumerate(seen):
        incidence[row, [column[noise] for noise in sight.noise]] = 1.0
    covariance = incidence @ incidence.T / full
    inverse = np.linalg.pinv(covariance, hermitian=True)
    users = sorted({visit[0] for sight in seen for visit in sight.contributions})
    worst: dict[int, float] = {}
    for user in users:
        c = np.array([sum(visit[0] == user for visit in sight.contributions) for sight in seen], np.float64)
        outside = np.abs(covariance @ (inverse @ c) - c).max() > _TINY
        worst[user] = float("inf") if outside else float(c @ inverse @ c)
    return worst


def ring_ceiling(sights: Sequence[Content], rounds: int) -> float:
    """What a ring's noise rule promises: S <= K from the tokens of one branch (ADR 13). Each token seen beside it is
    allowed as many more as it holds new contributions of one user."""
    branch, beside = list[Content](), list[Content]()
    for sight in reversed(sights):
        (branch if not branch or sight.within(branch[-1]) else beside).append(sight)
    return rounds + sum(_most_new(sight, sights) for sight in beside)


def _most_new(sight: Content, sights: Sequence[Content]) -> int:
    """Most contributions of one user since the last token that led to this one."""
    before = (other for other in sights if other is not sight and other.within(sight))
    last = max(before, key=lambda other: len(other.noise) + len(other.contributions))
    new = Counter(visit[0] for visit in sight.contributions - last.contributions)
    return max(new.values(), default=0)


def ceiling(sights: Sequence[Content], user: int) -> float:
    """With one full fresh noise between any two sights, S_u cannot exceed this."""
    return 2.0 * sum(sum(visit[0] == user for visit in sight.contributions) ** 2 for sight in sights)
