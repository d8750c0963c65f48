"""The state of one user: a durable half that the journal keeps, and a volatile half that a crash forgets.

``Durable`` changes only through transitions; ``machine.step`` compares it before and after and emits the difference
as ``Persist`` ahead of everything else, so no handler can forget to journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

from network_dp import view
from network_dp.noise_rule import NoiseRule
from network_dp.plan import Timing
from network_dp.topology import Topology
from node.protocols.walk.digests import digest
from node.protocols.walk.effects import Effect
from node.protocols.walk.messages import Located, Promise, Result
from node.protocols.walk.record import FrozenRecord
from node.protocols.walk.values import NO_EPOCH, NO_HOP, Epoch, Hop, Octets, Payload, Token


class Phase(Enum):
    """Where this user stands with the token. READY and TOO_FEW lead on by themselves: no transition ends there."""

    IDLE = "no token in hand"
    READY = "the token may go on from what the journal says of it"
    CHECKING = "asking a majority what they remember before sending anything"
    COMPUTING = "received and acknowledged; the task is running"
    ROUTING = "ready to offer the token, waiting for the next try"
    OFFERING = "offered to the next user, no bytes have left"
    HANDING = "handed over, waiting for the acknowledgement"
    WAITING = "bytes may have left, no acknowledgement: only the same user may get the same bytes"
    TOO_FEW = "too few users are alive for the next hop"
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


T = TypeVar("T")
NOBODY = -1
FINISH = -2  # as the next user: the walk ends


class Entry(NamedTuple):
    """A line of the view log as data, in the order of its text; what it says is read here and never from the text."""

    kind: str
    fields: Mapping[str, Any]

    @property
    def line(self) -> str:
        return view.encode(self.kind, **self.fields)


class Arrived(NamedTuple):
    """A token that this user took, started or takes up again, and has not planned to send yet."""

    hop: Hop
    visit: int
    cause: str
    visited: Entry
    out: Octets  # as it came
    out_digest: bytes

    @property
    def out_hop(self) -> Hop:
        return self.hop


class Planned(NamedTuple):
    """Next user and bytes are fixed in the journal, before anything leaves."""

    hop: Hop  # where this user stood (its own visit)
    visit: int
    cause: str
    visited: Entry
    next: int
    out_hop: Hop
    out: Octets
    out_digest: bytes
    key: bytes
    real: bool
    units: int
    sent: Entry


class Ended(NamedTuple):
    """The walk ended here: ``out`` is the final token."""

    hop: Hop
    visit: int
    cause: str
    visited: Entry
    out_hop: Hop
    out: Octets
    out_digest: bytes
    real: bool
    units: int
    sent: Entry


#: The last token of this user, from its arrival on; kept until the result is final.
Custody = Arrived | Planned | Ended


@dataclass(frozen=True, eq=False)
class Durable(FrozenRecord):
    """What survives a crash."""

    promised: Epoch = NO_EPOCH
    high_water: Hop = NO_HOP  # highest hop taken
    high_water_digest: bytes = b""
    high_water_from: int = -1
    custody: Custody | None = None
    started: bool = False
    visits: int = 0
    contributions: int = 0
    edges: Mapping[int, int] = field(default_factory=dict)  # next user -> real contributions sent to it
    # Peer -> last hop taken from it, or acknowledged by it; an end of the walk counts as ``Context.end_hop``.
    taken: Mapping[int, Hop] = field(default_factory=dict)
    given: Mapping[int, Hop] = field(default_factory=dict)
    votes: Mapping[int, Epoch] = field(default_factory=dict)  # peer -> last promise it gave to this user
    result: Result | None = None
    withheld: bytes = b""  # at the user that keeps the value: the name of the end, then the final token
    final: bool = False
    rejoined: bool = False

    @property
    def ended(self) -> bool:
        """Was a result accepted, and no token of a later epoch taken since?"""
        return self.result is not None and (self.custody is None or self.custody.hop.epoch <= self.result.epoch)

    @property
    def acked(self) -> bool:
        """Has the next user acknowledged the last token, or the end of its epoch?"""
        if not isinstance(self.custody, Planned):
            return False
        given, sent = self.given.get(self.custody.next, NO_HOP), self.custody.out_hop
        return given.epoch == sent.epoch and given >= sent


MAPPINGS = frozenset({"edges", "taken", "given", "votes"})


def diff(before: Durable, after: Durable) -> dict[str, Any]:
    """Changed fields; of a mapping, the changed entries only."""
    changes: dict[str, Any] = {}
    was = vars(before)
    for name, new in vars(after).items():
        old = was[name]
        if new is old or new == old:
            continue
        if name in MAPPINGS:
            changes[name] = {key: value for key, value in new.items() if old.get(key) != value}
        else:
            changes[name] = new
    return changes


def merge(before: Mapping[str, Any], changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Two changes in a row as one."""
    if not before:
        return changes
    mixed = {name: {**before[name], **changes[name]} for name in MAPPINGS if name in before and name in changes}
    return {**before, **changes, **mixed}


def apply(durable: Durable, changes: Mapping[str, Any]) -> Durable:
    """The inverse of ``diff``: replaying all changes from the first gives the durable state back."""
    merged: dict[str, Any] = {
        name: {**getattr(durable, name), **value} if name in MAPPINGS else value for name, value in changes.items()
    }
    return durable._replace(**merged)


def without(users: Mapping[int, T], user: int) -> Mapping[int, T]:
    return {other: value for other, value in users.items() if other != user}


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
    opening: Payload | None  # cover elements the first contributor added, already in ``received``


class AtBoot(NamedTuple):
    """What the journal said when this process started. What peers remember is held against it and not against what
    came since: a token taken before they answered must not hide what was forgotten."""

    sent: Hop = NO_HOP  # furthest hop sent or planned, and to whom
    to: int = NOBODY
    held: Hop = NO_HOP  # where this user surely had the token in hand
    end: Hop = NO_HOP  # of the result in the journal, which anybody may have been told


class Doubt(NamedTuple):
    """An end of the walk that one user alone reports, and since when more votes are waited for."""

    end: bytes
    since: float


class Claim(NamedTuple):
    """What one peer said: believed when enough others say the same."""

    peer: int
    result: Result


@dataclass(frozen=True, eq=False)
class State(FrozenRecord):
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
    at_boot: AtBoot = field(default_factory=AtBoot)
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
    doubt: Doubt | None = None
    stop_at: float | None = None
    draining: bool = False
    disk_full: bool = False
    disk_retry_at: float | None = None  # when a full disk is worth another try

    @property
    def wake_at(self) -> float | None:
        times = [t for t in (self.retry_at, self.watch_at, self.stop_at, self.disk_retry_at) if t is not None]
        return min(times) if times else None


Step = tuple[State, list[Effect]]


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
    cover: Payload | None
    n_cover: int


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

    def end_hop(self, epoch: Epoch) -> Hop:
        """The end of the walk under an epoch, as a hop: later than all others of that epoch."""
        return Hop(epoch, self.total + 1)

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
