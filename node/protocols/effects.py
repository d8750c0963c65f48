"""Events in, effects out: what the runtime understands of any protocol, whatever its messages are.

The runtime carries out effects in order. ``Persist`` always comes first: nothing is sent, answered or shown before
what it depends on is durable. If persisting fails, the transition is void: the runtime keeps the old state and feeds
``PersistFailed`` instead. Every ``Send`` is answered by exactly one ``Answered``, in bounded time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Result = TypeVar("Result")
Event = TypeVar("Event")


class Begin(NamedTuple):
    """The process is serving. First event after a start or a restart (``again``: this user ran before)."""

    again: bool = False


class Received(NamedTuple, Generic[Request]):
    """A peer asks something; ``ticket`` names the waiting call for ``Reply``."""

    peer: int
    ticket: int
    request: Request


class Answered(NamedTuple, Generic[Request, Answer]):
    """The outcome of a ``Send``; ``answer`` None: no answer came (refused connection, time-out, broken stream)."""

    peer: int
    attempt: int
    request: Request
    answer: Answer | None


class Tick(NamedTuple):
    """The time has come for which the state asked to be woken."""


class StreamClosed(NamedTuple):
    """The stream to a peer ended."""

    peer: int


class Stopping(NamedTuple):
    """The operator wants this process to end."""


class PersistFailed(NamedTuple, Generic[Event]):
    """The disk did not take what ``cause`` led to; nothing of it has happened."""

    cause: Event


class Persist(NamedTuple):
    """Make these changes of the durable state durable. ``sync``: also against a machine crash."""

    changes: Mapping[str, Any]
    sync: bool


class Log(NamedTuple):
    """Append a line to the user's own view log."""

    line: str


class Reply(NamedTuple, Generic[Answer]):
    ticket: int
    answer: Answer


class Send(NamedTuple, Generic[Request]):
    peer: int
    attempt: int
    request: Request


class Finished(NamedTuple, Generic[Result]):
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
