"""The plan: the one public description of a run, as values.

A plan says what will be computed, by whom, with which noise. Everybody has the same one: its canonical hash
is in every message, and a node refuses a token of another plan. Reading and strict checking live in
``plan_reader``; this module holds the values and what follows from them (hash, sensitivity, run id).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Final, Literal

from network_dp.errors import PlanError as PlanError
from network_dp.mechanism import MECHANISMS, Mechanism, MechanismKind
from network_dp.model_spec import ModelTask as ModelTask
from network_dp.noise_rule import NoiseRule
from network_dp.task_rules import READING_KEYS
from network_dp.task_spec import CustomTask as CustomTask
from network_dp.task_spec import HistogramTask as HistogramTask
from network_dp.task_spec import SgdTask as SgdTask
from network_dp.task_spec import SumTask as SumTask
from network_dp.task_spec import TaskSpec as TaskSpec
from network_dp.topology import TOPOLOGIES, Graph, Peers, Topology, TopologyKind, Weights

Release = Literal["all", "holder"]
Durability = Literal["machine", "process"]
Against = Literal["network", "local"]
PastCap = Literal["noise", "forward"]
Path = Literal["known", "hidden"]
ProtocolKind = Literal["walk", "masked_sum"]
Control = Literal["direct", "relay"]

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class User:
    """One participant. ``address`` is where peers reach it, ``bind`` where it listens (default: the same)."""

    name: str
    address: str
    bind: str | None = None
    data: str | None = None
    key: str | None = None  # SHA-256 of the public key (SPKI, DER), hex: pinned by provisioning
    round_key: str | None = None  # X25519 public key for anonymous rounds, hex: pinned by provisioning
    peers: tuple[str, ...] | None = None  # on a graph: whom it may hand the token to, and get it from


@dataclass(frozen=True, slots=True)
class Walk:
    """How the token moves. Ring: ``rounds`` K. Complete graph, graph of peers: ``steps`` T.

    On a graph ``weights`` say how a holder draws among its peers, and ``control`` how users that are no peers ask each
    other where the token is and vote: over ``direct`` connections, or by a ``relay`` of peers.
    """

    topology: TopologyKind
    rounds: int | None
    steps: int | None
    starter: str
    release: Release
    min_live: int
    durability: Durability
    log_values: bool
    path: Path = "known"  # hidden: nobody learns who holds the token, by anonymous rounds
    protocol: ProtocolKind = "walk"  # masked_sum: no token, one anonymous round in which everybody speaks
    weights: Weights | None = None
    control: Control | None = None

    @property
    def anonymous(self) -> bool:
        """Do users speak in anonymous rounds, so that nobody learns who holds a token?"""
        return self.path == "hidden" or self.protocol == "masked_sum"


@dataclass(frozen=True, slots=True)
class Rounds:
    """Anonymous rounds: what they withstand, and how fast they go.

    ``colluders``: how many users may pool what they see. ``beat_ms``: blocks leave on this beat, the same for all.
    ``known_steps``: so many steps may become known by an absence within the promise. ``attempts``: how often a masked
    sum may be tried, each with fresh noise.
    """

    colluders: int
    beat_ms: float
    known_steps: int
    attempts: int

    @property
    def shufflers(self) -> int:
        """Labels pass through so many users: one more than can collude."""
        return self.colluders + 1


@dataclass(frozen=True, slots=True)
class Noise:
    """The mechanism and its size, or a target (epsilon, delta) from which provisioning computes it.

    ``sigma`` is the std of one full Gaussian noise in data units (SGD: on the gradient), ``scale`` Laplace's b,
    ``gamma`` the lie probability of randomised response. ``grid`` is the public fixed-point step. ``reissues``: how
    often a ring may lose its token and take it up again within the promise (docs/adr/0019). ``distance``: on a graph
    the promise is for users so many hops apart or more; who is nearer is trusted.
    """

    mechanism: MechanismKind
    sigma: float | None
    scale: float | None
    gamma: float | None
    epsilon: float | None
    delta: float
    against: Against
    spread: bool
    grid: float | None
    reissues: int
    distance: int | None = None

    @property
    def calibrated(self) -> bool:
        return self.size is not None

    @property
    def size(self) -> float | None:
        """Of the mechanism; None until it is calibrated."""
        sizes = {"sigma": self.sigma, "scale": self.scale, "gamma": self.gamma}
        return sizes[MECHANISMS[self.mechanism].size_key]


@dataclass(frozen=True, slots=True)
class Caps:
    """Most real contributions of one user, and of one user towards one next user; None: no cap."""

    contributions: int | None
    edge: int | None
    past: PastCap


@dataclass(frozen=True, slots=True)
class Timing:
    """Every wait of the protocol, in seconds."""

    offer_timeout_s: float
    handoff_timeout_s: float
    retry_base_s: float
    retry_max_s: float
    down_ttl_s: float
    grant_ttl_s: float
    lease_s: float
    locate_timeout_s: float
    start_timeout_s: float
    stall_timeout_s: float
    linger_s: float

    def back_off_s(self, tries: int) -> float:
        """How long to wait after so many tries in a row: exponential, bounded."""
        return min(self.retry_max_s, self.retry_base_s * 2.0 ** min(tries, 16))


#: Presets' leases are for so many users; with more they are as much longer, so that all together ask no more often.
LEASE_USERS: Final = 64
PRESETS: Mapping[str, Timing] = {
    "local": Timing(
        offer_timeout_s=1.0,
        handoff_timeout_s=2.0,
        retry_base_s=0.05,
        retry_max_s=1.0,
        down_ttl_s=2.0,
        grant_ttl_s=10.0,
        lease_s=6.0,
        locate_timeout_s=1.0,
        start_timeout_s=20.0,
        stall_timeout_s=120.0,
        linger_s=5.0,
    ),
    "lan": Timing(
        offer_timeout_s=3.0,
        handoff_timeout_s=5.0,
        retry_base_s=0.2,
        retry_max_s=5.0,
        down_ttl_s=10.0,
        grant_ttl_s=30.0,
        lease_s=30.0,
        locate_timeout_s=3.0,
        start_timeout_s=120.0,
        stall_timeout_s=600.0,
        linger_s=30.0,
    ),
    "wan": Timing(
        offer_timeout_s=10.0,
        handoff_timeout_s=30.0,
        retry_base_s=0.5,
        retry_max_s=30.0,
        down_ttl_s=60.0,
        grant_ttl_s=120.0,
        lease_s=180.0,
        locate_timeout_s=10.0,
        start_timeout_s=600.0,
        stall_timeout_s=3600.0,
        linger_s=120.0,
    ),
}


@dataclass(frozen=True)  # no slots: names and hash are worked out once, 2000 users make them costly
class Plan:
    """A checked plan. Equal hashes mean equal promises; addresses are hints and stay outside the hash."""

    name: str
    run_number: int
    walk: Walk
    task: TaskSpec
    noise: Noise
    caps: Caps
    timing: Timing
    users: tuple[User, ...]
    insecure_seed: int | None
    rounds: Rounds | None = None  # None: the walk's own protocol, with a known path

    @property
    def n(self) -> int:
        return len(self.users)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(user.name for user in self.users)

    @cached_property
    def topology(self) -> Topology:
        """The walk's shape, with its rules."""
        kind, walk = TOPOLOGIES[self.walk.topology], self.walk
        length = getattr(walk, kind.length_key)
        return kind.of(self.n, self.index(walk.starter), length, self._peers, walk.weights or "metropolis")

    @property
    def _peers(self) -> Peers:
        return tuple(tuple(sorted(map(self.index, user.peers or ()))) for user in self.users)

    @cached_property
    def mechanism(self) -> Mechanism:
        """How contributions are hidden, with its rules and its size."""
        return MECHANISMS[self.noise.mechanism](self.noise.size)

    @property
    def total_steps(self) -> int:
        return self.topology.total_steps

    @cached_property
    def noise_rule(self) -> NoiseRule:
        """How much noise each hop owes. On a ring one noise serves all users, where it is simply added to a sum."""
        by_ledger = not self.topology.drawn and self.mechanism.additive and self.task.additive
        return NoiseRule(self.unit_count, int(self.noise.spread), by_ledger)

    @property
    def most_contributions(self) -> int:
        """Most real contributions that one user can make: one for each turn it can have, up to its cap."""
        turns = self.topology.most_turns(self.total_steps)
        return turns if self.caps.contributions is None else min(turns, self.caps.contributions)

    @property
    def majority(self) -> int:
        return self.n // 2 + 1

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def index(self, name: str) -> int:
        """Where a user stands in the plan; ``ValueError`` for a name that is not in it."""
        if name not in self._places:
            raise ValueError(f"{name} is not a user of the plan")
        return self._places[name]

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity Delta of one contribution under replacement of one user's data (THEORY.md#exposure, #grid).

        Rounding to the grid adds at most sqrt(d) * grid for vectors; scalar bounds are moved onto the grid. Averages
        of rows within the bounds keep them (they are convex), and shares are rounded to sum to one: two vectors of
        non-negative numbers with sum 1 are at most sqrt(2) apart. So ``rows`` does not enter.
        For randomised response it is not used (the accountant works on the mechanism itself).
        """
        return self.task.sensitivity_on(self.noise.grid or 0.0)

    @property
    def unit_count(self) -> int:
        """How many noise components make one full noise: n - 1 on a spread ring (THEORY.md#ring-spread), in a masked
        sum the honest users of the least attendance (THEORY.md#masked-sum), else 1."""
        if self.rounds is not None and self.in_one_round:
            return self.walk.min_live - self.rounds.colluders
        return self.n - 1 if self.noise.spread else 1

    @property
    def graph(self) -> Graph | None:
        """The graph of peers, where users list theirs; None where a topology knows who may come next by itself."""
        return self.topology if isinstance(self.topology, Graph) else None

    @property
    def path_known(self) -> bool:
        """Must a promise assume that everybody knows who held the token when?"""
        return self.walk.path == "known"

    @property
    def in_one_round(self) -> bool:
        """Does everybody speak once, at the same time, instead of a token that walks?"""
        return self.walk.protocol == "masked_sum"

    @property
    def unit_size(self) -> float:
        """Size of one noise component in data units: a Gaussian's standard deviation, Laplace's scale."""
        return self.mechanism.unit_size(self.unit_count)

    @cached_property
    def hash(self) -> str:
        """SHA-256 over the canonical JSON of all that binds the users; addresses, data paths and waits are left out."""
        body = asdict(self)
        body["schema"] = SCHEMA
        body["task"] = {k: v for k, v in body["task"].items() if v is not None or k not in READING_KEYS}
        body["users"] = [{"name": user.name, "key": user.key} for user in self.users]
        if self.rounds is None:  # a plan with a known path binds what it always did
            del body["rounds"], body["walk"]["path"], body["walk"]["protocol"]
        else:
            body["round_keys"] = [user.round_key for user in self.users]
        if self.topology.listed:
            body["peers"] = self._peers
        else:
            del body["walk"]["weights"], body["walk"]["control"], body["noise"]["distance"]
        for hint in ("timing", "run_number"):
            del body[hint]
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def run_id(self) -> str:
        """hash(plan hash, run number), hex: one plan can be run many times, each run joined once."""
        return hashlib.sha256(f"network-dp run {self.hash} {self.run_number}".encode()).hexdigest()


def as_dict(plan: Plan) -> dict[str, Any]:
    """The plan as nested plain values, in file order (used to write it and to show it)."""

    def table(value: Any) -> dict[str, Any]:
        return {f.name: getattr(value, f.name) for f in fields(value) if getattr(value, f.name) is not None}

    top: dict[str, Any] = {"schema": SCHEMA, "name": plan.name, "run_number": plan.run_number}
    if plan.insecure_seed is not None:
        top["insecure_seed"] = plan.insecure_seed
    for part in ("walk", "task", "noise", "caps", "timing", "rounds"):
        if getattr(plan, part) is not None:
            top[part] = table(getattr(plan, part))
    top["users"] = [table(user) for user in plan.users]
    return top
