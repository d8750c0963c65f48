"""How many re-issues a plan reserves, how many users it counts on, and noise that contradicts its epsilon."""

from __future__ import annotations

import math
from typing import Any

import pytest

from analyzer.checks.limits import path_limit, path_sentence
from coordinator_free_launcher.cli.promise import promises
from coordinator_free_launcher.identity.finalise import finalise
from network_dp import calibrate, utility
from network_dp.accounting import bounds, shuffle
from network_dp.noise_rule import cover_elements
from network_dp.plan import PlanError
from network_dp.plan_reader import from_dict
from network_dp.promise import promised_epsilon
from tests.unit.network_dp.plan.plans import bent, users

HISTOGRAM = {"kind": "histogram", "buckets": 4}
COMPLETE = {"topology": "complete", "steps": 60}


@pytest.mark.parametrize(
    "changes,reserved",
    [
        ({}, 1),
        ({"noise": {"mechanism": "laplace", "scale": 2.0}}, 1),
        ({"noise": {"sigma": 1.0, "spread": True}}, 1),
        ({"noise": {"sigma": 1.0, "reissues": 0}}, 0),
        ({"noise": {"sigma": 1.0, "reissues": 7}}, 7),
        ({"task": HISTOGRAM, "noise": {"gamma": 0.5}}, 0),  # among the answers of all: one re-issue costs all of that
        ({"task": HISTOGRAM, "noise": {"gamma": 0.5, "against": "local"}}, 1),
        ({"walk": COMPLETE}, 0),
    ],
)
def test_what_a_plan_reserves(changes: dict[str, Any], reserved: int) -> None:
    assert from_dict(bent(changes)).noise.reissues == reserved


def test_the_complete_graph_reserves_nothing() -> None:
    with pytest.raises(PlanError, match=r"noise\.reissues = 1: must be 0 on the complete graph"):
        from_dict(bent({"walk": COMPLETE, "noise": {"sigma": 1.0, "reissues": 1}}))


@pytest.mark.parametrize("reissues", [0, 1, 3])
def test_a_ring_promises_its_rounds_and_what_it_reserves(reissues: int) -> None:
    gauss = from_dict(bent({"noise": {"sigma": 2.0, "reissues": reissues}}))
    assert promised_epsilon(gauss) == pytest.approx(bounds.local_epsilon(2 + reissues, 2.0, 1.0, 1e-6), rel=1e-4)
    laplace = from_dict(bent({"noise": {"mechanism": "laplace", "scale": 4.0, "reissues": reissues}}))
    assert promised_epsilon(laplace) == pytest.approx((2 + reissues) / 4.0)
    answers = from_dict(bent({"task": HISTOGRAM, "noise": {"gamma": 0.5, "reissues": reissues}, "users": users(9)}))
    size = (answers.walk.min_live, 2, 4, 0.5, 1e-6)
    assert promised_epsilon(answers) == pytest.approx(shuffle.ring_epsilon(*size, reissues=reissues))
    assert (
        shuffle.ring_epsilon(*size, reissues=reissues) <= shuffle.local_epsilon(2 + 2 * reissues, 4, 0.5, 1e-6) + 1e-3
    )


def test_a_ring_of_answers_counts_on_as_many_users_as_the_complete_graph() -> None:
    """Three, as before, made it worse than local DP: a share's std of 0.0754 where local DP has 0.0526 (n = 1000)."""
    for n in (3, 10, 25):
        ring = from_dict(bent({"task": HISTOGRAM, "noise": {"gamma": 0.5}, "users": users(n)}))
        complete = from_dict(bent({"task": HISTOGRAM, "walk": COMPLETE, "noise": {"gamma": 0.5}, "users": users(n)}))
        assert ring.walk.min_live == max(3, complete.walk.min_live)
    assert from_dict(bent({"users": users(25)})).walk.min_live == 3  # a full noise hides among three as well


def test_answers_on_a_large_ring_beat_local_dp() -> None:
    """n = 1000, K = 1, L = 4, epsilon 1: a share's std is about 0.0131, local DP's 0.0526."""
    live = from_dict(bent({"task": HISTOGRAM, "noise": {"gamma": 0.5}, "users": users(1000)})).walk.min_live
    gamma = calibrate.gamma(1.0, 1e-6, topology="ring", n_users=live, n_buckets=4, n_rounds=1, released=True)
    extra = 2 * cover_elements(gamma, 1000)
    assert utility.histogram_std(1000, 4, gamma, extra) / 1000 < 0.015
    assert utility.histogram_std(1000, 4, shuffle.local_gamma(1.0, 4)) / 1000 > 0.05


@pytest.mark.parametrize(
    "changes,key",
    [
        ({"noise": {"epsilon": 1.0, "sigma": 3.0}}, "sigma"),
        ({"noise": {"epsilon": 1.0, "mechanism": "laplace", "scale": 2.9}}, "scale"),  # 3 are needed: 2 rounds, 1 more
        ({"task": HISTOGRAM, "noise": {"epsilon": 1.0, "gamma": 0.3}}, "gamma"),
        ({"walk": COMPLETE, "noise": {"epsilon": 1.0, "sigma": 3.0}, "users": users(10)}, "sigma"),
        ({"noise": {"epsilon": 1.0, "sigma": 3.0, "against": "local", "spread": True}}, "sigma"),
        ({"walk": COMPLETE, "noise": {"epsilon": 1.0, "sigma": 99.0, "against": "local"}}, "sigma"),  # no cap: no bound
    ],
)
def test_noise_that_contradicts_its_epsilon_is_refused(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(PlanError, match=rf"noise\.{key} = .*not noise\.epsilon = 1"):
        finalise(from_dict(bent(changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"noise": {"epsilon": 1.0}},
        {"noise": {"epsilon": 1.0, "mechanism": "laplace"}},
        {"task": HISTOGRAM, "noise": {"epsilon": 3.0}, "users": users(9)},
        {"task": HISTOGRAM, "noise": {"epsilon": 3.0, "against": "local"}},
        {"walk": COMPLETE, "noise": {"epsilon": 1.0}, "users": users(10)},
        {"noise": {"epsilon": 1.0, "against": "local", "spread": True}},
    ],
)
def test_noise_that_was_computed_from_its_epsilon_is_kept(changes: dict[str, Any]) -> None:
    final = finalise(from_dict(bent(changes)))
    assert finalise(final) == final


def test_a_promise_that_averages_over_paths_says_so_with_the_limit_of_one_path() -> None:
    plan = finalise(from_dict(bent({"walk": COMPLETE, "noise": {"sigma": 3.0}, "users": users(10)})))
    limit, promised = path_limit(plan), promised_epsilon(plan)
    assert limit is not None and promised is not None and promised < limit < math.inf
    rows = {row.key: row for row in promises(plan)}
    assert rows["path_epsilon"].value == limit
    assert rows["path_epsilon"].note == path_sentence(promised, limit)
    assert "average over all paths" in path_sentence(promised, limit) and f"{limit:.4g}" in path_sentence(
        promised, limit
    )


def test_a_ring_keeps_its_promise_on_every_path_and_says_nothing_of_averages() -> None:
    plan = finalise(from_dict(bent({})))
    assert path_limit(plan) is None and "path_epsilon" not in {row.key for row in promises(plan)}
    assert "lost at most once" in promises(plan)[0].note
