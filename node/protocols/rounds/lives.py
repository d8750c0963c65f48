"""The latest life of each user that anybody met, so that an old disk is known for what it is.

Everybody journals the lives of a roll before its own block for it leaves: where a sum was heard, all of its roll
remember. Who wants to take part brings what it remembers to the adder, and any two rolls share two users
(``Context.quorum``), so whoever comes back with an earlier life meets somebody who knows, also after everybody died.
"""

from __future__ import annotations

from collections.abc import Mapping

from node.protocols.rounds.pads import LIFE_BYTES

NEVER = bytes(LIFE_BYTES)  # the life of a user that nobody met; no start has number 0


def incarnation(life: bytes) -> int:
    """How often the process was started, as its life says."""
    return int.from_bytes(life[: LIFE_BYTES // 2], "big")


def table(n: int, roll: Mapping[int, bytes]) -> bytes:
    """Of every user, in plan order."""
    return b"".join(roll.get(user, NEVER) for user in range(n))


def later(one: bytes, other: bytes) -> bytes:
    """Of two tables the later life of each user; an empty one knows nothing."""
    if one == other or not other:
        return one
    if not one:
        return other
    starts = range(0, len(one), LIFE_BYTES)
    return b"".join(max(one[at : at + LIFE_BYTES], other[at : at + LIFE_BYTES], key=incarnation) for at in starts)


def is_old(met: bytes, user: int, life: bytes) -> bool:
    """Was this life, or one with as many starts, followed by another?"""
    known = met[user * LIFE_BYTES : (user + 1) * LIFE_BYTES] or NEVER
    return known not in (NEVER, life) and incarnation(life) <= incarnation(known)
