"""A connection that only those who know a short code can use: SPAKE2, then ChaCha20-Poly1305. No I/O.

An eavesdropper learns nothing about the code, and an active attacker gets one guess per connection: messages sealed
under another code cannot be opened.
"""

from __future__ import annotations

import secrets
from typing import Final, Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from spake2 import SPAKE2_A, SPAKE2_B

from network_dp.errors import UserError

Role = Literal["invite", "join"]
CODE_DIGITS: Final = 8
_SIDES: Final = {"invite": SPAKE2_A, "join": SPAKE2_B}


class InvitationError(UserError, RuntimeError):
    """An invitation that came to nothing; the message says why and what to do."""


def new_code() -> str:
    """Eight digits to be read aloud."""
    digits = f"{secrets.randbelow(10**CODE_DIGITS):0{CODE_DIGITS}}"
    return f"{digits[:4]}-{digits[4:]}"


def _password(code: str) -> bytes:
    return "".join(character for character in code if character.isdigit()).encode()


class Opening:
    """The first message of one side, and the channel that the other side's first message makes of it."""

    def __init__(self, code: str, role: Role) -> None:
        self._role = role
        self._pake = _SIDES[role](_password(code), idA=b"network-dp invite", idB=b"network-dp join")
        self.message: bytes = self._pake.start()

    def channel(self, theirs: bytes) -> Channel:
        try:
            secret = self._pake.finish(theirs)
        except Exception:  # bytes of a stranger: the library has many words for points that are none
            raise InvitationError("the other side does not speak this protocol") from None
        keys = HKDF(hashes.SHA256(), 64, None, b"network-dp invitation 1").derive(secret)
        first, second = ChaCha20Poly1305(keys[:32]), ChaCha20Poly1305(keys[32:])
        return Channel(first, second) if self._role == "invite" else Channel(second, first)


class Channel:
    """Messages in order, each once: a changed, repeated or missing one cannot be opened."""

    def __init__(self, out: ChaCha20Poly1305, back: ChaCha20Poly1305) -> None:
        self._out, self._back = out, back
        self._sealed = self._opened = 0

    def seal(self, message: bytes) -> bytes:
        self._sealed += 1
        return self._out.encrypt(self._sealed.to_bytes(12), message, None)

    def open(self, message: bytes) -> bytes:
        self._opened += 1
        try:
            return self._back.decrypt(self._opened.to_bytes(12), message, None)
        except InvalidTag:
            raise InvitationError("the code is not the same on both sides") from None
