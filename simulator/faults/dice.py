"""Where a schedule's randomness comes from: its seed, and nothing else."""

from __future__ import annotations

from random import Random


def seeded(purpose: str, seed: int) -> Random:
    """A stream of its own for every purpose, so that a change in one does not shift the others."""
    return Random(f"{purpose} {seed}")  # noqa: S311 (a simulation must be repeatable)


class ScheduleDice:
    """``Dice`` of the protocol core."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def secret(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def unit(self) -> float:
        return self._random.random()
