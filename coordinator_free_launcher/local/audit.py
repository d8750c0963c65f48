"""Attack real runs: real processes, their real view logs, and canaries whose data is flipped by coin.

Every user but the observer is a canary: it holds bucket 2u or 2u + 1 of a histogram, by the flip of a coin, the whole
sensitivity apart and in nobody else's way. The observer's score of u is the log-likelihood ratio of the two, from its
own view alone and the path, which every promise takes to be known: sum over its windows of c d / (m sigma^2), where d
is what it found more in one bucket than in the other, c u's contributions and m the noises of others in that window.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from analyzer.attack import windows_of
from coordinator_free_launcher.identity.bundle import user_folder
from coordinator_free_launcher.identity.provision import provision
from coordinator_free_launcher.local.launch import launch
from coordinator_free_launcher.local.node_pool import PARENT
from coordinator_free_launcher.local.planted import COPIES, Bug, Setting
from coordinator_free_launcher.local.ports import at_ports, free_ports
from network_dp import canaries
from network_dp.errors import UserError, require
from network_dp.plan import Plan
from network_dp.plan_reader import from_dict
from network_dp.promise import promised
from network_dp.view import Record, decode

Floats = NDArray[np.float64]
Algorithm = Literal["ring_sum", "complete_sum"]

BUGS: Final[dict[str, tuple[Bug, ...]]] = {
    "ring_sum": ("none", "half_noise", "redrawn_noise", "skipped_duty"),
    "complete_sum": ("none", "half_noise"),
}
CONFIDENCE: Final = 0.999
JOBS: Final = 2  # runs side by side
#: The bound in one run pays for delta with every canary.
ONE_RUN_DELTA: Final = 1e-5
_PLANTED: Final = "coordinator_free_launcher.local.planted"
_COPIES: Final = 16  # of a token that is sent again and again, where the observer wants copies
_TIMING: Final = {
    "preset": "local",
    "retry_base_s": 0.01,
    "retry_max_s": 0.02,
    "lease_s": 60.0,
    "start_timeout_s": 120.0,
}


class AuditError(UserError, RuntimeError):
    """A run of the audit did not end as it should."""


@dataclass(frozen=True)
class RealAudit:
    """Lower bounds on epsilon, each wrong with probability 1 - confidence at most, beside what the plan promises."""

    algorithm: str
    bug: str
    n_runs: int
    n_canaries: int
    confidence: float
    delta: float
    claimed: float
    clopper_pearson: float
    one_run_delta: float
    one_run_claimed: float
    one_run: float

    @property
    def passed(self) -> bool:
        return self.clopper_pearson <= self.claimed and self.one_run <= self.one_run_claimed


@dataclass(frozen=True)
class Attacked:
    """What all runs of an audit have in common: the plan, and what is wrong with it."""

    algorithm: Algorithm
    n_users: int = 8
    length: int = 1  # rounds of a ring, steps per user of the complete graph
    sigma: float = 1.0
    bug: Bug = "none"
    resends: bool = False  # the observer has every token sent many times

    def __post_init__(self) -> None:
        name, bug = self.algorithm, self.bug
        require(name in BUGS, f"algorithm must be one of {', '.join(BUGS)} with real runs, got {name!r}")
        require(bug in BUGS[name], f"bug must be one of {', '.join(BUGS[name])} for {name}, got {bug!r}")
        require(not self.resends or name == "ring_sum", "resends are for ring_sum")

    @property
    def copies(self) -> int:
        """Of a token that the observer wants again and again."""
        return _COPIES if self.resends or self.bug == "redrawn_noise" else 0

    @property
    def setting(self) -> Setting:
        """The observer is the last of a ring, whom all others' first contributions reach under one noise. Noise that is
        redrawn, and a duty that is skipped, are felt by the next user: then that is the observer, the second."""
        next_one = self.copies > 0 or self.bug == "skipped_duty"
        return Setting(self.bug, culprit=0, observer=1 if next_one else self.n_users - 1, copies=self.copies)

    def plan(self) -> Plan:
        ring = self.algorithm == "ring_sum"
        walk = {"topology": "ring", "rounds": self.length} if ring else {"topology": "complete"}
        steps = {} if ring else {"steps": self.length * self.n_users}
        seeded = {} if self.bug == "none" else {"insecure_seed": secrets.randbits(62)}
        noise = {"mechanism": "gaussian", "sigma": self.sigma * 2**0.5, "delta": ONE_RUN_DELTA, "reissues": 0}
        values = {
            "name": "audit",
            **seeded,
            "walk": {**walk, **steps, "release": "holder", "min_live": self.n_users, "durability": "process"},
            "task": {"kind": "histogram", "buckets": 2 * self.n_users},
            "noise": noise,
            "timing": _TIMING,
            "users": [{"name": f"user-{i}", "address": f"127.0.0.1:{7000 + i}"} for i in range(self.n_users)],
        }
        return from_dict(values)

    def claim(self, delta: float) -> float:
        plan = self.plan()
        claimed = promised(replace(plan, noise=replace(plan.noise, delta=delta))).epsilon
        assert claimed is not None  # every window has a noise of its own
        return claimed


def run(
    attacked: Attacked,
    folder: Path,
    *,
    n_runs: int = 50,
    delta: float = 0.2,
    confidence: float = CONFIDENCE,
    show: Callable[[int], None] = lambda done: None,
) -> RealAudit:
    """Attack so many runs, each kept in a folder of its own in ``folder``; ``show`` is told how many are done."""
    require(n_runs >= 1, f"n_runs must be at least 1, got {n_runs}")
    claimed, claimed_one = attacked.claim(delta), attacked.claim(ONE_RUN_DELTA)
    scores: list[float] = []
    n_users = attacked.n_users
    ports, free = free_ports(JOBS * n_users), SimpleQueue[list[int]]()
    for first in range(0, len(ports), n_users):  # runs side by side would find the same ones free
        free.put(ports[first : first + n_users])

    def scores_of(number: int) -> list[float]:
        ports = free.get()
        try:
            return list(_scores_of_a_run(attacked, folder / f"run-{number}", ports))
        finally:
            free.put(ports)

    with ThreadPoolExecutor(JOBS) as pool:
        for done, found in enumerate(pool.map(scores_of, range(n_runs)), 1):
            scores += found
            show(done)
    seen = np.array(scores)
    return RealAudit(
        algorithm=attacked.algorithm,
        bug=attacked.bug,
        n_runs=n_runs,
        n_canaries=len(seen),
        confidence=confidence,
        delta=delta,
        claimed=claimed,
        clopper_pearson=canaries.clopper_pearson(seen, delta, confidence),
        one_run_delta=ONE_RUN_DELTA,
        one_run_claimed=claimed_one,
        one_run=canaries.in_one_run(seen, ONE_RUN_DELTA, confidence),
    )


def _scores_of_a_run(attacked: Attacked, folder: Path, ports: Sequence[int]) -> Iterator[float]:
    """Towards the truth, one score for every canary that the observer sees something of."""
    plan, setting = at_ports(attacked.plan(), ports), attacked.setting
    coins = [secrets.randbelow(2) for _ in plan.names]
    data = folder.with_name(f"{folder.name}-data")
    data.mkdir(parents=True)
    files = {name: data / f"{name}.csv" for name in plan.names}
    for user, path in enumerate(files.values()):
        path.write_text(f"{2 * user + coins[user]}\n")
    provision(plan, folder, files)
    is_planted = setting.bug != "none" or setting.copies > 0
    setting.write(folder)
    outcome = launch(folder, parent=_PLANTED if is_planted else PARENT)
    if not outcome.ok:
        raise AuditError(f"{folder}: the run did not end well: {outcome.codes}")
    for user, score in attack(plan, folder, setting.observer):
        yield score if coins[user] else -score


def attack(plan: Plan, run: Path, observer: int) -> Iterator[tuple[int, float]]:
    """The observer's score of every user that it sees something of: ln of the odds that it holds the higher bucket."""
    views = [_records(user_folder(run, name) / "state" / "view.jsonl") for name in plan.names]
    holders = _holders(views)
    copies = _copies(user_folder(run, plan.names[observer]) / "state" / COPIES)
    grid, variance = plan.noise.grid or 1.0, plan.mechanism.size**2
    total, often = np.zeros(plan.n), np.zeros(plan.n)
    for window in windows_of(plan, observer, views[observer]):
        within = [holders[step] for step in range(window.after + 1, window.before) if step in holders]
        counts = np.bincount([user for user, real, _ in within if real], minlength=plan.n)
        noises = sum(units for user, _, units in within if user != observer) / plan.unit_count
        value = window.value
        if window.before in copies:
            received = copies[window.before] * grid
            value = value + received.mean(axis=0) - received[-1]
        often += counts
        total += counts * (value[1::2] - value[::2]) / (max(noises, 1.0) * variance)
    yield from ((user, float(total[user])) for user in range(plan.n) if user != observer and often[user])


def _records(path: Path) -> list[Record]:
    return [decode(line) for line in path.read_text().splitlines()]


def _holders(views: Sequence[Sequence[Record]]) -> dict[int, tuple[int, bool, int]]:
    """Step -> who held the token, whether it contributed, and how many components of noise it added."""
    found = {}
    for user, records in enumerate(views):
        step = 0
        for record in records:
            if record.kind == "visit":
                step = record.step
            elif record.kind in ("sent", "finish"):
                found[step] = (user, bool(record.fields["real"]), int(record.fields["units"]))
    return found


def _copies(path: Path) -> dict[int, Floats]:
    """Step -> every copy of its token that reached the observer, the one it took last."""
    found: dict[int, list[list[float]]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        values = json.loads(line)
        found.setdefault(values["step"], []).append(values["received"])
    return {step: np.array(copies, dtype=np.float64) for step, copies in found.items()}
