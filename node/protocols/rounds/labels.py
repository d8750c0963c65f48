"""Labels: one address per user and step, in an order that nobody knows.

A list starts as (G, Y_u) for every user u of the crowd. Each shuffler in turn replaces (R, S) by (rR, rS), with a fresh
r for every entry, and permutes the list. Whoever seals to a label does not know whose it is (``seal``).
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
    """(R, S) with S = y R for the owner's private y."""

    base: bytes
    shared: bytes


def is_point(point: bytes) -> bool:
    """Can every user seal to it? Everybody checks this of every label that it gets: if only the holder found out, with
    the label that it drew, what it did next would show it."""
    return len(point) == POINT_BYTES and point not in _REFUSED


def scalar_of(secret: bytes) -> X25519PrivateKey:
    """A scalar to multiply points by. Making one costs as much as a product: one that is used again is kept."""
    return X25519PrivateKey.from_private_bytes(secret)


def times(scalar: X25519PrivateKey, point: bytes) -> bytes:
    """scalar * point on Curve25519; ``ValueError`` for a point of low order."""
    return scalar.exchange(X25519PublicKey.from_public_bytes(point))


def opened(publics: Sequence[bytes]) -> tuple[Label, ...]:
    """The list before anybody shuffled it."""
    return tuple(Label(BASE, public) for public in publics)


def shuffled(labels: Sequence[Label], secret: Callable[[int], bytes], below: Callable[[int], int]) -> tuple[Label, ...]:
    """One shuffler's turn; ``ValueError`` for a point of low order."""
    order = list(range(len(labels)))
    for last in range(len(order) - 1, 0, -1):
        other = below(last + 1)
        order[last], order[other] = order[other], order[last]
    turned = []
    for index in order:
        scalar = scalar_of(secret(POINT_BYTES))
        turned.append(Label(times(scalar, labels[index].base), times(scalar, labels[index].shared)))
    return tuple(turned)
