"""What peers say to each other, as values; the transport turns them into protobuf and back.

Run id and plan hash are checked by the transport on every message, so they do not appear here.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from node.protocols.walk.values import NO_EPOCH, NO_HOP, Epoch, Hop, Octets


class Why(Enum):
    """Why an offer, a token or a vote was not taken."""

    FENCED = "a higher epoch was promised"
    DONE = "the run is finished"
    BUSY = "cannot take a token now"
    NO_GRANT = "the grant is unknown or spent"
    UNFIT = "the token does not fit the plan"
    MISBEHAVIOUR = "the hop contradicts what was seen before"
    UNCHECKED = "just restarted, a majority has not answered yet"


class Offer(NamedTuple):
    """Will you take this hop? Constant size, nothing of the token in it."""

    hop: Hop


class Granted(NamedTuple):
    grant: bytes


class Already(NamedTuple):
    """The hop was taken earlier; the acknowledgement was lost."""


class Declined(NamedTuple):
    why: Why
    promised: Epoch


OfferAnswer = Granted | Already | Declined


class Handoff(NamedTuple):
    """``digest``: of ``token``, where the receiver's transport computed it while the bytes arrived; it does not
    travel."""

    hop: Hop
    grant: bytes
    key: bytes
    token: Octets
    digest: bytes = b""


class Accepted(NamedTuple):
    """The token is journaled at the receiver, now or earlier. ``grant``: a standing grant, which saves the caller the
    next offer to this user while their stream stays warm; empty when there is none."""

    grant: bytes = b""


class Refused(NamedTuple):
    """The token is not journaled, and its grant is spent: a late copy of it will not be taken either."""

    why: Why
    promised: Epoch


HandoffAnswer = Accepted | Refused


class Result(NamedTuple):
    """The end of the walk under an epoch. ``end`` names this end, whoever publishes it again; ``token`` is empty when
    the holder keeps the value (an end mark)."""

    epoch: Epoch
    end: bytes
    token: bytes


class Locate(NamedTuple):
    """Where is the token, and what do you remember of me?"""


class Located(NamedTuple):
    rank: Hop  # the furthest hop this user sent or plans to send
    responsible: bool  # it holds the token, alive, or is about to start or publish
    promised: Epoch
    taken: Hop  # last hop taken from the caller
    given: Hop  # last hop the caller acknowledged
    vote: Epoch  # last promise the caller gave to this user
    result: Result | None  # an accepted result
    final: bool


NOWHERE = Located(NO_HOP, False, NO_EPOCH, NO_HOP, NO_HOP, NO_EPOCH, None, False)


class Fence(NamedTuple):
    """Promise to refuse every epoch below this one."""

    epoch: Epoch


class Promise(NamedTuple):
    """``granted`` false: ``promised`` says what stands in the way, ``why`` in words."""

    granted: bool
    why: Why | None
    promised: Epoch
    rank: Hop
    result: Result | None
    final: bool


class Publish(NamedTuple):
    """Journal this result (``final``: a majority has). ``everybody``: all users have it, nobody needs to linger."""

    result: Result
    final: bool
    everybody: bool


class Published(NamedTuple):
    accepted: bool
    promised: Epoch


Request = Offer | Handoff | Locate | Fence | Publish
Answer = OfferAnswer | HandoffAnswer | Located | Promise | Published
