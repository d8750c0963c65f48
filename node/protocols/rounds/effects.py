"""What goes into the core of anonymous rounds and comes out of it: the events and effects of any protocol, with the
messages of rounds, and work that is done off the event loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from node.protocols.effects import (
    Answered,
    Begin,
    Finished,
    Log,
    Note,
    Persist,
    PersistFailed,
    Received,
    Reply,
    Send,
    Stop,
    Stopping,
    StreamClosed,
    Tick,
)
from node.protocols.rounds.messages import Answer, Batch, Request

Payload = NDArray[np.int64] | NDArray[np.float64]


class Compute(NamedTuple):
    """Run the task on this payload off the event loop; answer with ``Computed``. ``contribution`` is always 1: what
    a user contributes must not depend on its visits before (THEORY.md#hidden-path)."""

    payload: Payload
    contribution: int
    visit: int


class Computed(NamedTuple):
    """The contribution of a visit."""

    contribution: Payload
    visit: int


class Turn(NamedTuple):
    """Shuffle this batch off the event loop (``lists.turned``); answer with ``Turned``."""

    batch: Batch


class Turned(NamedTuple):
    """A batch after this user's turn; None: it held a point of low order."""

    batch: Batch | None


class Result(NamedTuple):
    """What a run ended with: under which epoch, and how many contributions are in it."""

    epoch: int
    contributions: int


Event = (
    Begin
    | Received[Request]
    | Answered[Request, Answer]
    | Computed
    | Turned
    | Tick
    | StreamClosed
    | Stopping
    | PersistFailed["Event"]
)
Effect = Persist | Log | Reply[Answer] | Send[Request] | Compute | Turn | Finished[Result] | Note | Stop
