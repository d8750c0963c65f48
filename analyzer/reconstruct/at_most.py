"""Counting contributions against a cap: a visit counts once, however often its token was sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class AtMost:
    """Visits with a contribution, by whom or what is allowed so many of them; ``allowed`` None: any number."""

    allowed: int | None
    visits: dict[Any, set[int]] = field(default_factory=dict)

    def passed_by(self, key: Any, visit: int) -> bool:
        """Is this the first visit too many, or the same once more?"""
        made = self.visits.setdefault(key, set())
        made.add(visit)
        return self.allowed is not None and len(made) == self.allowed + 1
