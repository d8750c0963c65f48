"""What goes into the walk's core and comes out of it: the events and effects of any protocol, with the walk's messages,
and a slow task."""

from __future__ import annotations

from typing import NamedTuple

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
from node.protocols.walk.messages import Answer, Request, Result
from node.protocols.walk.values import Payload


class Computed(NamedTuple):
    """A slow task finished its contribution (None: it had nothing to add) to a visit."""

    contribution: Payload | None
    visit: int


class Compute(NamedTuple):
    """Run the task on this payload off the event loop; answer with ``Computed``."""

    payload: Payload
    contribution: int  # its number, from 1
    visit: int


Event = (
    Begin
    | Received[Request]
    | Answered[Request, Answer]
    | Computed
    | Tick
    | StreamClosed
    | Stopping
    | PersistFailed["Event"]
)
Effect = Persist | Log | Reply[Answer] | Send[Request] | Compute | Finished[Result] | Note | Stop
