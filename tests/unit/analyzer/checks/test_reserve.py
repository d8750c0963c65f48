"""A run that lost more tokens than its plan reserved for: neither right nor wrong, and it says what it cost."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from analyzer.analysis import analyze_runs
from analyzer.report.as_json import as_text
from analyzer.report.page import page
from analyzer.verdict import Status
from benchmarks.generated_logs import Faults, plan_text, write_run
from network_dp import exposure
from network_dp.accounting import shuffle

GRID = "\ngrid = 0.0009765625"
LOST = Faults(lose_at=3, lose_after=1)  # user-0 sees an abandoned token of user-1, and its contribution once more
HISTOGRAM = 'kind = "histogram"\nbuckets = 4'
MECHANISMS = {
    "gaussian": ('kind = "sum"', "sigma = 2.0" + GRID),
    "spread": ('kind = "sum"', "sigma = 2.0\nspread = true" + GRID),
    "laplace": ('kind = "sum"', 'mechanism = "laplace"\nscale = 2.0' + GRID),
    "rr": (HISTOGRAM, "gamma = 0.5"),
}


def ring(mechanism, reissues, n=3):
    task, noise = MECHANISMS[mechanism]
    return plan_text("ring", n, 2, task, f"{noise}\nreissues = {reissues}")


def exposure_of(folder, text, faults):
    write_run(folder, text, 1, faults)
    analysis = analyze_runs([folder]).runs[0]
    return analysis, {check.id: check for check in analysis.checks}["exposure"]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "rr"])  # a spread ring stays below K here
def test_a_ring_that_lost_more_than_it_reserved_has_overspent(tmp_path, mechanism):
    analysis, check = exposure_of(tmp_path, ring(mechanism, 0), LOST)
    assert check.status is Status.OVERSPENT and analysis.status is Status.OVERSPENT
    assert analysis.privacy.worst_epsilon > analysis.privacy.promised * 1.0001
    assert f"{analysis.privacy.worst_epsilon:.4g}" in check.observed and "0 reserved" in check.observed


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_ring_that_lost_what_it_reserved_keeps_its_promise(tmp_path, mechanism):
    analysis, check = exposure_of(tmp_path, ring(mechanism, 1), LOST)
    assert check.status is Status.PASS
    assert analysis.privacy.worst_epsilon <= analysis.privacy.promised * 1.001


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_run_that_lost_nothing_may_not_spend_the_reserve(tmp_path, mechanism):
    """The limit of an undisturbed run is K, whatever the plan reserves."""
    analysis, check = exposure_of(tmp_path, ring(mechanism, 3, n=5), Faults())
    assert check.status is Status.PASS
    assert analysis.privacy.limit < analysis.privacy.reserved


@pytest.mark.parametrize("rounds", [range(2, 9), range(3, 20, 2)], ids=["a full disk", "now and then"])
def test_answers_that_were_refused_cost_no_more_than_answers_that_were_taken(tmp_path, rounds):
    """user-1 is shown the token and passed by, round after round: each time it sees the answers of one whole round."""
    n, K = 6, 20
    _, noise = MECHANISMS["rr"]
    text = plan_text("ring", n, K, HISTOGRAM, noise).replace(f"min_live = {n}", f"min_live = {n - 1}")
    analysis, check = exposure_of(tmp_path, text, Faults(refused=frozenset(2 + n * round_ for round_ in rounds)))
    assert check.status is Status.PASS, check.observed
    assert analysis.privacy.epsilon[:, 1].max() <= shuffle.ring_epsilon(n, K, 4, 0.5, 1e-6) * 1.001


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "rr"])
def test_one_loss_anywhere_is_worth_one_reissue(tmp_path, mechanism):
    for number, (n, at, after) in enumerate(itertools.product((3, 4), range(1, 7), range(4))):
        after = min(after, 2 * n - at)
        _, check = exposure_of(tmp_path / str(number), ring(mechanism, 1, n), Faults(lose_at=at, lose_after=after))
        assert check.status is Status.PASS, (n, at, after, check.observed)


def test_a_complete_walk_that_was_taken_up_again_is_judged_by_what_it_cost(tmp_path, monkeypatch):
    text = plan_text(n=5, length=40)
    analysis, check = exposure_of(tmp_path / "fine", text, LOST)
    assert check.status is Status.PASS  # within what a walk without a loss may show
    monkeypatch.setattr("analyzer.checks.limits.reserved_limit", lambda *_, **__: analysis.privacy.exposure.max() / 2)
    _, check = exposure_of(tmp_path / "dear", text, LOST)
    assert check.status is Status.OVERSPENT and "1, 0 reserved" in check.observed


def test_every_place_says_that_a_complete_promise_is_an_average(tmp_path, capsys):
    from rich.console import Console

    from analyzer.report.terminal import show_all

    write_run(tmp_path, plan_text(n=5, length=40), 1)
    analyses = analyze_runs([tmp_path])
    sentence = (
        "is an average over all paths the token could have taken: a single path may exceed it, but no pair exceeds"
    )
    note = json.loads(as_text(analyses))["privacy"]["promise_note"]
    assert sentence in note and f"{analyses.runs[0].privacy.path_limit:.4g}" in note
    show_all(analyses, Console(width=400))
    assert note in capsys.readouterr().out and note in page(analyses.runs[0])


def test_shared_laplace_noise_costs_the_least_shift():
    """One noise under both: 1; one each: 2; the second under none: infinite; a difference of them: its own."""
    see = exposure.Observation
    assert exposure.pure([see({0: 1}, {"a": 1})]) == pytest.approx({0: 1.0})
    assert exposure.pure([see({0: 3}, {"a": 1, "b": 1})]) == pytest.approx({0: 3.0})
    assert exposure.pure([see({0: 1}, {"a": 1}), see({0: 1}, {"a": 1, "b": 1})]) == pytest.approx({0: 1.0})
    assert exposure.pure([see({0: 1}, {"a": 1}), see({0: 1}, {"b": 1})]) == pytest.approx({0: 2.0})
    assert exposure.pure([see({0: 1}, {"a": 1}), see({1: 1}, {})]) == pytest.approx({0: 1.0, 1: np.inf})
    assert exposure.pure([see({0: 1}, {"a": 1}), see({}, {"a": 1, "b": 1})]) == pytest.approx({0: 2.0})


@pytest.mark.parametrize(("reissues", "status"), [(0, Status.OVERSPENT), (1, Status.PASS)])
def test_a_local_guarantee_counts_what_left_beside_the_branch_too(tmp_path, reissues, status):
    task, noise = MECHANISMS["spread"]
    write_run(tmp_path, plan_text("ring", 4, 2, task, f'{noise}\nreissues = {reissues}\nagainst = "local"'), 1, LOST)
    check = {check.id: check for check in analyze_runs([tmp_path]).runs[0].checks}["local"]
    assert check.status is status and check.number == 3


def test_a_cap_above_the_rounds_convicts_nobody_of_a_token_that_was_taken_up_again(tmp_path):
    task, noise = MECHANISMS["gaussian"]
    text = plan_text("ring", 4, 2, task, noise, caps="contributions = 5")
    write_run(tmp_path, text, 1, LOST)
    check = {check.id: check for check in analyze_runs([tmp_path]).runs[0].checks}["caps"]
    assert check.status is Status.PASS
