"""A token sealed to a label: only the label's owner can open it, and nobody can tell who that is."""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from node.protocols.rounds.labels import POINT_BYTES, Label, scalar_of, times
from node.protocols.rounds.pads import derived

OVERHEAD_BYTES = POINT_BYTES + 16
_NONCE = bytes(12)  # every key seals once


def _cipher(secret: bytes, enc: bytes, about: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(derived(secret, b"network-dp seal" + enc + about))


def sealed(label: Label, ephemeral: bytes, token: bytes, about: bytes) -> bytes:
    """The token under HKDF(eS, eR, about), behind eR."""
    scalar = scalar_of(ephemeral)
    enc = times(scalar, label.base)
    return enc + _cipher(times(scalar, label.shared), enc, about).encrypt(_NONCE, token, about)


def unsealed(private: X25519PrivateKey, box: bytes, about: bytes) -> bytes | None:
    """The token if the box was sealed to a label of this key's owner, else None."""
    enc = box[:POINT_BYTES]
    try:
        return _cipher(times(private, enc), enc, about).decrypt(_NONCE, box[POINT_BYTES:], about)
    except (InvalidTag, ValueError):
        return None
