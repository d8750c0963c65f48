"""Small words that every message needs."""

from __future__ import annotations


def count(number_of: int, one: str, many: str = "") -> str:
    """ "1 fault", "2 faults"."""
    return f"{number_of} {one if number_of == 1 else many or one + 's'}"
