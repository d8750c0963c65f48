"""Tokens and tags as bytes."""

from __future__ import annotations

import hmac

from hypothesis import given
from hypothesis import strategies as st

from node.protocol.digests import digest
from node.protocol.values import Hop, hop_tag


@given(st.binary(min_size=32, max_size=32), st.integers(0, 9), st.integers(0, 2**62), st.binary(max_size=200))
def test_a_hop_tag_is_hmac_sha256(key: bytes, counter: int, step: int, token: bytes) -> None:
    hop = Hop((counter, 3), step)
    message = f"run {counter} 3 {step} ".encode() + digest(token)
    assert hop_tag(key, "run", hop, digest(token)) == hmac.digest(key, message, "sha256").hex()
