"""A whole run of a plan in one process, without a network: the plan's own task and noise on a vectorised walk.

For planning and for figures: what would the result look like, and how much would it vary? Nobody dies here (that is
`simulator.faults`), and randomness comes from a seeded generator, so nothing here is private.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from network_dp import utility
from network_dp.errors import UserError
from network_dp.plan import Plan
from node.noise import SAMPLERS, Source, respond, response_coins, uniform_below
from node.tasks import AdditiveTask, LocalData, Table, Tally, make_task
from node.tasks.histogram import ResponseHistogram
from node.tasks.sgd import Sgd
from simulator import sgd, walks
from simulator.datasets import Problem
from simulator.noise import NumpySource
from simulator.parallel import map_runs, seeds

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_DRAWS = 1 << 20  # noise drawn together


class SimulationError(UserError, ValueError):
    """This plan or data cannot be simulated; the message says why."""


@dataclass(frozen=True)
class SimulatedRun:
    """What the last holder of one simulated run would report, and the walk that led there."""

    estimate: Mapping[str, Any]
    tally: Tally
    walk: Ints


@dataclass(frozen=True)
class _Job:
    plan: Plan
    tables: Sequence[Table]
    seed: np.random.SeedSequence


def simulate(
    plan: Plan, tables: Sequence[Table], *, runs: int = 1, seed: int = 1, jobs: int | None = 1, progress: bool = False
) -> list[SimulatedRun]:
    """`runs` independent runs of a calibrated plan; tables[i] is the data of the plan's i-th user."""
    if len(tables) != plan.n:
        raise SimulationError(f"{len(tables)} tables given, the plan has {plan.n} users")
    items = [_Job(plan, tables, child) for child in seeds(seed, runs)]
    return map_runs(_one, items, jobs=jobs, label="simulate", progress=progress)


def _one(job: _Job) -> SimulatedRun:
    plan, generator = job.plan, np.random.default_rng(job.seed)
    walk = walks.of(plan.topology, generator)
    contributing = walks.within_cap(walk, plan.caps.contributions)
    if plan.caps.edge is not None:
        raise SimulationError("caps.edge is not simulated: it depends on who comes next")
    if plan.topology.correction != 1.0:
        raise SimulationError('walk.weights = "simple" is not simulated: users would not count alike; use "metropolis"')
    task = make_task(plan)
    data = [task.prepare(table) for table in job.tables]
    source = NumpySource(generator)
    match task:
        case AdditiveTask():
            return _additive(task, data, walk, contributing, source)
        case ResponseHistogram():
            return _responses(plan, task, data, walk, contributing, source)
        case Sgd():
            return _sgd(plan, task, data, walk, contributing, source)
        case _:
            raise SimulationError(f"task.kind = {plan.task.kind!r} is not simulated")


def _additive(
    task: AdditiveTask, data: list[LocalData], walk: Ints, contributing: Bools, source: Source
) -> SimulatedRun:
    payload = task.initial(source)
    visits = np.bincount(walk[contributing], minlength=len(data))
    for local, count in zip(data, visits.tolist(), strict=True):
        rows = len(local.rows)
        for first in range(min(rows, count)):  # contribution number first + 1 comes back every `rows` visits
            times = (count - first - 1) // rows + 1
            payload = payload + times * task.contribution(payload, local, first + 1)
    payload = payload + _noise_total(task, _noise_components(task.plan, contributing), source)
    tally = Tally(int(contributing.sum()), 0)
    return SimulatedRun(task.finish(payload, tally), tally, walk)


def _noise_components(plan: Plan, contributing: Bools) -> int:
    """How many noise components an undisturbed walk adds in all (THEORY.md#ring-noise-count, #release)."""
    if plan.topology.drawn:
        return len(contributing) if plan.caps.past == "noise" else int(contributing.sum())
    released = plan.walk.release == "all"
    rounds = plan.walk.rounds or 0
    if plan.noise.spread:
        return round(utility.spread_ring_noises(plan.n, rounds, released) * plan.unit_count)
    return utility.ring_noises(plan.n, rounds, released)


def _noise_total(task: AdditiveTask, components: int, source: Source) -> Ints:
    sampler = SAMPLERS[task.plan.noise.mechanism]
    total = np.zeros(task.dimension, dtype=np.int64)
    at_once = max(1, _DRAWS // task.dimension)
    for first in range(0, components, at_once):
        total += sampler(task.unit_scale, (min(at_once, components - first), task.dimension), source).sum(axis=0)
    return total


def _responses(
    plan: Plan, task: ResponseHistogram, data: list[LocalData], walk: Ints, contributing: Bools, source: Source
) -> SimulatedRun:
    users, number = walk[contributing], walks.visit_numbers(walk)[contributing]
    sizes = np.array([len(local.rows) for local in data])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    buckets = np.concatenate([local.rows[:, 0] for local in data])
    truth = buckets[starts[users] + (number - 1) % sizes[users]]
    said = respond(truth, response_coins(task.dimension, task.gamma, len(truth), source))
    past = int((~contributing).sum()) if plan.caps.past == "noise" else 0
    cover = task.opening_cover + task.closing_cover + past
    elements = np.concatenate([said, uniform_below(task.dimension, cover, source)])
    tally = Tally(len(truth), cover)
    payload = np.bincount(elements, minlength=task.dimension).astype(np.int64)
    return SimulatedRun(task.finish(payload, tally), tally, walk)


def _sgd(plan: Plan, task: Sgd, data: list[LocalData], walk: Ints, contributing: Bools, source: Source) -> SimulatedRun:
    if len({len(local.rows) for local in data}) != 1:
        raise SimulationError("SGD is simulated only for users with equally many rows")
    rows = np.stack([np.asarray(local.rows, dtype=np.float64) for local in data])
    labels = np.stack([np.asarray(local.labels, dtype=np.float64) for local in data])
    nothing = (rows[0, :0], labels[0, :0])
    noisy = np.ones_like(contributing) if plan.caps.past == "noise" else contributing
    batch = sgd.Batch(walk[None], contributing[None], noisy[None], np.array([task.spec.step_size]))
    problem = Problem(plan.name, rows, labels, nothing, nothing)
    model = sgd.train(task.spec, problem, batch, task.sigma, source, np.array([len(walk)]))[-1, 0]
    tally = Tally(int(contributing.sum()), 0)
    return SimulatedRun(task.finish(model, tally), tally, walk)
