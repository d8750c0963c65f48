"""Composition of privacy-loss distributions, and what it cannot see.

dp-accounting composes by FFT, whose rounding grows with the number of mechanisms: a total probability off by 2^-52 for
each was measured (not proved). Below that, tails are noise, and an epsilon read from them may be too small. So several
times as much is taken off delta, and a delta of that size gets no number here: its caller has another way.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_ROUNDING, _ROUNDING_EACH = 1e-12, 1e-15


def epsilon(parts: Sequence[tuple[PrivacyLossDistribution, int]], delta: float) -> float:
    """Epsilon at `delta` of all distributions together, each as often as its number says; infinite below rounding."""
    resolved = delta - _ROUNDING - _ROUNDING_EACH * sum(times for _, times in parts)
    if resolved < delta / 2:
        return math.inf
    tails = min(1e-15, delta * 1e-6)
    composed = functools.reduce(
        lambda left, right: left.compose(right),
        (part.self_compose(times, tail_mass_truncation=tails) for part, times in parts),
    )
    return float(composed.get_epsilon_for_delta(resolved))
