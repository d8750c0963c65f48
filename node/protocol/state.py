"""The state of one user: a durable half that the journal keeps, and a volatile half that a crash forgets.

``Durable`` changes only through transitions; ``machine.step`` compares it before and after and emits the difference
as ``Persist`` ahead of everything else, so no handler can forget to journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from network_dp.noise_rule import NoiseRule
from network_dp.plan import Timing
from network_dp.topology import Topology
from node.protocol.digests import digest
from node.protocol.messages import Located, Promise, Result
from node.protocol.record import Record
from node.protocol.values import NO_EPOCH, NO_HOP, Epoch, Hop, Octets, Payload, Token


class Phase(Enum):
    """Where this user stands with the token."""

    IDLE = "no token in hand"
    CHECKING = "asking a majority what they remember before sending anything"
    COMPUTING = "received and acknowledged; the task is running"
    ROUTING = "ready to offer the token, waiting for the next try"
    OFFERING = "offered to the next user, no bytes have left"
    HANDING = "handed over, waiting for the acknowledgement"
    WAITING = "bytes may have left, no acknowledgement: only the same user may get the same bytes"
    STALLED = "too few users are alive: keeping the token"
    PUBLISHING = "the walk is over: a majority must journal the result"
    DONE = "the result is final"


class Watch(Enum):
    """What this user does about a token that may be lost."""

    RESTING = "waiting for the lease to end"
    PROBING = "asking the user the token went to"
    LOCATING = "asking everybody where the token is"
    FENCING = "asking for promises to give up older epochs"


HOLDING = frozenset({Phase.CHECKING, Phase.COMPUTING, Phase.ROUTING, Phase.OFFERING, Phase.STALLED})


UNROUTED = -1
FINISH = -2


class Custody(NamedTuple):
    """The last token this user sent or is about to send; kept until the result is final."""

    hop: Hop  # where this user stood (its own visit)
    visit: int
    cause: str
    next: int  # UNROUTED: the task has not run yet (``out`` is what was received); FINISH: the walk ended here
    out_hop: Hop
    out: Octets
    key: bytes
    real: bool
    units: int
    visit_line: str
    sent_line: str
    out_digest: bytes  # of ``out``


@dataclass(frozen=True, eq=False)
class Durable(Record):
    """What survives a crash."""

    promised: Epoch = NO_EPOCH
    mark: Hop = NO_HOP  # highest hop taken
    mark_digest: bytes = b""
    mark_from: int = -1
    custody: Custody | None = None
    started: bool = False
    visits: int = 0
    contributions: int = 0
    edges: Mapping[int, int] = field(default_factory=dict)  # next user -> real contributions sent to it
    taken: Mapping[int, Hop] = field(default_factory=dict)  # peer -> last hop taken from it
    given: Mapping[int, Hop] = field(default_factory=dict)  # peer -> last hop it acknowledged
    votes: Mapping[int, Epoch] = field(default_factory=dict)  # peer -> last promise it gave to this user
    result: Result | None = None
    kept: bytes = b""  # at the user that keeps the value: the name of the end, then the final token
    final: bool = False
    rejoined: bool = False

    @property
    def ended(self) -> bool:
        """Was a result accepted, and no token of a later epoch taken since?"""
        return self.result is not None and (self.custody is None or self.custody.hop.epoch <= self.result.epoch)

    @property
    def acked(self) -> bool:
        """Has the next user acknowledged the last token?"""
        return self.custody is not None and self.given.get(self.custody.next) == self.custody.out_hop


class Grant(NamedTuple):
    """``hop`` None: a standing grant, good for any later hop of the promised epoch."""

    secret: bytes
    hop: Hop | None
    expires_at: float


class Draft(NamedTuple):
    """What a visit is made of, in memory until the hand-over: lets the next user change without redrawing noise."""

    received: Token
    contribution: Payload | None
    supply: Any | None  # its noise, once a hop owed some
    contributions_before: int
    opening: Payload | None  # random elements the first contributor added, already in ``received``


class Woke(NamedTuple):
    """What the journal said when this process started. What peers remember is held against it and not against what
    came since: a token taken before they answered must not hide what was forgotten."""

    sent: Hop = NO_HOP  # furthest hop sent or planned, and to whom
    to: int = UNROUTED
    held: Hop = NO_HOP  # where this user surely had the token in hand


class Claim(NamedTuple):
    """What one peer said: believed when enough others say the same."""

    peer: int
    result: Result


@dataclass(frozen=True, eq=False)
class State(Record):
    """One user, whole."""

    durable: Durable
    phase: Phase = Phase.IDLE
    watch: Watch = Watch.RESTING
    draft: Draft | None = None
    handed: bool = False  # have (or may have) bytes of ``custody.out`` left?
    grants: Mapping[int, Grant] = field(default_factory=dict)  # given to peers
    standing: Mapping[int, Grant] = field(default_factory=dict)  # got from peers, while their streams are warm
    attempt: int = 0  # serial number of hand-over and publishing messages: older answers are stale
    query: int = 0  # the same for questions to everybody
    tries: int = 0
    retry_at: float | None = None
    watch_at: float | None = None
    watch_round: int = 0
    down: Mapping[int, float] = field(default_factory=dict)  # peer -> time until which it is taken to be down
    checked: bool = False
    first_life: bool = False  # nothing was journaled when this process started, and it is the first one
    woke: Woke = field(default_factory=Woke)
    check_until: float = 0.0
    asked: frozenset[int] = frozenset()  # peers whose answer is awaited (check, locate, fence)
    to_ask: frozenset[int] = frozenset()  # peers asked so far in this round of questions
    unheard: frozenset[int] = frozenset()  # after a lost disk: peers that have not said yet what they know
    barrier: Hop = NO_HOP  # until they have: hops up to here may have been taken before the disk was lost
    seen: Hop = NO_HOP  # furthest hop heard of: a further one means the walk goes on
    heard: Mapping[int, Located] = field(default_factory=dict)
    promises: Mapping[int, Promise] = field(default_factory=dict)
    bid: Epoch = NO_EPOCH
    heights: Mapping[int, int] = field(default_factory=dict)  # peer -> epoch too high to believe
    unpublished: frozenset[int] = frozenset()  # peers that have not acknowledged the result
    publishing: frozenset[int] = frozenset()  # peers whose acknowledgement is awaited
    outbid: Epoch = NO_EPOCH  # the highest epoch for which somebody refused the result
    claim: Claim | None = None  # a result that somebody says is final
    finals: Mapping[int, bytes] = field(default_factory=dict)  # peer -> the end that it says is final, and stays so
    farewell: bool = False  # has everybody the final result, and are they being told so?
    deferred: int = 0  # how often in a row this user left a lost token to somebody who got further
    believed: int = 0  # how often in a row it was told that the token is alive, and saw no progress
    stalled_since: float | None = None
    outvoted_since: float | None = None  # since when no bid of this user found a majority
    stop_at: float | None = None
    draining: bool = False
    disk_full: bool = False
    disk_retry_at: float | None = None  # when a full disk is worth another try

    @property
    def wake_at(self) -> float | None:
        times = [t for t in (self.retry_at, self.watch_at, self.stop_at, self.disk_retry_at) if t is not None]
        return min(times) if times else None


class Dice(Protocol):
    """Randomness as an input: the OS's CSPRNG in production, a seeded stream in the simulator."""

    def below(self, bound: int) -> int: ...

    def secret(self, size: int) -> bytes: ...

    def unit(self) -> float: ...


class Inputs(NamedTuple):
    """What a transition may know beside state and event."""

    now: float
    dice: Dice
    supply: Callable[[], Any]  # the next pre-drawn noise; each is handed out once
    wall_time: float = 0.0
    digest: Callable[[Octets], bytes] = digest  # the same function, however it is computed


class Mixed(NamedTuple):
    """An outgoing payload and what was put into it."""

    payload: Payload
    noise: Payload | None
    dummies: Payload | None
    n_dummies: int


class Worker(Protocol):
    """The task of this user, bound to its data; pure but for the ``supply`` handed in."""

    dtype: str
    dimension: int
    quick: bool

    def fits(self, payload: Payload, part: float | None = None) -> bool:
        """``part``: of the walk that is over when the payload arrives; None: it is this user's own, or the result."""
        ...

    def begin(self, fresh: Callable[[], Any]) -> Mixed: ...

    def contribute(self, payload: Payload, index: int) -> Payload: ...

    def mix(
        self,
        payload: Payload,
        contribution: Payload | None,
        supply: Any | None,
        units: int,
        step: int,
        closing: bool,
        out: Payload | None = None,
    ) -> Mixed:
        """``supply`` None: no noise is owed, and nothing closes. ``out``: where the outgoing payload may be put; a
        worker that cannot makes an array of its own."""
        ...

    def enough(self, supply: Any, units: int, fresh: Callable[[], Any]) -> Any: ...

    def refresh(self, payload: Payload, supply: Any, units: int, step: int) -> Mixed: ...


@dataclass(frozen=True, eq=False)
class Context:
    """What never changes during a run."""

    me: int
    names: tuple[str, ...]
    run_id: str
    topology: Topology
    rule: NoiseRule
    release_all: bool
    min_live: int
    cap: int | None
    edge_cap: int | None
    forward_past_cap: bool
    log_values: bool
    timing: Timing
    worker: Worker

    def _replace(self, **changes: Any) -> Context:
        return replace(self, **changes)

    @cached_property
    def start(self) -> int:
        """Index of the starter."""
        return self.topology.starter

    @cached_property
    def total(self) -> int:
        return self.topology.total_steps

    @cached_property
    def n(self) -> int:
        return len(self.names)

    @cached_property
    def majority(self) -> int:
        return self.n // 2 + 1

    @cached_property
    def shape(self) -> Mapping[str, Any]:
        """What a token of this run looks like."""
        return {
            "dtype": self.worker.dtype,
            "dimension": self.worker.dimension,
            "ledger_size": self.n if self.rule.by_ledger else 0,
        }

    @cached_property
    def others(self) -> frozenset[int]:
        return frozenset(range(self.n)) - {self.me}
