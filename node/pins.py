"""How a certificate names a user and a plan pins its key: what nodes look for, and whoever makes keys writes."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

DNS_SUFFIX: Final = ".users.network-dp.invalid"  # NAME + this: what a sender demands of the receiver's certificate


def pin(key: Any) -> str:
    """SHA-256 of a public key (SubjectPublicKeyInfo, DER), hex: what the plan pins."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def pin_of(certificate: x509.Certificate) -> str:
    return pin(certificate.public_key())
