"""The value of a result as people read it: one number with its error, or a bar for each bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from network_dp.expected import CERTAIN
from network_dp.plan import Plan
from network_dp.simplex import on_simplex

_FEW: Final = 8  # numbers in one line
_BARS: Final = 40  # buckets that get a line of their own
_WIDTH: Final = 24  # of the longest bar


def value_rows(plan: Plan, result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What and how much, line by line."""
    value, std = result.get("value"), result.get("expected_std")
    if value is None:
        return [("value", "kept by the last holder")]
    if result.get("counts") is not None and len(value) <= _BARS:
        return _shares(plan, value, std)
    if len(value) == 1 and std is not None:
        return [("value", f"{value[0]:.4g} ± {CERTAIN * std:.2g} (95 %)")]
    numbers = ", ".join(f"{number:.4g}" for number in value[:_FEW]) + (" ..." if len(value) > _FEW else "")
    return [("value", numbers), *([] if std is None else [("each", f"± {CERTAIN * std:.2g} (95 %)")])]


def _shares(plan: Plan, shares: Sequence[float], std: float | None) -> list[tuple[str, str]]:
    """A bar for each bucket; where noise made a share impossible, also the nearest shares that are possible."""
    largest = max(*shares, 1e-9)
    error = "" if std is None else f" ± {CERTAIN * std:.1%}"
    rows = []
    for i, share in enumerate(shares):
        bar = "█" * max(0, round(_WIDTH * share / largest))
        rows.append((plan.task.coordinate(i), f"{bar:<{_WIDTH}} {share:6.1%}{error}"))
    if error:
        rows.append(("±", "holds the true share in 95 of 100 runs"))
    if min(shares) < 0.0:
        import numpy as np

        nearest = ", ".join(f"{share:.1%}" for share in on_simplex(np.array(shares)))
        rows.append(("as true shares", f"{nearest} (noise made one negative; these are the nearest possible)"))
    return rows
