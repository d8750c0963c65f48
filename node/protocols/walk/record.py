"""Immutable records with many fields, cheap to copy: a hop copies its user's state a dozen times.

A copy of a named tuple visits every field in Python; this one merges two dictionaries, four times as fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, eq=False)
class FrozenRecord:
    """Base of frozen dataclasses (without slots); equal when all fields are."""

    def _replace(self, **changes: Any) -> Self:
        """A copy with these fields changed; a name that is no field is a mistake of the caller."""
        mine = self.__dict__
        fields = mine | changes
        assert len(fields) == len(mine), sorted(changes.keys() - mine.keys())
        copy = object.__new__(type(self))
        object.__setattr__(copy, "__dict__", fields)
        return copy

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # holds mappings
