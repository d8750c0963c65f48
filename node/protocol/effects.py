"""Events in, effects out: the whole surface between the protocol core and the world.

The runtime carries out effects in order. ``Persist`` always comes first: nothing is sent, answered or shown before
what it depends on is durable. If persisting fails, the transition is void: the runtime keeps the old state and feeds
``PersistFailed`` instead (see ``machine``). Every ``Send`` is answered by exactly one ``Answered``, in bounded time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from node.protocol.messages import Answer, Request, Result
from node.protocol.values import Payload


class Begin(NamedTuple):
    """The process is serving. First event after a start or a restart (``again``: this user ran before)."""

    again: bool = False


class Received(NamedTuple):
    """A peer asks something; ``ticket`` names the waiting call for ``Reply``."""

    peer: int
    ticket: int
    request: Request


class Answered(NamedTuple):
    """The outcome of a ``Send``; ``answer`` None: no answer came (refused connection, time-out, broken stream)."""

    peer: int
    attempt: int
    request: Request
    answer: Answer | None


class Computed(NamedTuple):
    """A slow task finished its contribution (None: it had nothing to add) to a visit."""

    contribution: Payload | None
    visit: int


class Tick(NamedTuple):
    """Time has come to ``State.wake_at``."""


class Cold(NamedTuple):
    """The stream to a peer ended: its standing grant is worth nothing."""

    peer: int


class Stopping(NamedTuple):
    """The operator wants this process to end: grant nothing more."""


class PersistFailed(NamedTuple):
    """The disk did not take what ``cause`` led to; nothing of it has happened."""

    cause: Event


Event = Begin | Received | Answered | Computed | Tick | Cold | Stopping | PersistFailed


class Persist(NamedTuple):
    """Make these changes of ``Durable`` durable. ``sync``: also against a machine crash."""

    changes: Mapping[str, Any]
    sync: bool


class Log(NamedTuple):
    """Append a line to the user's own view log."""

    line: str


class Reply(NamedTuple):
    ticket: int
    answer: Answer


class Send(NamedTuple):
    peer: int
    attempt: int
    request: Request


class Compute(NamedTuple):
    """Run the task on this payload off the event loop; answer with ``Computed``."""

    payload: Payload
    contribution: int  # its number, from 1
    visit: int


class Finished(NamedTuple):
    """The result is final: write result.json. ``token`` empty: only the end is known here."""

    result: Result
    token: bytes


class Note(NamedTuple):
    """A line for the process log: never a value of token, data or noise."""

    level: str
    text: str


class Stop(NamedTuple):
    """End the process with this exit code."""

    code: int
    text: str


Effect = Persist | Log | Reply | Send | Compute | Finished | Note | Stop
