"""Whether an answer is worth having can be said beforehand: checked against simulated answers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from network_dp.alternatives import advice, alternatives
from network_dp.calibrate import calibrated_noise
from network_dp.plan import Plan
from network_dp.plan_reader import from_dict
from network_dp.usefulness import PERFECT, predicted_accuracy, relative_error, usefulness

RING = {"topology": "ring", "rounds": 10}


def plan_of(n: int, walk: dict[str, Any], task: dict[str, Any], **noise: Any) -> Plan:
    users = [{"name": f"u{i}", "address": f"127.0.0.1:{20000 + i}"} for i in range(n)]
    plan = from_dict({"walk": walk, "task": task, "noise": {"mechanism": "gaussian", **noise}, "users": users})
    return plan if plan.noise.calibrated else replace(plan, noise=calibrated_noise(plan))


def complete(steps: int) -> dict[str, Any]:
    return {"topology": "complete", "steps": steps}


def test_an_answer_that_will_be_noise_is_called_so_with_what_it_takes() -> None:
    found = usefulness(plan_of(10, RING, {"kind": "mean", "upper": 100.0}, epsilon=1.0))
    assert found is not None and found.noise
    assert "this answer will be noise: its error is 49% of the range; about 49 users or epsilon 4.9" in found.sentence
    enough = usefulness(plan_of(49, RING, {"kind": "mean", "upper": 100.0}, epsilon=1.0))
    assert enough is not None and not enough.noise and enough.value < 0.11
    by_epsilon = usefulness(plan_of(10, RING, {"kind": "mean", "upper": 100.0}, epsilon=4.9))
    assert by_epsilon is not None and by_epsilon.value < 0.15


def test_the_range_and_the_number_of_contributions_do_not_matter() -> None:
    mean, total = (
        relative_error(plan_of(20, RING, {"kind": kind, "upper": 7.0}, sigma=7.0)) for kind in ("mean", "sum")
    )
    unit = relative_error(plan_of(20, RING, {"kind": "mean"}, sigma=1.0))
    assert mean == pytest.approx(total) == pytest.approx(unit)


def rows(count: int, d: int, dice: np.random.Generator) -> Any:
    """Of the reference problem, times their labels: of norm 1, half a unit along the direction that matters."""
    along = dice.normal(0.5, 0.5 / 1.2816, count)
    across = dice.standard_normal((count, d - 1))
    across *= np.sqrt(np.maximum(0.0, 1.0 - along**2) / (across**2).sum(axis=1))[:, None]
    return np.column_stack([along, across])


def learned(plan: Plan, runs: int, dice: np.random.Generator) -> float:
    """Mean accuracy of simulated runs."""
    d, models = plan.task.dimension, np.zeros((runs, plan.task.dimension))
    for _ in range(plan.total_steps):
        signed = rows(runs, d, dice)
        gradients = -signed / (1.0 + np.exp((signed * models).sum(axis=1)))[:, None]
        models -= plan.task.step_size * (gradients + plan.mechanism.size * dice.standard_normal((runs, d)))
    return float((rows(5_000, d, dice) @ models.T > 0).mean())


@pytest.mark.parametrize(("sigma", "step_size"), [(2.0, None), (8.0, None), (25.0, None), (8.0, 0.1)])
def test_the_accuracy_of_a_model_is_predicted(sigma: float, step_size: float | None) -> None:
    chosen = {} if step_size is None else {"step_size": step_size}
    task = {"kind": "sgd", "features": 8, "intercept": False, **chosen}
    plan, dice = plan_of(200, complete(2000), task, sigma=sigma), np.random.default_rng(7)
    assert predicted_accuracy(plan) == pytest.approx(learned(plan, 300, dice), abs=0.05)


def test_the_step_chosen_from_public_numbers_is_best() -> None:
    def reached(**keys: float) -> float:
        return predicted_accuracy(plan_of(200, complete(4000), {"kind": "sgd", "features": 8, **keys}, epsilon=3.0))

    assert reached() > 0.8 > reached(step_size=1.0)
    assert reached(step_size=1e-4) - reached() < 0.01


@pytest.mark.slow
def test_what_else_an_epsilon_buys_is_shown_in_the_right_order() -> None:
    found = {one.name: one.value for one in alternatives(plan_of(50, RING, {"kind": "mean"}, epsilon=1.0))}
    assert set(found) == {
        "ring, 1 round, Laplace",
        "ring, 30 rounds",
        "complete graph, 500 steps",
        "complete graph, 1500 steps",
        "masked sum",
        "local DP",
    }
    assert found["ring, 30 rounds"] < found["complete graph, 1500 steps"] < found["complete graph, 500 steps"]
    assert found["local DP"] == pytest.approx(math.sqrt(2) / math.sqrt(50))  # Laplace: the best rival, not the worst
    models = alternatives(plan_of(30, complete(300), {"kind": "sgd", "features": 2}, epsilon=6.0))
    assert all(0.5 < one.value < PERFECT for one in models)
    assert min(models, key=lambda one: one.value).name == "local DP"


@pytest.mark.slow
@pytest.mark.parametrize(("path", "other"), [("known", "hidden"), ("hidden", "known")])
def test_a_model_is_shown_with_its_path_known_and_hidden(path: str, other: str) -> None:
    plan = plan_of(100, {**complete(300), "path": path}, {"kind": "sgd", "features": 8}, epsilon=1.0)
    found = {one.name: one.value for one in alternatives(plan)}[f"the same with its path {other}"]
    assert (found > predicted_accuracy(plan) + 0.1) == (other == "hidden")


def test_where_local_dp_does_as_well_it_is_said() -> None:
    masked = {"topology": "complete", "protocol": "masked_sum"}
    few, many = (plan_of(n, masked, {"kind": "mean"}, epsilon=1.0) for n in (20, 100))
    said = advice(few, relative_error(few) or 0.0, alternatives(few))
    assert said is not None and said.startswith("local DP would do as well (31.6% against 32.4%)")
    assert advice(many, relative_error(many) or 0.0, alternatives(many)) is None
