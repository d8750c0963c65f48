"""A commented plan to start from: what `network-dp plan new` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, get_args

from network_dp.mechanism import MECHANISMS
from network_dp.plan import PlanError, ProtocolKind
from network_dp.topology import TOPOLOGIES, Topology

FIRST_PORT: Final = 20000
PROTOCOLS: Final = get_args(ProtocolKind)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the users' tables look like, as far as the wish says it; columns by name or not at all."""

    columns: tuple[str, ...] = ()
    label: str | None = None
    labels: tuple[str, ...] = ()
    ranges: tuple[tuple[float, ...], ...] = ()
    categories: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    buckets: int | None = None
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """What a user asks `plan new` for; None: the usual one of the task."""

    name: str
    task: str
    delta: float
    topology: str | None = None
    users: Sequence[str] | None = None
    lengths: Mapping[str, int | None] = field(default_factory=dict)  # by the plan's key
    mechanism: str | None = None
    epsilon: float | None = None
    host: str = "127.0.0.1"
    port: int = FIRST_PORT
    path: str = "known"
    protocol: str = "walk"
    shape: Shape = Shape()
    peers: Sequence[Sequence[int]] = ()  # of every user, on a graph

    @property
    def masked(self) -> bool:
        return self.protocol == "masked_sum"


@dataclass(frozen=True, slots=True)
class _Usual:
    """A task on its usual walk: with so many users this epsilon gives an answer (tests/unit/.../test_examples.py)."""

    topology: str
    users: int
    epsilon: float
    keys: tuple[str, ...]  # of the shape, that this task can use


_ROWS: Final = (
    'rows = "average"             # average: one value per user, the mean of its rows; per_visit: visit k takes row k'
)
_SUM_KEYS: Final = ("columns", "lower", "upper")
_USUAL: Final = {
    "sum": _Usual("ring", 100, 1.0, _SUM_KEYS),
    "mean": _Usual("ring", 100, 1.0, _SUM_KEYS),
    "histogram": _Usual("ring", 100, 1.0, ("columns", "categories", "edges", "buckets")),
    "sgd": _Usual("complete", 200, 3.0, ("columns", "label", "labels", "ranges")),
}
_OPTION: Final = {"columns": "--column and --features"}
_UNAMPLIFIED: Final = ("sgd",)  # tasks that nobody else's noise hides, except on a random walk
_LENGTHS: Final = {
    "rounds": "everybody contributes this often",
    "steps": "visits in all; the next user is drawn",
}
_LISTED: Final = (
    'weights = "metropolis"       # metropolis: all users are met alike; simple: by their number of peers\n'
    'control = "relay"            # relay: peers pass on what others ask and vote; direct: all can connect to all\n'
)
_DISTANCE: Final = (
    "distance = 1                 # the promise is for users so many hops apart; who is nearer is trusted\n"
)
_HIDDEN: Final = """
[rounds]
colluders = 1                # so many users may pool what they see
beat_ms = 20.0               # everybody sends one block of one size on this beat
known_steps = 0              # steps that an absence may show within the promise
"""
_MASKED: Final = """
[rounds]
colluders = 1                # so many users may pool what they see
attempts = 2                 # how often the sum may be tried, each time with fresh noise
"""


def _line(key: str, value: object, comment: str) -> str:
    return f"{f'{key} = {json.dumps(value, ensure_ascii=False)}':<28} # {comment}"


def _sum(shape: Shape) -> list[str]:
    lower, upper = 0.0 if shape.lower is None else shape.lower, 1.0 if shape.upper is None else shape.upper
    columns = [_line("columns", shape.columns, "of the users' tables")] if shape.columns else ["dimension = 1"]
    bounds = _line("lower", lower, "public bounds of every value, known beforehand; what lies outside is clipped")
    return [*columns, bounds, f"upper = {upper!r}", _ROWS]


def _histogram(shape: Shape) -> list[str]:
    lines = [_line("columns", shape.columns, "of the users' tables")] if shape.columns else []
    if shape.categories:
        lines.append(_line("categories", shape.categories, "bucket k is the rows with this text"))
    elif shape.edges:
        lines.append(_line("edges", shape.edges, "bucket k is the values from edge k to below edge k+1"))
    else:
        buckets = shape.buckets or 8
        lines.append(_line("buckets", buckets, f"every row is a bucket 0 .. {buckets - 1}"))
    return [
        *lines,
        _ROWS.replace("one value per user, the mean of its rows", "the shares of a user's rows (rr: one row)"),
    ]


def _sgd(shape: Shape) -> list[str]:
    lines = [_line("features", 8, "numbers per row; the label is the last column")]
    if shape.columns:
        lines = [_line("columns", shape.columns, "the features"), _line("label", shape.label, "what to predict")]
    if shape.labels:
        lines.append(_line("labels", shape.labels, "the first is -1, the second 1"))
    if shape.ranges:
        lines.append(
            _line("ranges", shape.ranges, "of each feature, known beforehand: it becomes a number from -1 to 1")
        )
    step = "# step_size = 0.001          # left out: 1/(beta steps), so that no step is forgotten (docs/CHOOSING.md)"
    loss = _line("loss", "logistic", "logistic, ridge or smoothed_hinge")
    return [
        loss,
        *lines,
        "intercept = true",
        step,
        _line("radius", 10.0, "projection on a ball; leave it out for none"),
    ]


_TASKS: Final = {"sum": _sum, "mean": _sum, "histogram": _histogram, "sgd": _sgd}


def _usual_length(topology: type[Topology], users: int, task: str) -> int:
    return (20 if task in _UNAMPLIFIED else 30) * users if topology.drawn else 10


def _checked(wish: Wish) -> tuple[_Usual, type[Topology]]:
    if wish.task not in _USUAL:
        raise PlanError(f'task.kind = "{wish.task}": must be one of {", ".join(_USUAL)}')
    if wish.protocol not in PROTOCOLS:
        raise PlanError(f'walk.protocol = "{wish.protocol}": must be one of {", ".join(PROTOCOLS)}')
    usual = _USUAL[wish.task]
    kind = wish.topology or ("complete" if wish.path == "hidden" or wish.masked else usual.topology)
    if kind not in TOPOLOGIES:
        raise PlanError(f'walk.topology = "{kind}": must be one of {", ".join(TOPOLOGIES)}')
    topology = TOPOLOGIES[kind]
    if topology.listed != bool(wish.peers):
        raise PlanError(
            "--topology graph and --graph go together: --graph hypercube, or --graph FILE.csv with its edges"
        )
    for key, value in wish.lengths.items():
        if value is not None and wish.masked:
            raise PlanError(f"--{key} is not for a masked sum: it is one round")
        if value is not None and key != topology.length_key:
            raise PlanError(f"--{key} is not for {topology.title}: give --{topology.length_key}")
    for key in Shape.__slots__:
        if getattr(wish.shape, key) not in (None, ()) and key not in usual.keys:
            raise PlanError(f"{_OPTION.get(key, f'--{key}')}: not for a {wish.task}; leave it out")
    if (wish.shape.label is None) == bool(wish.shape.columns) and "label" in usual.keys:
        raise PlanError("--features and --label: name both the features and the label, or neither")
    return usual, topology


def _user(wish: Wish, names: Sequence[str], i: int) -> str:
    peers = f"\npeers = {json.dumps([names[peer] for peer in wish.peers[i]])}" if wish.peers else ""
    return f'\n[[users]]\nname = "{names[i]}"\naddress = "{wish.host}:{wish.port + i}"{peers}'


def _way(wish: Wish, topology: type[Topology], users: int) -> str:
    """How long the token walks, among whom and who may see it; a masked sum has no token."""
    if wish.masked:
        return f'protocol = "{wish.protocol}"      # one anonymous round in which everybody speaks; nobody sees a value'
    asked = wish.lengths.get(topology.length_key)
    length = _usual_length(topology, users, wish.task) if asked is None else asked
    return (
        f"{f'{topology.length_key} = {length}':<28} # {_LENGTHS[topology.length_key]}\n"
        f"{_LISTED if topology.listed else ''}"
        f'path = "{wish.path}"               # known: peers see each other; hidden: nobody learns who holds the token'
    )


def write_plan(wish: Wish) -> str:
    """TOML text with a sentence beside every choice."""
    usual, topology = _checked(wish)
    names = wish.users or [f"user-{i}" for i in range(usual.users)]
    mechanism = wish.mechanism or "gaussian"
    epsilon = wish.epsilon
    against = "network" if topology.drawn or wish.task not in _UNAMPLIFIED else "local"
    reserve = _DISTANCE if topology.listed else ""
    if not topology.drawn and mechanism in MECHANISMS and MECHANISMS[mechanism].additive:
        reserve = "reissues = 1                 # how often the token may be lost and taken up again as promised\n"
    users = "\n".join(_user(wish, names, i) for i in range(len(names)))
    newline = "\n"
    return f"""# A network-dp plan: the one public description of a run. Everybody has the same.
# Check it with `network-dp plan check FILE`, run it here with `network-dp run FILE`. Every key: docs/PLAN.md.
schema = 1
name = "{wish.name}"

[walk]
topology = "{topology.kind}"
{_way(wish, topology, len(names))}
release = "all"              # all: everybody gets the result; holder: only the last one
durability = "machine"       # machine: survives power loss; process: survives kill -9, faster

[task]
kind = "{wish.task}"
{newline.join(_TASKS[wish.task](wish.shape))}

[noise]
mechanism = "{mechanism}"
# A target: provisioning computes the least noise that meets it. Or give the size itself (sigma, scale or gamma).
epsilon = {usual.epsilon if epsilon is None else epsilon!r}
delta = {wish.delta!r}
against = "{against}"          # network: what one other user may learn; local: what somebody who sees all may learn
{reserve}{_MASKED if wish.masked else _HIDDEN if wish.path == "hidden" else ""}
[timing]
preset = "local"             # local, lan or wan
{users}
"""
