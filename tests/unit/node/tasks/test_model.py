"""Models of a user's own: clipped to the plan's norm, whatever they return; local guarantee only on a known path."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from network_dp.calibrate import calibrated_noise
from network_dp.plan import Plan, PlanError
from network_dp.plan_reader import parse
from network_dp.promise import promised_epsilon
from node.noise import SystemSource
from node.tasks import make_task, table_of

ROOT = Path(__file__).parents[4]


class Wild:
    """Returns what it was told to."""

    def __init__(self, size: float = 1.0) -> None:
        self._size = size

    def initial(self) -> Any:
        return np.array([1.0, 2.0, 3.0])

    def gradient(self, weights: Any, rows: Any) -> Any:
        return np.full(3, self._size)

    def evaluate(self, weights: Any, rows: Any) -> Any:
        return {"accuracy": 1.0}


def text(noise: str = "sigma = 2.0", path: str = "hidden", dimension: int = 3, size: float = 1.0) -> str:
    body = f'[walk]\ntopology = "complete"\npath = "{path}"\nsteps = 40\n[noise]\n{noise}\n[task]\nkind = "model"\n'
    body += f'factory = "{__name__}:Wild"\ndimension = {dimension}\nclip = 0.5\nstep_size = 0.1\n'
    body += f"options = {{size = {size}}}\n"
    return body + "".join(f'[[users]]\nname = "u{i}"\naddress = "127.0.0.1:{7000 + i}"\n' for i in range(6))


def plan(**more: Any) -> Plan:
    return parse(text(**more))


def calibrated(plan: Plan) -> Plan:
    return replace(plan, noise=calibrated_noise(plan))


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e300])
def test_a_gradient_is_clipped_to_the_norm_and_keeps_its_direction(size: float) -> None:
    task = make_task(plan(size=size))
    gradient = task.contribution(task.initial(SystemSource()), task.prepare(table_of([[1.0]])), 1)
    assert np.linalg.norm(gradient) <= 0.5
    assert np.linalg.norm(gradient) == pytest.approx(min(0.5, size * math.sqrt(3)), rel=1e-6)
    assert np.ptp(gradient) == 0.0


@pytest.mark.parametrize("size", [math.inf, math.nan])
def test_a_gradient_that_is_not_finite_becomes_zero(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wild, "gradient", lambda self, weights, rows: np.full(3, size))
    task = make_task(plan())
    assert not task.contribution(task.initial(SystemSource()), task.prepare(table_of([[1.0]])), 1).any()


def test_the_walk_starts_at_the_models_own_weights_and_moves_against_the_gradient() -> None:
    task = make_task(plan())
    start = task.initial(SystemSource())
    assert start.tolist() == [1.0, 2.0, 3.0]
    gradient, noise = np.full(3, 0.25), np.full(3, -0.5)
    assert task.apply(start, gradient, noise, 1).tolist() == plan().task.moved(start, gradient + noise, 1).tolist()
    assert task.finish(start, make_tally()).keys() >= {"value"}


def make_tally() -> Any:
    from node.tasks import Tally

    return Tally(40, 0)


def test_replacing_a_users_data_moves_a_contribution_by_twice_the_norm() -> None:
    assert plan().sensitivity == 1.0
    assert plan().task.out_of_bounds([0.51, 0.0, 0.0], 1.0, False) is not None
    assert plan().task.out_of_bounds([0.5, 0.0, 0.0], 1.0, False) is None


def test_weights_of_another_number_are_refused() -> None:
    with pytest.raises(PlanError, match="initial weights"):
        make_task(plan(dimension=4))


@pytest.mark.slow
def test_a_hidden_path_meets_a_target_and_a_known_one_says_why_it_cannot() -> None:
    target = "epsilon = 5.0\ndelta = 1e-5"
    reached = promised_epsilon(calibrated(plan(noise=target)))
    assert reached is not None and 4.9 < reached <= 5.0 * (1 + 1e-6)
    with pytest.raises(PlanError, match="local guarantee only"):
        calibrated(plan(noise=target, path="known"))
    assert promised_epsilon(plan(path="known")) is None


def test_the_gradient_of_the_example_is_the_slope_of_its_loss() -> None:
    spec = importlib.util.spec_from_file_location("digits_mlp", ROOT / "examples" / "digits_mlp.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model, source = module.Mlp(hidden=3), np.random.default_rng(2)
    rows = np.column_stack([source.normal(size=(7, 16)), source.integers(0, 10, 7)])
    weights, direction = model.initial(), source.normal(size=model.dimension)

    def loss(at: Any) -> float:
        said = model._forward(at, rows[:, :-1])[1]
        return float(-np.log(said[np.arange(7), rows[:, -1].astype(int)]).mean())

    slope = (loss(weights + 1e-6 * direction) - loss(weights - 1e-6 * direction)) / 2e-6
    assert model.gradient(weights, rows) @ direction == pytest.approx(slope, rel=1e-5)
    example = parse((ROOT / "examples" / "digits.toml").read_text())
    assert example.task.dimension == module.Mlp().dimension and example.walk.path == "hidden"
