"""Randomness of the protocol itself (next user, grants, jitter), from the OS's CSPRNG; seeded only in insecure runs."""

from __future__ import annotations

import hashlib
import os
import secrets

from node.noise import SeededSource, Source, SystemSource, uniform_below


class SystemDice:
    """What production uses."""

    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)

    def secret(self, size: int) -> bytes:
        return os.urandom(size)

    def unit(self) -> float:
        return secrets.randbits(53) / 2.0**53


class SeededDice:
    """INSECURE: repeatable dice for tests. Secrets still come from the system: nothing is gained by repeating them."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def below(self, bound: int) -> int:
        return int(uniform_below(bound, 1, self._source)[0])

    def secret(self, size: int) -> bytes:
        return os.urandom(size)

    def unit(self) -> float:
        return self.below(1 << 53) / 2.0**53


def sources(insecure_seed: int | None, user: str, incarnation: int) -> tuple[Source, SystemDice | SeededDice]:
    """Noise source and dice of one user; a seeded one must not repeat its draws in another ``incarnation``."""
    if insecure_seed is None:
        return SystemSource(), SystemDice()

    def seed(purpose: str) -> bytes:
        return hashlib.sha256(f"INSECURE {insecure_seed} {user} {incarnation} {purpose}".encode()).digest()

    return SeededSource(seed("noise")), SeededDice(SeededSource(seed("dice")))
