"""The digest of a long token on two cores: while a user hashes what it is about to send, no other user has work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from node.protocol.digests import LEAF_BYTES, digest, leaf_digests, over_leaves

WORTH_A_THREAD_BYTES = 4 << 20


def digest_in_halves(data: bytes) -> bytes:
    """``digest``; ``hashlib`` lets other threads run meanwhile."""
    if len(data) < WORTH_A_THREAD_BYTES:
        return digest(data)
    view = memoryview(data)
    middle = len(data) // 2 // LEAF_BYTES * LEAF_BYTES
    with ThreadPoolExecutor(1) as helper:
        second = helper.submit(leaf_digests, view[middle:])
        first = leaf_digests(view[:middle])
        return over_leaves(len(data), [*first, *second.result()])
