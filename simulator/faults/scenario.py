"""The runs that are simulated: small plans of every topology, task and release, with short virtual waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from network_dp.noise_rule import cover_elements
from network_dp.plan import Plan
from network_dp.plan_reader import from_dict
from node.config import context
from node.noise import SeededSource
from node.protocols.walk.state import Context
from node.tasks import make_task, table_of
from node.worker import BoundTask, NoiseDraw

POOL = 512  # noises drawn once per process with the real sampler, then handed out one by one

_TIMING = {
    "offer_timeout_s": 0.5,
    "handoff_timeout_s": 1.0,
    "retry_base_s": 0.05,
    "retry_max_s": 1.0,
    "down_ttl_s": 2.0,
    "grant_ttl_s": 5.0,
    "lease_s": 4.0,
    "locate_timeout_s": 0.5,
    "start_timeout_s": 8.0,
    "stall_timeout_s": 30.0,
    "linger_s": 4.0,
}
_SUM = {"kind": "sum", "dimension": 2, "rows": "per_visit"}
_GAUSS = {"sigma": 1.0, "grid": 2.0**-20}
_LOCAL = {**_GAUSS, "against": "local"}
_RR = {"mechanism": "rr", "gamma": 0.5}
_SGD = {"kind": "sgd", "features": 1, "step_size": 1.0}


@dataclass(frozen=True)
class Scenario:
    """One plan, and whether its task takes (virtual) time."""

    name: str
    plan: Plan
    slow: bool = False


@dataclass(frozen=True)
class Members:
    """A scenario ready to run: a context per user and the noise to hand out. Shared by all schedules of a process."""

    scenario: Scenario
    contexts: tuple[Context, ...]
    pool: tuple[NoiseDraw, ...]


def _plan(n: int, walk: Mapping[str, Any], task: Mapping[str, Any], noise: Mapping[str, Any], **more: Any) -> Plan:
    users = [{"name": f"u{i}", "address": f"h{i}:1000"} for i in range(n)]
    return from_dict({"walk": walk, "task": task, "noise": noise, "timing": _TIMING, "users": users, **more})


def _ring(n: int, rounds: int, release: str = "all", task: Any = None, noise: Any = None, **more: Any) -> Plan:
    walk = {"topology": "ring", "rounds": rounds, "release": release, "starter": f"u{n - 2}"}
    return _plan(n, walk, task or _SUM, noise or _GAUSS, **more)


def _complete(n: int, steps: int, release: str = "all", task: Any = None, noise: Any = None, **more: Any) -> Plan:
    live = more.pop("min_live", n // 2 + 1)
    walk = {"topology": "complete", "steps": steps, "release": release, "min_live": live}
    return _plan(n, walk, task or _SUM, noise or _GAUSS, **more)


def _graph(peers: Sequence[Sequence[int]], steps: int, release: str = "all", **more: Any) -> Plan:
    walk = {"topology": "graph", "steps": steps, "release": release, **more.pop("walk", {})}
    users = [
        {"name": f"u{i}", "address": f"h{i}:1000", "peers": [f"u{j}" for j in others]} for i, others in enumerate(peers)
    ]
    task, noise = more.pop("task", _SUM), more.pop("noise", _GAUSS)
    return from_dict({"walk": walk, "task": task, "noise": noise, "timing": _TIMING, "users": users, **more})


_HISTOGRAM = {"kind": "histogram", "buckets": 3, "rows": "per_visit"}
SCENARIOS: tuple[Scenario, ...] = (
    Scenario("ring n=3 K=2", _ring(3, 2)),
    Scenario("ring n=4 K=2 holder", _ring(4, 2, "holder")),
    Scenario("ring n=4 K=2 slow", _ring(4, 2), slow=True),
    Scenario("ring n=5 K=2", _ring(5, 2)),
    Scenario("ring n=6 K=1 cap", _ring(6, 1, caps={"contributions": 1})),
    Scenario("ring n=4 K=2 spread", _ring(4, 2, noise={**_GAUSS, "spread": True})),
    Scenario("ring n=5 K=2 spread", _ring(5, 2, "holder", noise={**_GAUSS, "spread": True})),
    Scenario("ring n=4 K=2 responses", _ring(4, 2, task=_HISTOGRAM, noise=_RR)),
    Scenario("ring n=3 K=2 sgd", _ring(3, 2, task=_SGD, noise={"sigma": 1.0, "against": "local"})),
    Scenario("complete n=3 T=5", _complete(3, 5)),
    Scenario("complete n=5 T=8 caps", _complete(5, 8, caps={"contributions": 2, "edge": 1})),
    Scenario("complete n=4 T=6 forward", _complete(4, 6, noise=_LOCAL, caps={"contributions": 1, "past": "forward"})),
    Scenario("complete n=4 T=6 slow", _complete(4, 6, "holder"), slow=True),
    Scenario("complete n=5 T=6 responses", _complete(5, 6, task=_HISTOGRAM, noise=_RR, caps={"contributions": 1})),
    Scenario("complete n=4 T=6 sgd", _complete(4, 6, "holder", task=_SGD, noise={"sigma": 1.0})),
    Scenario("complete n=6 T=6 edge", _complete(6, 6, caps={"edge": 1})),
)

#: Long rings: time enough to miss a round and come back.
LONG_RINGS: tuple[Scenario, ...] = (
    Scenario("ring n=5 K=9", _ring(5, 9)),
    Scenario("ring n=5 K=9 holder", _ring(5, 9, "holder")),
    Scenario("ring n=6 K=9 spread", _ring(6, 9, noise={**_GAUSS, "spread": True})),
)

_STAR = [[1, 2, 3, 4], [0], [0], [0], [0]]
_PATH = [[1], [0, 2], [1, 3], [2]]
_CYCLE = [[4, 1], [0, 2], [1, 3], [2, 4], [3, 0]]
_CUBE = [sorted(i ^ (1 << bit) for bit in range(3)) for i in range(8)]

#: Walks among peers.
GRAPHS: tuple[Scenario, ...] = (
    Scenario("star n=5 T=8", _graph(_STAR, 8)),
    Scenario("star n=5 T=6 simple", _graph(_STAR, 6, "holder", walk={"weights": "simple"})),
    Scenario("path n=4 T=6 slow", _graph(_PATH, 6), slow=True),
    Scenario("cycle n=5 T=7 sgd", _graph(_CYCLE, 7, task=_SGD, noise={"sigma": 1.0})),
    Scenario("cube n=8 T=10 caps", _graph(_CUBE, 10, caps={"contributions": 2, "edge": 1})),
)

#: Also plans for telling stories, which no seed draws.
STAGES: tuple[Scenario, ...] = (
    *SCENARIOS,
    *LONG_RINGS,
    *GRAPHS,
    Scenario("story: ring of 4, one round", _ring(4, 1)),
    Scenario("story: complete graph of 3", _complete(3, 3)),
)


def _rows(plan: Plan, me: int) -> list[list[float]]:
    """Two rows per user, that its visits differ; one where the plan lets it contribute only once."""
    return _ROWS[plan.task.kind](me)[: plan.most_contributions]


_ROWS: Final[Mapping[str, Callable[[int], list[list[float]]]]] = {
    "sum": lambda me: [[0.01 * (me + 1), 0.1], [0.02 * (me + 1), 0.2]],
    "histogram": lambda me: [[float(me % 3)], [float((me + 1) % 3)]],
    "sgd": lambda me: [[0.5 + me, 1.0 if me % 2 else -1.0]],
}


@cache
def cast(index: int) -> Members:
    """Contexts and noise of ``STAGES[index]``."""
    scenario = STAGES[index]
    plan = scenario.plan
    task = make_task(plan)
    refresh = max(1, cover_elements(plan.noise.gamma or 0.0, plan.n))
    contexts = []
    for me in range(plan.n):
        data, share = task.prepare(table_of(_rows(plan, me))), plan.topology.share(me)
        worker = BoundTask(task, data, plan.unit_count, refresh, share)
        worker.quick = not scenario.slow
        contexts.append(context(plan, me, worker, noise_every_visit=task.noise_every_visit))
    source = SeededSource(f"simulator {scenario.name}".encode())
    return Members(scenario, tuple(contexts), tuple(worker.supply(source) for _ in range(POOL)))
