"""One digest of a token's bytes, whether they come whole, in pieces, or are hashed by two threads."""

from __future__ import annotations

import hashlib
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from node.hashing import WORTH_A_THREAD_BYTES, digest_in_halves
from node.protocol.digests import LEAF_BYTES, RunningDigest, digest

BYTES = random.Random(7).randbytes(3 * LEAF_BYTES + 5)
_sizes = st.one_of(
    st.integers(0, len(BYTES)), st.sampled_from([leaf * LEAF_BYTES + more for leaf in (1, 2, 3) for more in (-1, 0, 1)])
)


def by_hand(data: bytes) -> bytes:
    """The definition, once more and as plainly as can be."""
    if len(data) <= LEAF_BYTES:
        return hashlib.sha256(data).digest()
    top = b"NDPLEAF1" + len(data).to_bytes(8, "little")
    while data:
        top, data = top + hashlib.sha256(data[:LEAF_BYTES]).digest(), data[LEAF_BYTES:]
    return hashlib.sha256(top).digest()


@given(_sizes, st.lists(st.integers(0, len(BYTES)), max_size=6))
@settings(deadline=None)
def test_pieces_give_the_digest_of_the_whole_however_it_is_cut(size: int, cuts: list[int]) -> None:
    data = BYTES[:size]
    running, at = RunningDigest(), 0
    for cut in [*sorted(cut for cut in cuts if cut <= size), size]:
        running.update(data[at:cut])
        at = cut
    assert running.digest() == digest(data) == by_hand(data)


def test_two_threads_give_the_digest_of_one() -> None:
    long = BYTES * (WORTH_A_THREAD_BYTES // len(BYTES) + 2)
    around = [WORTH_A_THREAD_BYTES + more for more in (-1, 0, 1)]
    for size in (0, 5, LEAF_BYTES + 1, *around, len(long)):
        assert digest_in_halves(long[:size]) == digest(long[:size]), size


@given(st.integers(0, len(BYTES) - 1), st.integers(1, 255))
@settings(deadline=None)
def test_another_byte_anywhere_is_another_digest(at: int, flip: int) -> None:
    other = bytearray(BYTES)
    other[at] ^= flip
    assert digest(bytes(other)) != digest(BYTES)


def test_leaves_have_an_order() -> None:
    first, second = BYTES[:LEAF_BYTES], BYTES[LEAF_BYTES : 2 * LEAF_BYTES]
    assert digest(first + second) != digest(second + first)
