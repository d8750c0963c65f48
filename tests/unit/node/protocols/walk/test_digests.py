"""One digest of a token's bytes, whether they come whole, in pieces, or are hashed on two cores."""

from __future__ import annotations

import hashlib
import random

from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from node.hashing import WORTH_A_THREAD_BYTES, digest_on_two_cores
from node.protocols.walk.digests import LONG_BYTES, RunningDigest, digest

BYTES = random.Random(7).randbytes(3 * LONG_BYTES + 5)
_sizes = st.one_of(st.integers(0, len(BYTES)), st.sampled_from([LONG_BYTES + more for more in (-1, 0, 1)]))


def by_hand(data: bytes) -> bytes:
    """The definition, once more."""
    return hashlib.sha256(data).digest() if len(data) <= LONG_BYTES else blake3(data).digest()


@given(_sizes, st.lists(st.integers(0, len(BYTES)), max_size=6))
@settings(deadline=None)
def test_pieces_give_the_digest_of_the_whole_however_it_is_cut(size: int, cuts: list[int]) -> None:
    data = BYTES[:size]
    running, at = RunningDigest(size), 0
    for cut in [*sorted(cut for cut in cuts if cut <= size), size]:
        running.update(memoryview(data)[at:cut])
        at = cut
    assert running.digest() == digest(data) == digest(memoryview(data)) == by_hand(data)


def test_two_cores_give_the_digest_of_one() -> None:
    long = BYTES * (WORTH_A_THREAD_BYTES // len(BYTES) + 2)
    around = [WORTH_A_THREAD_BYTES + more for more in (-1, 0, 1)]
    for size in (0, 5, LONG_BYTES + 1, *around, len(long)):
        assert digest_on_two_cores(long[:size]) == digest(long[:size]), size


@given(st.integers(0, len(BYTES) - 1), st.integers(1, 255))
@settings(deadline=None)
def test_another_byte_anywhere_is_another_digest(at: int, flip: int) -> None:
    other = bytearray(BYTES)
    other[at] ^= flip
    assert digest(bytes(other)) != digest(BYTES)
