"""Messages that peers pass on: who spoke is sure by a signature, and the way is a path of the plan's graph.

Pure: nothing here waits or sends. A relay sees who asks whom what; it can drop a message, but neither change it nor
speak for another, nor bring up an old one again (docs/adr/0021-relayed-control-messages.md).
"""

from __future__ import annotations

import hashlib
import struct
from collections import OrderedDict, deque
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from network_dp.topology import Peers
from node.config import Bundle
from node.transport.codec import INLINE_BYTES, Frame, WireError
from node.transport.identity import Directory, NotInPlanError

NONCE_BYTES: Final = 16
BODY_BYTES_MAX: Final = INLINE_BYTES + 4096
SIGNATURE_BYTES_MAX: Final = 72  # of ECDSA over P-256, in DER
MOST_REMEMBERED: Final = 4096  # messages that came lately
_ALGORITHM: Final = ec.ECDSA(SHA256())


def statement(frame: Frame, origin: int, destination: int, nonce: bytes, body: bytes, *, answer: bool) -> bytes:
    """What is signed: the run, who speaks to whom, and what; an answer can never pass for a question."""
    kind = b"network-dp relay answer\0" if answer else b"network-dp relay question\0"
    users = struct.pack(">II", origin, destination)
    return kind + frame.run_id + frame.plan_hash + users + nonce + hashlib.sha256(body).digest()


class Signer:
    """Signs with this user's TLS key, and knows everybody's, as the plan pins them."""

    def __init__(self, bundle: Bundle) -> None:
        key = load_pem_private_key(bundle.key_pem, password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)  # provisioning makes no others
        self._key = key
        self._certificates = bundle.public.certificates
        self._directory = Directory(bundle.public)
        self._keys: dict[int, ec.EllipticCurvePublicKey] = {}

    def sign(self, text: bytes) -> bytes:
        return self._key.sign(text, _ALGORITHM)

    def check(self, user: int, text: bytes, signature: bytes) -> None:
        """``WireError`` unless this user, with a certificate that has not expired, signed the text."""
        try:
            if self._directory.user(self._certificates[user]) != user:
                raise WireError("a certificate of somebody else")
            self._key_of(user).verify(signature, text, _ALGORITHM)
        except (InvalidSignature, NotInPlanError):
            raise WireError("a message whose signature is not its speaker's") from None

    def _key_of(self, user: int) -> ec.EllipticCurvePublicKey:
        if user not in self._keys:
            key = x509.load_pem_x509_certificate(self._certificates[user]).public_key()
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise WireError("a key of another kind")
            self._keys[user] = key
        return self._keys[user]


def check_path(peers: Peers, me: int, caller: int, path: Sequence[int], at: int) -> None:
    """``WireError`` unless ``path`` is a way of the graph that has come from ``caller`` to ``me``."""
    if not 3 <= len(path) <= len(peers) or len(set(path)) < len(path) or not 1 <= at < len(path):
        raise WireError("a path that is none")
    if path[at] != me or path[at - 1] != caller:
        raise WireError("a path that does not lead here")
    if max(path) >= len(peers) or any(b not in peers[a] for a, b in pairwise(path)):
        raise WireError("a path beside the graph")


def way(peers: Peers, start: int, end: int, avoid: Collection[int]) -> list[int] | None:
    """A shortest path that passes through none of ``avoid``; None: there is none."""
    before: dict[int, int] = {start: start}
    queue = deque([start])
    while queue and end not in before:
        user = queue.popleft()
        for other in peers[user]:
            if other not in before and (other == end or other not in avoid):
                before[other] = user
                queue.append(other)
    if end not in before:
        return None
    path = [end]
    while path[-1] != start:
        path.append(before[path[-1]])
    return path[::-1]


class Seen:
    """The messages that came lately: none is answered twice."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, bytes], None] = OrderedDict()

    def check(self, origin: int, nonce: bytes) -> None:
        if (origin, nonce) in self._known:
            raise WireError("a message that came before")
        self._known[origin, nonce] = None
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
