"""Tokens and tags as bytes."""

from __future__ import annotations

import hmac

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.protocols.walk.digests import digest
from node.protocols.walk.values import Hop, Token, TokenBuffer, TokenError, decode_token, hop_tag, room


@given(st.binary(min_size=32, max_size=32), st.integers(0, 9), st.integers(0, 2**62), st.binary(max_size=200))
def test_a_hop_tag_is_hmac_sha256(key: bytes, counter: int, step: int, token: bytes) -> None:
    hop = Hop((counter, 3), step)
    message = f"run {counter} 3 {step} ".encode() + digest(token)
    assert hop_tag(key, "run", hop, digest(token)) == hmac.digest(key, message, "sha256").hex()


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_a_token_written_on_a_sheet_has_the_bytes_of_any_other(dtype: str) -> None:
    received = Token(np.zeros(70_000, dtype), 1, 2, 3, (4, 5, 6))
    sheet = TokenBuffer(received.head(), received.payload)
    sheet.payload[:] = np.arange(70_000)
    token = Token(sheet.payload, 2, 2, 7, (4, 7, 6))
    data = sheet.encode(token)
    assert data == token.encode()
    again = decode_token(data, dtype=dtype, dimension=70_000, ledger_size=3)
    assert (again.payload == np.arange(70_000)).all() and again[1:] == token[1:]


def test_what_was_encoded_cannot_be_written_any_more() -> None:
    received = Token(np.zeros(9, np.int64), 0, 0, 0, ())
    sheet = TokenBuffer(received.head(), received.payload)
    sheet.payload[:] = 7
    data = sheet.encode(Token(sheet.payload, 1, 0, 1, ()))
    with pytest.raises(ValueError, match="read-only"):
        sheet.payload[0] = 8
    with pytest.raises(TypeError):
        data[0] = 1  # type: ignore[index]


def test_a_payload_from_elsewhere_is_not_mistaken_for_the_sheets() -> None:
    received = Token(np.arange(9), 0, 0, 0, ())
    sheet = TokenBuffer(received.head(), received.payload)
    sheet.payload[:] = 7
    assert sheet.encode(received) == received.encode()


@given(st.integers(1, 5000))
def test_a_token_ends_where_a_number_may_end(size: int) -> None:
    place = room(size)
    assert len(place) == size
    assert (np.frombuffer(place, np.uint8).ctypes.data + size) % 8 == 0


@pytest.mark.parametrize("field", ["contributions", "cover", "noise_units"])
def test_a_count_that_could_not_be_added_to_is_refused(field: str) -> None:
    """A peer's token must not end its receiver: the next one's counts have to fit into 64 bits."""
    honest = Token(np.zeros(1, np.int64), 0, 0, 0, (0,) * 3)
    with pytest.raises(TokenError):
        decode_token(honest._replace(**{field: 2**64 - 1}).encode(), dtype="int64", dimension=1, ledger_size=3)
    assert decode_token(honest.encode(), dtype="int64", dimension=1, ledger_size=3)[1:] == honest[1:]
