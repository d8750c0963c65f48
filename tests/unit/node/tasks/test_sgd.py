"""SGD: gradients, the constants the theory relies on, contraction, projection, grid of the noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from network_dp.losses import loss_of
from network_dp.plan import Plan, PlanError, SgdTask
from network_dp.plan_reader import from_dict
from node.noise import SeededSource
from node.tasks import DataError, PayloadError, Tally, TaskError, make_task, table_of
from node.tasks.sgd import Sgd
from node.tasks.vectors import unit_rows

MakePlan = Callable[..., Plan]
SIGMA = 0.7
LOSSES = ["logistic", "ridge", "smoothed_hinge"]
ROWS = [[3.0, -1.0, 1.0], [0.5, 2.0, 0.0], [0.0, 0.0, 1.0]]


def spec(loss: str, **changes: Any) -> SgdTask:
    values = {"features": 2, "intercept": True, "step_size": 0.5, "schedule": "constant", "radius": 2.0}
    return SgdTask(kind="sgd", loss=loss, **{**values, "label_bound": 1.5, "smoothing": 0.5, **changes})


def make_sgd(make_plan: MakePlan, loss: str = "logistic", **changes: Any) -> Sgd:
    task = {"kind": "sgd", "loss": loss, "features": 2, "step_size": 0.5, "radius": 2.0, **changes}
    made = make_task(make_plan(task, {"sigma": SIGMA}))
    assert isinstance(made, Sgd)
    return made


vectors = arrays(np.float64, 3, elements=st.floats(-3, 3))


def gradient_at(w: np.ndarray, x: np.ndarray, y: float, chosen: SgdTask) -> np.ndarray:
    return loss_of(chosen).slope(np.array([x @ w]), np.array([y]))[0] * x


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_is_the_derivative_of_the_average_loss(make_plan: MakePlan, loss: str) -> None:
    task = make_sgd(make_plan, loss)
    data = task.prepare(table_of(ROWS))
    w, h = np.array([0.3, -0.4, 0.2]), 1e-6

    def objective(point: np.ndarray) -> float:
        return float(task.loss.value(data.rows @ point, data.labels).mean())

    numeric = [(objective(w + h * e) - objective(w - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(task.contribution(w, data, 1), numeric, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@given(w=vectors, x=vectors, y=st.sampled_from([-1.0, 1.0]), label=st.floats(-1.5, 1.5))
def test_gradients_are_never_longer_than_the_lipschitz_constant(
    loss: str, w: np.ndarray, x: np.ndarray, y: float, label: float
) -> None:
    chosen = spec(loss)
    row = unit_rows(x[np.newaxis])[0]
    inside = w / max(1.0, np.linalg.norm(w) / 2.0)
    gradient = gradient_at(inside, row, label if loss == "ridge" else y, chosen)
    assert np.linalg.norm(gradient) <= chosen.lipschitz * (1 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@given(a=vectors, b=vectors, x=vectors, y=st.sampled_from([-1.0, 1.0]), width=st.floats(0.1, 3))
def test_gradients_move_no_faster_than_the_smoothness(
    loss: str, a: np.ndarray, b: np.ndarray, x: np.ndarray, y: float, width: float
) -> None:
    chosen = spec(loss, smoothing=width)
    row = unit_rows(x[np.newaxis])[0]
    moved = np.linalg.norm(gradient_at(a, row, y, chosen) - gradient_at(b, row, y, chosen))
    assert moved <= chosen.smoothness * np.linalg.norm(a - b) + 1e-12


@pytest.mark.parametrize("loss", LOSSES)
@given(a=vectors, b=vectors, fraction=st.floats(0.01, 1.0), radius=st.sampled_from([0.5, 2.0]))
def test_a_step_with_eta_at_most_two_over_beta_never_moves_models_apart(
    loss: str, a: np.ndarray, b: np.ndarray, fraction: float, radius: float
) -> None:
    chosen = spec(loss, radius=radius)
    chosen = spec(loss, radius=radius, step_size=fraction * 2 / chosen.smoothness)
    task, data = _task_of(chosen)
    before = [task.projected(point) for point in (a, b)]
    after = [task.apply(point, task.contribution(point, data, 1), np.zeros(3), 1) for point in before]
    assert np.linalg.norm(after[0] - after[1]) <= np.linalg.norm(before[0] - before[1]) + 1e-9


def _task_of(chosen: SgdTask) -> tuple[Sgd, Any]:
    plan = from_dict(
        {
            "walk": {"topology": "complete", "steps": 10},
            "task": {"kind": "sgd", "features": 2, "step_size": 0.1},
            "noise": {"sigma": SIGMA},
            "users": [{"name": f"u{i}", "address": f"localhost:{20000 + i}"} for i in range(3)],
        }
    )
    task = Sgd(plan, chosen)
    return task, task.prepare(table_of(ROWS))


@given(arrays(np.float64, (4, 3), elements=st.floats(-1e308, 1e308)))
def test_rows_have_norm_one_or_are_zero(rows: np.ndarray) -> None:
    for before, after in zip(rows, unit_rows(rows), strict=True):
        assert math.isclose(math.hypot(*after), 1.0 if before.any() else 0.0, rel_tol=1e-12)


def test_the_intercept_is_inside_the_unit_norm(make_plan: MakePlan) -> None:
    rows = make_sgd(make_plan).prepare(table_of([[3.0, 4.0, 1.0]])).rows
    np.testing.assert_allclose(rows, np.array([[3, 4, 1]]) / math.sqrt(26))
    rows = make_sgd(make_plan, intercept=False).prepare(table_of([[3.0, 4.0, 1.0]])).rows
    np.testing.assert_allclose(rows, [[0.6, 0.8]])


@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge"])
def test_labels_of_a_classifier_are_two(make_plan: MakePlan, loss: str) -> None:
    task = make_sgd(make_plan, loss)
    data = task.prepare(table_of([[1, 1, 0], [1, 1, 1], [1, 1, -1]]))
    assert data.labels is not None
    assert data.labels.tolist() == [-1, 1, -1]
    with pytest.raises(DataError, match="row 1, column 3: is not a label"):
        task.prepare(table_of([[1, 1, 2]]))


def test_labels_of_ridge_are_clipped_and_counted(make_plan: MakePlan) -> None:
    data = make_sgd(make_plan, "ridge", label_bound=2.0).prepare(table_of([[1, 1, -5], [1, 1, 2]]))
    assert data.labels is not None
    assert data.labels.tolist() == [-2, 2]
    assert data.clipped == 1


def test_ridge_keeps_its_lipschitz_bound_even_for_a_model_outside_the_ball(make_plan: MakePlan) -> None:
    task = make_sgd(make_plan, "ridge")
    gradient = task.contribution(np.array([1e6, 0.0, 0.0]), task.prepare(table_of([[1, 0, -1]])), 1)
    assert np.linalg.norm(gradient) <= task.spec.lipschitz


def test_noise_and_gradient_lie_on_one_grid_and_add_exactly(make_plan: MakePlan) -> None:
    task = make_sgd(make_plan)
    assert 2.0**40 <= SIGMA / task.grid < 2.0**41
    noise = task.noise_sum(task.draw(SeededSource(b"n")), 1, None)
    gradient = task.contribution(np.array([0.1, 0.2, 0.3]), task.prepare(table_of(ROWS)), 1)
    for x, z in zip(gradient / task.grid, noise / task.grid, strict=True):
        assert float(x).is_integer()
        assert float(z).is_integer()
        assert int(x) + int(z) == int(x + z)


def test_noise_has_its_standard_deviation(make_plan: MakePlan) -> None:
    task, source = make_sgd(make_plan), SeededSource(b"std")
    draws = np.concatenate([task.draw(source).units[0] for _ in range(3000)])
    assert abs(draws.var() / SIGMA**2 - 1) < 5 * math.sqrt(2 / draws.size)


def test_one_step_is_the_formula_of_algorithm_4(make_plan: MakePlan) -> None:
    task = _unbounded(make_plan)
    w, gradient, noise = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.0, -0.5]), np.array([0.0, 1.0, 1.0])
    np.testing.assert_allclose(task.apply(w, gradient, noise, 4), w - 0.5 / 2 * (gradient + noise))
    np.testing.assert_allclose(task.apply(w, None, noise, 4), w - 0.5 / 2 * noise)


def _unbounded(make_plan: MakePlan) -> Sgd:
    task = {"kind": "sgd", "features": 2, "step_size": 0.5, "schedule": "inverse_sqrt"}
    made = make_task(make_plan(task, {"sigma": SIGMA}))
    assert isinstance(made, Sgd)
    return made


def test_steps_end_inside_the_ball(make_plan: MakePlan) -> None:
    task = make_sgd(make_plan)
    sent = task.apply(np.array([2.0, 0.0, 0.0]), None, np.array([-9.0, 5.0, 0.0]), 1)
    assert np.linalg.norm(sent) == pytest.approx(2.0)
    task.validate(sent)


def test_forwarding_changes_nothing(make_plan: MakePlan) -> None:
    received = np.array([0.1, 0.2, 0.3])
    assert make_sgd(make_plan).apply(received, None, None, 1).tolist() == received.tolist()


def test_a_gradient_never_leaves_without_noise(make_plan: MakePlan) -> None:
    task = make_sgd(make_plan)
    with pytest.raises(TaskError):
        task.apply(np.zeros(3), np.ones(3), None, 1)
    with pytest.raises(TaskError):
        task.noise_sum(task.draw(SeededSource(b"")), 0, np.ones(3))


def test_no_component_adds_nothing_on_its_own(make_plan: MakePlan) -> None:
    task = make_sgd(make_plan)
    assert not task.noise_sum(task.draw(SeededSource(b"")), 0, None).any()


@pytest.mark.parametrize(
    "payload", [np.zeros(2), np.zeros(3, np.int64), np.array([0, np.nan, 0]), np.array([0, 2.1, 0])]
)
def test_a_payload_no_honest_user_sends_is_refused(make_plan: MakePlan, payload: np.ndarray) -> None:
    with pytest.raises(PayloadError):
        make_sgd(make_plan).validate(payload)


def test_an_absurdly_large_model_is_refused_without_a_ball(make_plan: MakePlan) -> None:
    with pytest.raises(PayloadError):
        _unbounded(make_plan).validate(np.array([0, 1e300, 0]))


def test_a_step_that_is_no_contraction_is_refused() -> None:
    with pytest.raises(PlanError, match="2/beta"):
        _task_of(spec("ridge", step_size=2.1))


def test_a_small_model_learns_without_noise(make_plan: MakePlan) -> None:
    task = make_sgd(make_plan, step_size=4.0, radius=20.0)
    data = task.prepare(table_of([[1, 0, 1], [0, 1, 0], [2, 0.5, 1], [0.5, 2, 0]]))
    model = task.initial(SeededSource(b""))
    for step in range(1, 200):
        model = task.apply(model, task.contribution(model, data, step), np.zeros(3), step)
    assert data.labels is not None
    assert (np.sign(data.rows @ model) == data.labels).all()
    estimate = task.finish(model, Tally(199, 0))
    assert estimate["value"] == [*estimate["weights"], estimate["intercept"]]
