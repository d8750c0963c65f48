"""Every algorithm on both topologies, over real processes: conserved to the last bit, the same result everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node.tasks import AdditiveTask
from node.tasks.data import table_of
from tests.system.harness import PATIENT, make_plan
from tests.system.walked import Ran, check_chain, check_conserved, check_ended_well, run

pytestmark = pytest.mark.process

RING = {"topology": "ring", "rounds": 3}
COMPLETE = {"topology": "complete", "steps": 25}
STAR = {"topology": "graph", "steps": 25, "peers": [[1, 2, 3], [0], [0], [0]]}
PATH = {"topology": "graph", "steps": 25, "peers": [[1], [0, 2], [1, 3], [2]]}
GAUSSIAN = {"mechanism": "gaussian", "sigma": 0.5}
SUM: dict[str, Any] = {"kind": "sum", "lower": -1.0, "upper": 1.0}
MEAN = {**SUM, "kind": "mean"}
VECTOR = {**SUM, "dimension": 3}
BUCKETS = {"kind": "histogram", "buckets": 4}
RR = {"mechanism": "rr", "gamma": 0.4}
SGD: dict[str, Any] = {"kind": "sgd", "features": 2, "step_size": 0.5}
LOGISTIC = {**SGD, "loss": "logistic"}
RIDGE = {**SGD, "loss": "ridge", "radius": 2.0, "schedule": "inverse_sqrt"}
HINGE = {**SGD, "loss": "smoothed_hinge", "radius": 5.0, "intercept": False}
CUSTOM = {
    "kind": "custom",
    "factory": "tests.unit.node.tasks.test_own_task:mean_and_variance",
    "dimension": 2,
    "sensitivity": 1.5,
}

NUMBERS = [[[0.25]], [[-0.75]], [[0.5]], [[1.0]]]
VECTORS = [[[0.25, -1.0, 0.0]], [[0.5, 0.5, 0.5]], [[-0.125, 1.0, 0.75]], [[0.0, 0.0, -1.0]]]
CHOICES = [[[0]], [[3]], [[3]], [[1]]]
LABELLED = [[[0.5, 1.0, 1], [0.1, -0.4, -1]], [[2.0, 0.3, 1]], [[-1.0, 1.0, -1]], [[0.0, 1.0, 1], [1.0, 0.0, -1]]]

ALGORITHMS = {
    "ring sum": (RING, SUM, GAUSSIAN, NUMBERS),
    "ring mean, noise spread": (RING, MEAN, {**GAUSSIAN, "spread": True}, NUMBERS),
    "ring Laplace": (RING, SUM, {"mechanism": "laplace", "scale": 0.5}, NUMBERS),
    "ring vector sum": (RING, VECTOR, GAUSSIAN, VECTORS),
    "ring histogram, responses": (RING, BUCKETS, RR, CHOICES),
    "ring histogram, Gaussian": (RING, BUCKETS, GAUSSIAN, CHOICES),
    "ring SGD": (RING, LOGISTIC, GAUSSIAN, LABELLED),
    "ring custom": (RING, CUSTOM, GAUSSIAN, NUMBERS),
    "complete sum": (COMPLETE, SUM, GAUSSIAN, NUMBERS),
    "complete mean": (COMPLETE, MEAN, GAUSSIAN, NUMBERS),
    "complete vector sum": (COMPLETE, VECTOR, GAUSSIAN, VECTORS),
    "complete histogram, responses": (COMPLETE, BUCKETS, RR, CHOICES),
    "complete histogram, Gaussian": (COMPLETE, BUCKETS, GAUSSIAN, CHOICES),
    "complete SGD, logistic": (COMPLETE, LOGISTIC, GAUSSIAN, LABELLED),
    "complete SGD, ridge": (COMPLETE, RIDGE, GAUSSIAN, LABELLED),
    "complete SGD, smoothed hinge": (COMPLETE, HINGE, GAUSSIAN, LABELLED),
    "complete custom": (COMPLETE, CUSTOM, GAUSSIAN, NUMBERS),
    "path sum": (PATH, SUM, GAUSSIAN, NUMBERS),
    "star histogram, Gaussian": (STAR, BUCKETS, GAUSSIAN, CHOICES),
    "path SGD": (PATH, LOGISTIC, GAUSSIAN, LABELLED),
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_token_is_conserved(algorithm: str, tmp_path: Path) -> None:
    walk, task, noise, values = ALGORITHMS[algorithm]
    plan = make_plan(4, task=task, noise=noise, timing=PATIENT, **walk)
    ran = run(plan, tmp_path, dict(zip(plan.names, values, strict=True)))
    check_ended_well(ran)
    check_chain(ran)
    check_conserved(ran)
    check_contributions_are_the_data(ran, dict(zip(plan.names, values, strict=True)))
    estimate = ran.task.finish(ran.final, tally_of(ran))["value"]
    assert ran.results[plan.names[0]]["value"] == estimate


def test_simple_weights_do_not_bias_the_mean(tmp_path: Path) -> None:
    """The centre of a star has the token in every other step, and alone has a 1: the mean over visits would be 1/2."""
    values = [[[1.0]], [[0.0]], [[0.0]], [[0.0]]]
    walk = {**STAR, "steps": 40, "weights": "simple"}
    plan = make_plan(4, task=MEAN, noise={**GAUSSIAN, "sigma": 0.01}, timing=PATIENT, **walk)
    ran = run(plan, tmp_path, dict(zip(plan.names, values, strict=True)))
    check_ended_well(ran)
    check_chain(ran)
    check_conserved(ran)
    assert [visit.user == "user-0" for visit in ran.steps].count(True) == 20
    assert ran.results["user-2"]["value"] == pytest.approx([0.25], abs=0.02)


def check_contributions_are_the_data(ran: Ran, rows: dict[str, Any]) -> None:
    """Each contribution is what the task makes of that user's own rows at the token it received."""
    for visit in ran.steps:
        data = ran.task.prepare(table_of(np.array(rows[visit.user], dtype=float)))
        received = np.array(visit.came["received"], dtype=ran.task.dtype)
        assert ran.task.contribution(received, data, 1).tolist() == visit.left["contribution"]


def tally_of(ran: Ran) -> Any:
    from node.tasks import Tally

    cover = 0
    if not isinstance(ran.task, AdditiveTask) and ran.task.dtype == "int64":
        cover = sum(sum(visit.left["cover"] or []) for visit in ran.walk)
    return Tally(sum(visit.left["real"] for visit in ran.walk), cover)


@pytest.mark.parametrize("walk", [RING, COMPLETE], ids=["ring", "complete"])
def test_a_user_with_a_sequence_contributes_one_element_a_visit(walk: dict[str, Any], tmp_path: Path) -> None:
    plan = make_plan(3, task={**MEAN, "rows": "per_visit"}, noise=GAUSSIAN, timing=PATIENT, **walk)
    sequences = {name: [[(i + 1) / 16], [-(i + 1) / 8]] for i, name in enumerate(plan.names)}
    ran = run(plan, tmp_path, sequences)
    check_conserved(ran)
    grid = ran.plan.noise.grid
    assert grid is not None
    for name in plan.names:
        made = [visit.left["contribution"][0] * grid for visit in ran.steps if visit.user == name]
        assert made == [sequences[name][k % 2][0] for k in range(len(made))]


@pytest.mark.parametrize("walk", [RING, COMPLETE], ids=["ring", "complete"])
def test_release_to_the_holder_leaves_the_others_without_the_value(walk: dict[str, Any], tmp_path: Path) -> None:
    plan = make_plan(3, task=MEAN, noise=GAUSSIAN, timing=PATIENT, **{**walk, "release": "holder"})
    ran = run(plan, tmp_path, dict(zip(plan.names, NUMBERS[:3], strict=True)))
    assert ran.outcome.codes == dict.fromkeys(plan.names, 0)
    last = ran.walk[-1].user
    assert {name for name, result in ran.results.items() if result["value"] is not None} == {last}
    check_chain(ran)
    check_conserved(ran)
    for name in plan.names:
        for record in ran.views[name]:
            assert record.kind != "result" or name == last or record.fields["value"] is None
    assert not any(visit.left["units"] for visit in ran.walk[-1:]) or plan.walk.topology == "complete"
