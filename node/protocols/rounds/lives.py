"""The latest life of each user that anybody met, so that an old disk is known for what it is.

Everybody journals the lives of a roll before its own block for it leaves: where a sum was heard, all of its roll
remember. Who wants to take part brings what it remembers to the adder, and any two rolls share two users
(``Context.quorum``). It also brings its own lives so far: if one of them is not the life that somebody met last, its
disk is an old one, however often it was started since.
"""

from __future__ import annotations

from collections.abc import Mapping

from node.protocols.rounds.pads import LIFE_BYTES

NEVER = bytes(LIFE_BYTES)  # the life of a user that nobody met; no start has number 0
MOST_OWN = 64  # lives that a user remembers of itself: so often it may be started without meeting anybody


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


def with_own(own: bytes, life: bytes) -> bytes:
    """A user's own lives, the newest last."""
    return (own + life)[-MOST_OWN * LIFE_BYTES :]


def is_old(met: bytes, user: int, own: bytes) -> bool:
    """Was a life of this user met that it does not remember itself?"""
    known = met[user * LIFE_BYTES : (user + 1) * LIFE_BYTES] or NEVER
    return known != NEVER and known not in {own[at : at + LIFE_BYTES] for at in range(0, len(own), LIFE_BYTES)}
