"""Real logs of real processes, kept: the verdict, and every number recomputed by dumb means from the raw lines.

``golden/`` holds two runs of five users with made-up data (mean, sigma 1.5): 4 rounds of a ring, 30 steps of a complete
graph. Rewrite them only with a change of the view schema that is understood.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from analyzer.analysis import analyze_runs
from analyzer.read.truth import read_truth
from analyzer.verdict import Status
from network_dp import plan_reader
from network_dp.accounting import gaussian
from tests.unit.analyzer import tamper
from tests.unit.analyzer.reconstruct.test_exposure import oracle

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(params=["ring", "complete"])
def golden(request):
    folder = GOLDEN / request.param
    (analysis,) = analyze_runs([folder], truth=read_truth(str(folder / "truth.json"))).runs
    return folder, analysis


def lines_of(folder, kinds):
    names = [f"user-{user}" for user in range(5)]
    return [line for name in names for line in tamper.read(folder, name) if line["kind"] in kinds]


def test_a_real_run_passes_every_check(golden):
    _, analysis = golden
    assert {check.id: check.status for check in analysis.checks if check.status is not Status.PASS} == {}


def test_its_exposure_is_recomputed_from_the_raw_lines(golden):
    folder, analysis = golden
    np.testing.assert_allclose(analysis.privacy.exposure, oracle(folder), rtol=1e-9, atol=1e-12)
    plan = plan_reader.parse((folder / "plan.toml").read_text())
    mu = math.sqrt(oracle(folder).max()) * plan.sensitivity / plan.noise.sigma
    assert analysis.privacy.worst_epsilon == pytest.approx(gaussian.epsilon(mu, plan.noise.delta), rel=1e-4)


def test_its_result_is_the_sum_of_all_logged_contributions_and_noises(golden):
    folder, analysis = golden
    plan = plan_reader.parse((folder / "plan.toml").read_text())
    sent = lines_of(folder, {"sent", "finish"})
    total = sum((x["contribution"] or [0])[0] + (x["noise"] or [0])[0] for x in sent)
    count = sum(x["real"] for x in sent)
    assert {x["value"][0] for x in lines_of(folder, {"result"})} == {total}
    assert analysis.utility.estimate == pytest.approx([total * plan.noise.grid / count])


def test_the_ring_added_as_many_noises_as_theorem_1_says_corrected():
    noises = sum(x["units"] for x in lines_of(GOLDEN / "ring", {"sent", "finish"}))
    assert noises == math.ceil((4 * 5 - 1) / (5 - 1)) + 1, "ceil((Kn-1)/(n-1)), and the closing one"


def test_its_error_is_against_the_truth_of_the_demo(golden):
    folder, analysis = golden
    truth = json.loads((folder / "truth.json").read_text())["mean"][0]
    assert analysis.utility.truth_error == pytest.approx(abs(analysis.utility.estimate[0] - truth))
