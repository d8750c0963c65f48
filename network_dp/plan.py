"""The plan: the one public description of a run, as values.

A plan says what will be computed, by whom, with which noise. Everybody has the same one: its canonical hash
is in every message, and a node refuses a token of another plan. Reading and strict checking live in
``plan_reader``; this module holds the values and what follows from them (hash, sensitivity, run id).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

from network_dp.noise_rule import NoiseRule
from network_dp.topology import TOPOLOGIES, Topology, TopologyKind

Release = Literal["all", "holder"]
Durability = Literal["machine", "process"]
Mechanism = Literal["gaussian", "laplace", "rr"]
Against = Literal["network", "local"]
PastCap = Literal["noise", "forward"]
Rows = Literal["average", "per_visit"]

SCHEMA = 1


class PlanError(ValueError):
    """A plan that cannot be run; the message names the key, the value and what is allowed."""


@dataclass(frozen=True, slots=True)
class User:
    """One participant. ``address`` is where peers reach it, ``bind`` where it listens (default: the same)."""

    name: str
    address: str
    bind: str | None = None
    data: str | None = None
    key: str | None = None  # SHA-256 of the public key (SPKI, DER), hex: pinned by provisioning


@dataclass(frozen=True, slots=True)
class Walk:
    """How the token moves. Ring: ``rounds`` K. Complete graph: ``steps`` T."""

    topology: TopologyKind
    rounds: int | None
    steps: int | None
    starter: str
    release: Release
    min_live: int
    durability: Durability
    log_values: bool


@dataclass(frozen=True, slots=True)
class SumTask:
    """Sum or mean of vectors with every coordinate in [lower, upper]; ``norm`` bounds the L2 norm instead.

    ``rows``: what several rows of one user mean. "average": each row is clipped, and their average is the user's one
    value, the same at every visit. "per_visit": visit k contributes row k, after the last row the first again.
    """

    kind: Literal["sum", "mean"]
    dimension: int
    lower: float
    upper: float
    norm: float | None
    rows: Rows = "average"


@dataclass(frozen=True, slots=True)
class HistogramTask:
    """Counts over buckets 0 .. buckets-1; a row is one bucket index.

    ``rows``: "average" contributes the shares of the user's rows in the buckets (randomised response takes one row
    only); "per_visit": visit k contributes row k, after the last row the first again.
    """

    kind: Literal["histogram"]
    buckets: int
    rows: Rows = "average"

    @property
    def dimension(self) -> int:
        return self.buckets


@dataclass(frozen=True, slots=True)
class SgdTask:
    """Projected noisy SGD on a convex loss; rows are scaled to unit L2 norm (THEORY.md#sgd-rows)."""

    kind: Literal["sgd"]
    loss: Literal["logistic", "ridge", "smoothed_hinge"]
    features: int
    intercept: bool
    step_size: float
    schedule: Literal["constant", "inverse_sqrt"]
    radius: float | None
    label_bound: float  # ridge: |y| <= label_bound
    smoothing: float  # smoothed hinge: width of the quadratic part

    @property
    def dimension(self) -> int:
        return self.features + int(self.intercept)

    @property
    def lipschitz(self) -> float:
        """L on unit-norm rows: 1 for logistic and smoothed hinge, radius + label_bound for ridge."""
        if self.loss == "ridge":
            assert self.radius is not None
            return self.radius + self.label_bound
        return 1.0

    @property
    def smoothness(self) -> float:
        """beta on unit-norm rows: 1/4 logistic, 1 ridge, 1/smoothing for the smoothed hinge."""
        return {"logistic": 0.25, "ridge": 1.0, "smoothed_hinge": 1.0 / self.smoothing}[self.loss]

    def eta(self, step: int) -> float:
        """Step size at 1-based step t: constant, or step_size / sqrt(t)."""
        return self.step_size if self.schedule == "constant" else self.step_size / math.sqrt(step)


@dataclass(frozen=True, slots=True)
class CustomTask:
    """A task of the user's own: ``factory`` is "module:callable", importable where the node runs."""

    kind: Literal["custom"]
    factory: str
    dimension: int
    sensitivity: float
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)


TaskSpec = SumTask | HistogramTask | SgdTask | CustomTask


@dataclass(frozen=True, slots=True)
class Noise:
    """The mechanism and its size, or a target (epsilon, delta) from which provisioning computes it.

    ``sigma`` is the std of one full Gaussian noise in data units (SGD: on the gradient), ``scale`` Laplace's b,
    ``gamma`` the lie probability of randomised response. ``grid`` is the public fixed-point step. ``reissues``: how
    often a ring may lose its token and take it up again within the promise (docs/adr/0019).
    """

    mechanism: Mechanism
    sigma: float | None
    scale: float | None
    gamma: float | None
    epsilon: float | None
    delta: float
    against: Against
    spread: bool
    grid: float | None
    reissues: int

    @property
    def calibrated(self) -> bool:
        return {"gaussian": self.sigma, "laplace": self.scale, "rr": self.gamma}[self.mechanism] is not None


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

    @property
    def n(self) -> int:
        return len(self.users)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(user.name for user in self.users)

    @cached_property
    def topology(self) -> Topology:
        """The walk's shape, with its rules."""
        kind = TOPOLOGIES[self.walk.topology]
        return kind(self.n, self.index(self.walk.starter), getattr(self.walk, kind.length_key))

    @property
    def total_steps(self) -> int:
        return self.topology.total_steps

    @cached_property
    def noise_rule(self) -> NoiseRule:
        """How much noise each hop owes. On a ring one noise serves all users, where it is simply added to a sum."""
        by_ledger = not self.topology.drawn and self.noise.mechanism != "rr" and not isinstance(self.task, SgdTask)
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
        task, grid = self.task, self.noise.grid or 0.0
        match task:
            case SumTask():
                if task.norm is not None:
                    return 2.0 * task.norm + math.sqrt(task.dimension) * grid
                low, high = grid_bounds(task.lower, task.upper, grid)
                return math.sqrt(task.dimension) * (high - low)
            case HistogramTask():
                return math.sqrt(2.0)
            case SgdTask():
                return 2.0 * task.lipschitz + math.sqrt(task.dimension) * grid
            case CustomTask():
                return task.sensitivity + math.sqrt(task.dimension) * grid

    @property
    def unit_count(self) -> int:
        """How many noise components make one full noise: n - 1 on a spread ring, else 1 (THEORY.md#ring-spread)."""
        return self.n - 1 if self.noise.spread else 1

    @property
    def unit_sigma(self) -> float:
        """Std of one noise component in data units."""
        assert self.noise.sigma is not None
        return self.noise.sigma / math.sqrt(self.unit_count)

    @cached_property
    def hash(self) -> str:
        """SHA-256 over the canonical JSON of all that binds the users; addresses, data paths and waits are left out."""
        body = asdict(self)
        body["schema"] = SCHEMA
        body["users"] = [{"name": user.name, "key": user.key} for user in self.users]
        for hint in ("timing", "run_number"):
            del body[hint]
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def run_id(self) -> str:
        """hash(plan hash, run number), hex: one plan can be run many times, each run joined once."""
        return hashlib.sha256(f"network-dp run {self.hash} {self.run_number}".encode()).hexdigest()


def grid_bounds(lower: float, upper: float, grid: float) -> tuple[float, float]:
    """[lower, upper] widened outwards onto the grid, so that clipping in integers is exact."""
    if grid == 0.0:
        return lower, upper
    return math.floor(lower / grid) * grid, math.ceil(upper / grid) * grid


def as_dict(plan: Plan) -> dict[str, Any]:
    """The plan as nested plain values, in file order (used to write it and to show it)."""

    def table(value: Any) -> dict[str, Any]:
        return {f.name: getattr(value, f.name) for f in fields(value) if getattr(value, f.name) is not None}

    top: dict[str, Any] = {"schema": SCHEMA, "name": plan.name, "run_number": plan.run_number}
    if plan.insecure_seed is not None:
        top["insecure_seed"] = plan.insecure_seed
    for part in ("walk", "task", "noise", "caps", "timing"):
        top[part] = table(getattr(plan, part))
    top["users"] = [table(user) for user in plan.users]
    return top
