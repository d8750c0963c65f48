"""Simulated runs do what a node does: the same task, step by step, gives the same answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from network_dp import utility
from network_dp.plan import Plan
from node.tasks import Tally, make_task, table_of
from node.tasks.base import Noise
from simulator import sgd, walks
from simulator.datasets import Problem
from simulator.noise import NumpySource
from simulator.simulate import SimulationError, simulate

MakePlan = Callable[..., Plan]
SUM = {"kind": "mean", "dimension": 1, "lower": 0.0, "upper": 1.0}
GAUSSIAN = {"mechanism": "gaussian", "sigma": 2.0, "grid": 2.0**-20, "delta": 1e-6}
RR = {"mechanism": "rr", "gamma": 0.3, "delta": 1e-6}


def means(plan: Plan, values: list[float], runs: int) -> np.ndarray:
    outcomes = simulate(plan, [table_of([x]) for x in values], runs=runs, seed=4)
    return np.array([outcome.estimate["mean"][0] for outcome in outcomes])


@pytest.mark.parametrize(("topology", "length"), [("ring", 4), ("complete", 200)])
def test_the_error_of_a_mean_is_what_the_theory_expects(make_plan: MakePlan, topology: str, length: int) -> None:
    values = [0.0, 0.25, 0.5, 1.0, 0.3]
    plan = make_plan(SUM, GAUSSIAN, n=5, topology=topology, length=length)
    runs = 400
    found = means(plan, values, runs)
    key: dict[str, Any] = {"n_rounds": length} if topology == "ring" else {"n_steps": length}
    expected = utility.mean_std(
        2.0,
        topology=topology,
        n_users=5,
        released=True,
        value_std=float(np.std(values)),
        **key,  # type: ignore[arg-type]
    )
    # seeded; a fresh seed fails with probability below 1e-6 (5.3 standard errors of mean and of std)
    assert abs(found.mean() - np.mean(values)) < 5.3 * expected / math.sqrt(runs)
    assert abs(found.std() / expected - 1) < 5.3 / math.sqrt(2 * runs)


def test_without_noise_a_sequence_is_summed_in_turn(make_plan: MakePlan) -> None:
    """A user with several rows contributes them one after another, and starts again after the last."""
    tiny = {**GAUSSIAN, "sigma": 2.0**-30, "grid": 2.0**-45}
    plan = make_plan({**SUM, "rows": "per_visit"}, tiny, n=3, topology="ring", length=5)
    tables = [table_of([0.1, 0.2]), table_of([1.0]), table_of([0.0, 0.5, 1.0])]
    total = simulate(plan, tables)[0].estimate["total"][0]
    assert total == pytest.approx((0.1 + 0.2) * 2 + 0.1 + 5.0 + 1.5 + 0.5, abs=1e-6)


def test_without_noise_rows_are_averaged_at_every_visit(make_plan: MakePlan) -> None:
    tiny = {**GAUSSIAN, "sigma": 2.0**-30, "grid": 2.0**-45}
    tables = [table_of([0.0] * 5 + [1.0] * 25)] * 3
    mean = simulate(make_plan(SUM, tiny, n=3, topology="ring", length=5), tables)[0].estimate["mean"][0]
    assert mean == pytest.approx(25 / 30, abs=1e-6)


@pytest.mark.parametrize(("topology", "length"), [("ring", 50), ("complete", 5000)])
def test_histograms_are_unbiased(make_plan: MakePlan, topology: str, length: int) -> None:
    plan = make_plan({"kind": "histogram", "buckets": 4}, RR, n=6, topology=topology, length=length)
    buckets = [0, 0, 0, 1, 1, 3]
    outcomes = simulate(plan, [table_of([b]) for b in buckets], runs=200, seed=5)
    shares = np.array([outcome.estimate["value"] for outcome in outcomes])
    off = (shares.mean(axis=0) - [3 / 6, 2 / 6, 0, 1 / 6]) / (shares.std(axis=0) / math.sqrt(200))
    assert np.abs(off).max() < 5.3


def test_past_the_cap_only_random_elements_are_added(make_plan: MakePlan) -> None:
    caps = {"caps": {"contributions": 2, "past": "noise"}}
    plan = make_plan({"kind": "histogram", "buckets": 4}, RR, n=3, topology="complete", length=60, **caps)
    outcome = simulate(plan, [table_of([0.0])] * 3)[0]
    assert outcome.tally == Tally(6, 54)


def test_simulated_sgd_is_the_task_step_by_step(make_plan: MakePlan) -> None:
    shape = {"features": 2, "step_size": 0.5, "radius": 1.0, "schedule": "inverse_sqrt"}
    plan = make_plan({"kind": "sgd", "loss": "logistic", **shape}, {"sigma": 0.7}, n=4, topology="complete", length=60)
    generator = np.random.default_rng(8)
    tables = [table_of(np.column_stack([generator.normal(size=(3, 2)), [1, -1, 1]])) for _ in range(4)]
    node = make_task(plan)
    data = [node.prepare(table) for table in tables]
    walk = walks.uniform(4, 60, generator)
    draws = sgd._noise(0.7, (60, 1, 3), NumpySource(np.random.default_rng(9)))  # what `train` will draw
    payload = node.initial(NumpySource(generator))
    for step, user in enumerate(walk.tolist(), start=1):
        gradient = node.contribution(payload, data[user], 1)
        payload = node.apply(payload, gradient, node.noise_sum(Noise(draws[step - 1]), 1, gradient), step)
    rows, labels = np.stack([d.rows for d in data]), np.stack([d.labels for d in data if d.labels is not None])
    problem = Problem("test", np.asarray(rows, dtype=np.float64), labels, (rows[0], labels[0]), (rows[0], labels[0]))
    spec = node.spec  # type: ignore[attr-defined]
    everywhere = np.ones((1, len(walk)), dtype=np.bool_)
    batch = sgd.Batch(walk[None], everywhere, everywhere, np.array([0.5]))
    models = sgd.train(spec, problem, batch, 0.7, NumpySource(np.random.default_rng(9)), np.array([60]))
    assert models[0, 0] == pytest.approx(payload, abs=1e-9)


def test_runs_are_independent_and_repeatable(make_plan: MakePlan) -> None:
    plan = make_plan(SUM, GAUSSIAN, n=5, topology="complete", length=50)
    found = means(plan, [0.5] * 5, 20)
    assert len(set(found.tolist())) == 20
    assert found.tolist() == means(plan, [0.5] * 5, 20).tolist()


def test_a_wrong_number_of_tables_is_refused(make_plan: MakePlan) -> None:
    plan = make_plan(SUM, GAUSSIAN, n=5, topology="complete", length=50)
    with pytest.raises(SimulationError, match="5 users"):
        simulate(plan, [table_of([0.5])])
