"""The state of one user of anonymous rounds: a durable half that the journal keeps, and a volatile half.

``Durable`` holds the one message this user still has to say, fixed before it may first leave, its votes, and the
result. A process that starts again draws a new life, and with it new pads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from node.protocols.rounds.effects import Effect, Payload
from node.protocols.rounds.labels import scalar_of
from node.protocols.rounds.messages import Batch, Call
from node.protocols.rounds.pads import LIFE_BYTES, Pads
from node.protocols.rounds.speech import size_of

FIRST_EPOCH = 1
COUNT_BYTES = 8  # in front of the total of a masked sum: how many shares are in it
COUNT_SHIFT = 40  # an epoch is a count and, below it, 40 random bits: two askers never ask for the same one
Key = tuple[int, int]  # epoch and step of a message: a later message has a higher one


class Durable(NamedTuple):
    """What survives a crash; every field is a plain value.

    ``epoch``, ``to_step``: of the message that this user has to say until it hears it; ``said`` is its bytes, ``out``
    the token in it. ``line``: of the view log, for visit number ``visits``. ``rejoined``: the disk was lost or old, so
    this user has no vote, and opens no token up to epoch ``barrier`` (0: it has not heard yet where the others are).
    ``met``: the latest life of each user on any roll, ``own``: all of this user (``lives``)."""

    promised: int = FIRST_EPOCH
    epoch: int = 0
    to_step: int = 0
    said: bytes = b""
    out: bytes = b""
    accepted: int = 0
    result: bytes = b""
    final: bool = False
    visits: int = 0
    line: str = ""
    rejoined: bool = False
    barrier: int = 0
    met: bytes = b""
    own: bytes = b""


def changes(before: Durable, after: Durable) -> dict[str, Any]:
    """The fields that differ; ``before._replace(**changes)`` is ``after``."""
    old = before._asdict()
    return {name: value for name, value in after._asdict().items() if value != old[name]}


class Mixed(Protocol):
    """An outgoing payload and what was put into it."""

    @property
    def payload(self) -> Payload: ...

    @property
    def noise(self) -> Payload | None: ...


class Worker(Protocol):
    """The task of this user, bound to its data; pure but for the ``supply`` handed in."""

    dtype: str
    dimension: int

    def fits(self, payload: Payload, part: float | None = None) -> bool: ...

    def begin(self, fresh: Callable[[], Any]) -> Mixed: ...

    def mix(
        self,
        payload: Payload,
        contribution: Payload | None,
        supply: Any | None,
        units: int,
        step: int,
        closing: bool,
        out: Payload | None = None,
    ) -> Mixed: ...


class Dice(Protocol):
    """Randomness as an input: the OS's CSPRNG in production, a seeded stream in the simulator."""

    def below(self, bound: int) -> int: ...

    def secret(self, size: int) -> bytes: ...


class Inputs(NamedTuple):
    """What a transition may know beside state and event."""

    now: float
    dice: Dice
    supply: Callable[[], Any]  # the next pre-drawn noise; each is handed out once
    wall_time: float = 0.0


@dataclass(frozen=True)
class Context:
    """The run as one user sees it.

    ``quorum``: a round needs so many users (a majority, and ``min_live``). ``beat_s``: blocks leave so long after the
    last sum. ``block_s``: how long the adder waits for a block. ``answer_s``: how long a user waits for the adder.
    ``lease``: rounds without a word after which the last speaker asks for a new epoch. ``incarnation``: how often this
    user's process was started on its disk."""

    me: int
    names: tuple[str, ...]
    run_id: str
    publics: tuple[bytes, ...]
    private: bytes
    pads: Pads
    quorum: int
    total_steps: int
    starter: int
    shufflers: int
    beat_s: float
    block_s: float
    answer_s: float
    retry_s: float
    linger_s: float
    stall_s: float
    lease: int
    incarnation: int
    log_values: bool
    worker: Worker
    in_one_round: bool = False  # a masked sum, and no walk
    attempts: int = 1  # shares of a masked sum that this user may let go

    @cached_property
    def n(self) -> int:
        return len(self.names)

    @cached_property
    def key(self) -> X25519PrivateKey:
        """What opens tokens."""
        return scalar_of(self.private)

    @cached_property
    def majority(self) -> int:
        return self.n // 2 + 1

    @cached_property
    def token_bytes(self) -> int:
        return 8 * self.worker.dimension + (COUNT_BYTES if self.in_one_round else 0)

    def end(self, body: bytes) -> tuple[int, bytes]:
        """How many contributions are in a result, and its payload."""
        if not self.in_one_round:
            return self.total_steps, body
        return int.from_bytes(body[:COUNT_BYTES], "little"), body[COUNT_BYTES:]

    @cached_property
    def block_bytes(self) -> int:
        return 8 * size_of(self.token_bytes)

    def payload(self, token: bytes) -> Payload:
        """The token as numbers."""
        found: Payload = np.frombuffer(token, np.dtype(self.worker.dtype).newbyteorder("<")).astype(self.worker.dtype)
        return found

    def token(self, payload: Payload) -> bytes:
        return payload.astype(np.dtype(self.worker.dtype).newbyteorder("<")).tobytes()


class Waiting(NamedTuple):
    """A user that waits at this adder: where to answer it, its life and votes, and its block for the open call."""

    ticket: int
    life: bytes
    promised: int
    accepted: int
    data: bytes | None
    own: bytes = b""


class Adding(NamedTuple):
    """The duty of the adder: its open call, and who is waiting. ``told``: somebody who came brought newer news."""

    call: Call | None = None
    counter: int = 0
    waiting: Mapping[int, Waiting] = {}
    until: float | None = None  # then the open call is made anew without who is missing
    told: bool = False
    batches: tuple[Batch, ...] = ()  # finished labels that wait for the next outcomes, one for each


class State(NamedTuple):
    """One user, whole."""

    durable: Durable
    life: bytes = b""
    adder: int = 0  # who has the duty, as far as this user knows
    attempt: int = 0  # serial number of messages to the adder: older answers are stale
    call: Call | None = None
    answered: Mapping[tuple[int, bytes], int] = {}  # adder and its life -> the last counter it got a block for
    send_at: float | None = None
    heard: Key = (0, 0)
    news: bytes = b""  # the message of ``heard``
    spoke: bytes = b""  # what this user said in the open round
    quiet: int = 0  # rounds to keep silent after a collision
    crashes: int = 0  # collisions in a row
    empty: int = 0  # rounds since anybody said anything
    opened: bytes = b""  # the token, while this user is the holder of ``heard``
    computation: int = 0  # serial number of the last one; an older one's answer is stale
    computing: bool = False
    contribution: Payload | None = None  # once it is computed
    bid: int = 0  # the epoch that this user asks promises for
    won: bool = False  # has a majority promised?
    base: Key = (FIRST_EPOCH, 1)  # the message that is due
    batches: Mapping[Key, Batch] = {}  # epoch and number -> finished labels
    label_at: float = 0.0  # then missing labels are asked for, or begun, again
    tries: int = 0
    adding: Adding = Adding()
    disk_at: float = 0.0  # a full disk is not tried again before
    stop_at: float | None = None
    progress_at: float | None = None  # when the last sum came
    logged: tuple[int, ...] = ()  # the attendance that the view log has

    @property
    def wake_at(self) -> float | None:
        times = (self.send_at, self.adding.until, self.stop_at)
        return min((at for at in times if at is not None), default=None)

    @property
    def mine(self) -> Key:
        """The message that this user last had to say."""
        return self.durable.epoch, self.durable.to_step


Step = tuple[State, list[Effect]]


def new_life(ctx: Context, inputs: Inputs) -> bytes:
    half = LIFE_BYTES // 2
    return ctx.incarnation.to_bytes(half, "big") + inputs.dice.secret(half)


def new_epoch(state: State, inputs: Inputs) -> int:
    """Above all that this user knows of."""
    count = max(state.durable.promised, state.heard[0]) >> COUNT_SHIFT
    return (count + 1 << COUNT_SHIFT) + int.from_bytes(inputs.dice.secret(COUNT_SHIFT // 8), "little")
