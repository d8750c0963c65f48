"""An epsilon in plain words: a fixed scale, and what it means for a bet on somebody's data.

Whoever must guess which of two values a user gave, and held both for equally likely, is right with probability at most
(e^eps + delta) / (e^eps + 1), whatever it saw (THEORY.md#bet).
"""

from __future__ import annotations

import math
from typing import Final

STRONG: Final = 1.0  # up to here a guess is right 73 % of the time at most
MEDIUM: Final = 3.0  # up to here 95 %
TOP: Final = 10.0  # end of the scale that people are shown


def strength(epsilon: float) -> str:
    """strong, medium, weak, or none where nothing is bounded."""
    if not math.isfinite(epsilon):
        return "none"
    return "strong" if epsilon <= STRONG else "medium" if epsilon <= MEDIUM else "weak"


def best_guess(epsilon: float, delta: float) -> float:
    """Probability, at most, that a guess between two equally likely values is right."""
    if not math.isfinite(epsilon):
        return 1.0
    return min(1.0, 0.5 + 0.5 * math.tanh(epsilon / 2) + delta / (math.exp(epsilon) + 1) if epsilon < 700 else 1.0)


def percent_up(share: float) -> str:
    """A share as a percentage, rounded up, with as many nines as it has."""
    rest = 1.0 - share
    if rest <= 1e-9:
        return "100 %"
    digits = max(0, -math.floor(math.log10(rest)) - 2)
    return f"{100 - math.floor(rest * 100 * 10**digits) / 10**digits:.{digits}f} %"


def bet(epsilon: float, delta: float) -> str:
    """One sentence on what it means for a bet on your data."""
    if strength(epsilon) == "none":
        return "There is no bound: a guess between two values that you may have given can be right every time."
    most = percent_up(best_guess(epsilon, delta))
    return (
        "Whoever has to guess which of two equally likely values you gave is right half of the time before the run, "
        f"and at most {most} of the time after it."
    )
