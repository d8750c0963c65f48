"""What is random in a real run has the law the theory says. Every false-alarm rate is at most 1e-6; seeds are fixed."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from network_dp.utility import sum_std
from tests.system.harness import PATIENT, make_plan
from tests.system.walked import Ran, run

pytestmark = pytest.mark.process

ALARM = 1e-6
N_USERS, STEPS, BUCKETS, GAMMA = 5, 1500, 3, 0.4


@pytest.fixture(scope="module")
def long_walk(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One long walk serves several questions: responses of 5 users in 1500 steps."""
    plan = make_plan(
        N_USERS,
        topology="complete",
        steps=STEPS,
        task={"kind": "histogram", "buckets": BUCKETS},
        noise={"gamma": GAMMA},
        timing=PATIENT,
    )
    ran = run(plan, tmp_path_factory.mktemp("long"), {name: [[i % 2]] for i, name in enumerate(plan.names)})
    assert ran.outcome.ok
    return ran


def _p_value(table: np.ndarray) -> float:
    return float(stats.chi2_contingency(table).pvalue)


def test_the_next_user_is_uniform_over_all_users_self_included(long_walk: Ran) -> None:
    following = Counter(visit.user for visit in long_walk.steps)
    assert stats.chisquare([following[name] for name in long_walk.plan.names]).pvalue > ALARM
    own = sum(visit.next == visit.user for visit in long_walk.steps)
    assert stats.binomtest(own, STEPS - 1, 1 / N_USERS).pvalue > ALARM


def test_the_next_user_does_not_depend_on_the_holder_or_the_response(long_walk: Ran) -> None:
    names, hops = long_walk.plan.names, long_walk.steps[:-1]
    pairs = Counter((visit.user, visit.next) for visit in hops)
    assert _p_value(np.array([[pairs[a, b] for b in names] for a in names])) > ALARM
    said = Counter((_said(visit.left), visit.next) for visit in hops)
    assert _p_value(np.array([[said[r, b] for b in names] for r in range(BUCKETS)])) > ALARM


def _said(left: dict[str, list[int]]) -> int:
    return int((np.array(left["contribution"]) + np.array(left["noise"])).argmax())


def test_responses_lie_with_probability_gamma(long_walk: Ran) -> None:
    lies = sum(any(visit.left["noise"]) for visit in long_walk.steps)
    assert stats.binomtest(lies, STEPS, GAMMA * (1 - 1 / BUCKETS)).pvalue > ALARM


def test_the_debiased_histogram_is_unbiased(long_walk: Ran) -> None:
    """Against the truth of the walk as it went: who was visited how often is not the responses' error."""
    truth = np.sum([visit.left["contribution"] for visit in long_walk.steps], axis=0) / STEPS
    estimate = np.array(long_walk.results["user-0"]["value"])
    stay, stray = 1 - GAMMA + GAMMA / BUCKETS, GAMMA / BUCKETS
    variance = truth * stay * (1 - stay) + (1 - truth) * stray * (1 - stray)
    z = (estimate - truth) * (1 - GAMMA) / np.sqrt(variance / STEPS)
    assert (2 * stats.norm.sf(np.abs(z)) > ALARM / BUCKETS).all()


@pytest.mark.parametrize(
    ("walk", "noise"),
    [
        ({"topology": "ring", "rounds": 2}, {"sigma": 0.5}),
        ({"topology": "ring", "rounds": 2, "release": "holder"}, {"sigma": 0.5}),
        ({"topology": "ring", "rounds": 2}, {"sigma": 0.5, "spread": True}),
        ({"topology": "complete", "steps": 6}, {"sigma": 0.5}),
    ],
    ids=["ring", "ring kept by the holder", "spread ring", "complete"],
)
def test_error_of_a_vector_sum_is_unbiased_with_the_expected_spread(
    walk: dict[str, object], noise: dict[str, object], tmp_path: Path
) -> None:
    """The coordinates of a vector are independent repetitions: mean 0 and variance as the theory says."""
    dimension = 2000
    task = {"kind": "sum", "dimension": dimension, "lower": 0.0, "upper": 1.0}
    plan = make_plan(3, task=task, noise=noise, timing=PATIENT, **walk)
    rows = {name: [[((i + j) % 8) / 8 for j in range(dimension)]] for i, name in enumerate(plan.names)}
    ran = run(plan, tmp_path, rows)
    holder = next(result for result in ran.results.values() if result["value"] is not None)
    truth = np.sum([rows[visit.user][0] for visit in ran.steps], axis=0)
    std = sum_std(
        0.5,
        topology=plan.walk.topology,
        n_users=3,
        n_rounds=plan.walk.rounds,
        n_steps=plan.walk.steps,
        released=plan.walk.release == "all",
        spread=plan.noise.spread,
    )
    z = (np.array(holder["value"]) - truth) / std
    assert 2 * stats.norm.sf(abs(z.sum()) / dimension**0.5) > ALARM / 2
    assert 2 * min(stats.chi2.cdf((z**2).sum(), dimension), stats.chi2.sf((z**2).sum(), dimension)) > ALARM / 2


def test_repeated_runs_err_independently_with_the_expected_spread(tmp_path: Path) -> None:
    """Seeds 0 .. 5: the error in expected standard deviations is standard normal, and no two runs agree."""

    def error_in_stds(seed: int) -> float:
        plan = make_plan(
            3, topology="ring", rounds=2, task={"kind": "mean"}, noise={"sigma": 2.0}, timing=PATIENT, seed=seed
        )
        ran = run(plan, tmp_path / str(seed), dict(zip(plan.names, ([[0.25]], [[0.5]], [[1.0]]), strict=True)))
        result = ran.results["user-0"]
        return float((result["value"][0] - 1.75 / 3) / result["expected_std"])

    with ThreadPoolExecutor(2) as pool:
        z = np.array(list(pool.map(error_in_stds, range(6))))
    assert len(set(z.tolist())) == len(z)
    assert 2 * stats.norm.sf(abs(z.sum()) / len(z) ** 0.5) > ALARM / 2
    assert 2 * min(stats.chi2.cdf((z**2).sum(), len(z)), stats.chi2.sf((z**2).sum(), len(z))) > ALARM / 2


def test_noises_of_different_users_and_visits_differ(tmp_path: Path) -> None:
    """Users are not seeded alike, and a visit never repeats another's noise (8.3): 2^20 grid steps, 60 draws."""
    plan = make_plan(
        3, topology="complete", steps=60, task={"kind": "sum"}, noise={"sigma": 0.5, "grid": 2.0**-30}, timing=PATIENT
    )
    ran = run(plan, tmp_path, {name: [[0.5]] for name in plan.names})
    noises = [visit.left["noise"][0] for visit in ran.steps]
    assert len(set(noises)) == len(noises)  # a collision among 60 normals of std 2^29: about 1e-6
