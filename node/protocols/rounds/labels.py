"""Labels: one address per user and step, in an order that nobody knows.

A list starts as the points G, Y_1, ..., Y_n of its crowd. Each shuffler in turn multiplies them all by one fresh r, and
permutes all but the first: (R, S_1, ..., S_n) with S_u = y_u R for the owner's private y_u. Whoever seals to a label
(R, S_u) does not know whose it is (``seal``). One r for a list hides as much as one for each label
(docs/THEORY.md#labels).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

POINT_BYTES = 32
_P = 2**255 - 19
_ORDER_8 = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
_LOW_ORDER = (0, 1, _P - 1, *_ORDER_8)  # of the curve and of its twist
#: All their encodings: also those above p, and with the highest bit, which is not looked at.
_REFUSED = frozenset(
    (value + high).to_bytes(POINT_BYTES, "little")
    for low in _LOW_ORDER
    for value in (low, low + _P)
    if value < 2**255
    for high in (0, 1 << 255)
)
BASE = (9).to_bytes(POINT_BYTES, "little")


class Label(NamedTuple):
    """(R, S) with S = y R for the owner's private y; R is the same for the whole list."""

    base: bytes
    shared: bytes


def count_of(points: bytes) -> int:
    """Labels in a list."""
    return len(points) // POINT_BYTES - 1


def label_of(points: bytes, number: int) -> Label:
    at = POINT_BYTES * (number + 1)
    return Label(points[:POINT_BYTES], points[at : at + POINT_BYTES])


def can_seal(points: bytes) -> bool:
    """Can every user seal to every label? Everybody checks this of every list that it gets: if only the holder found
    out, with the label that it drew, what it did next would show it."""
    return len(points) % POINT_BYTES == 0 and _REFUSED.isdisjoint(_split(points))


def _split(points: bytes) -> list[bytes]:
    return [points[at : at + POINT_BYTES] for at in range(0, len(points), POINT_BYTES)]


def scalar_of(secret: bytes) -> X25519PrivateKey:
    """A scalar to multiply points by. Making one costs as much as a product: one that is used again is kept."""
    return X25519PrivateKey.from_private_bytes(secret)


def times(scalar: X25519PrivateKey, point: bytes) -> bytes:
    """scalar * point on Curve25519; ``ValueError`` for a point of low order."""
    return scalar.exchange(X25519PublicKey.from_public_bytes(point))


def opened(publics: Sequence[bytes]) -> bytes:
    """The list before anybody shuffled it."""
    return b"".join((BASE, *publics))


def shuffled(points: bytes, secret: Callable[[int], bytes], below: Callable[[int], int]) -> bytes:
    """One shuffler's turn; ``ValueError`` for a point of low order."""
    base, *shared = _split(points)
    for last in range(len(shared) - 1, 0, -1):
        other = below(last + 1)
        shared[last], shared[other] = shared[other], shared[last]
    scalar = scalar_of(secret(POINT_BYTES))
    return b"".join(times(scalar, point) for point in (base, *shared))
