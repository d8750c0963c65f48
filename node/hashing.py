"""The digest of a long token on two cores: while a user hashes what it is about to send, no other user has work."""

from __future__ import annotations

from node.protocols.walk.digests import digest
from node.protocols.walk.values import Octets

WORTH_A_THREAD_BYTES = 4 << 20


def digest_on_two_cores(data: Octets) -> bytes:
    return digest(data, threads=2 if len(data) >= WORTH_A_THREAD_BYTES else 1)
