"""Every lie in a log fails the right check and points at the right user and line."""

from __future__ import annotations

import shutil

import pytest

from analyzer.analysis import analyze_runs
from analyzer.errors import InputError
from analyzer.verdict import Status
from benchmarks.generated_logs import Faults, plan_text, write_run
from tests.unit.analyzer import tamper
from tests.unit.analyzer.conftest import HISTOGRAM, SGD


def check_of(run, check_id):
    (analysis,) = analyze_runs([run]).runs
    assert analysis.status is Status.FAIL
    found = {check.id: check for check in analysis.checks}[check_id]
    assert found.status is Status.FAIL, [(c.id, c.status, c.observed) for c in analysis.checks]
    return found


def pointed_at(check):
    return {(finding.user, finding.line) for finding in check.evidence}


@pytest.fixture
def run(tmp_path):
    write_run(tmp_path, plan_text(), 1)
    return tmp_path


def test_a_changed_value_breaks_conservation(run):
    line = tamper.change(run, "user-2", "sent", 1, lambda x: x["contribution"].__setitem__(0, x["contribution"][0] - 1))
    assert ("user-2", line) in pointed_at(check_of(run, "conservation"))


def test_a_changed_token_breaks_the_link(run):
    line = tamper.change(run, "user-2", "visit", 1, lambda x: x["received"].__setitem__(0, x["received"][0] + 1))
    assert ("user-2", line) in pointed_at(check_of(run, "links"))


def test_a_changed_tag_breaks_the_link(run):
    line = tamper.change(run, "user-2", "visit", 1, lambda x: x.update(tag="0" * 64))
    assert ("user-2", line) in pointed_at(check_of(run, "links"))


def test_a_contribution_outside_the_bounds_is_found(run):
    def edit(x):
        x["contribution"][0] += 5000
        x["noise"][0] -= 5000

    line = tamper.change(run, "user-2", "sent", 1, edit)
    assert ("user-2", line) in pointed_at(check_of(run, "bounds"))


def test_an_sgd_step_that_does_not_follow_is_found(tmp_path):
    write_run(tmp_path, plan_text(task=SGD, noise="sigma = 3.0"), 1)
    line = tamper.change(tmp_path, "user-1", "sent", 1, lambda x: x["noise"].__setitem__(0, x["noise"][0] + 1e-6))
    assert ("user-1", line) in pointed_at(check_of(tmp_path, "conservation"))


def test_a_removed_step_is_found(run):
    """user-3's hand-over is gone: the receiver got a token that nobody sent."""
    lines = tamper.read(run, "user-3")
    place = tamper.nth(lines, "sent", 1)
    to, step = lines[place]["to"], lines[place]["step"]
    del lines[place]
    tamper.rewrite(run, "user-3", lines)
    check = check_of(run, "links")
    assert [finding.user for finding in check.evidence] == [to]
    assert f"step {step}" in check.evidence[0].text and "user-3" in check.evidence[0].text


def test_a_removed_visit_is_found(run):
    lines = tamper.read(run, "user-3")
    place = tamper.nth(lines, "visit", 1)
    del lines[place]
    tamper.rewrite(run, "user-3", lines)
    assert "user-3" in {finding.user for finding in check_of(run, "steps").evidence}


def test_a_doubled_step_is_found(run):
    lines = tamper.read(run, "user-3")
    place = tamper.nth(lines, "visit", 1)
    lines.insert(place + 1, dict(lines[place]))
    tamper.rewrite(run, "user-3", lines)
    assert ("user-3", place + 2) in pointed_at(check_of(run, "steps"))


def test_a_log_of_another_run_is_refused(run, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    write_run(other, plan_text(run_number=2), 2)
    tamper.log_of(run, "user-1").write_text(tamper.log_of(other, "user-1").read_text())
    with pytest.raises(InputError, match=r"users/user-1/state/view\.jsonl:1: is a log of another run"):
        analyze_runs([run])


def test_redrawn_noise_is_found(tmp_path):
    """Refused once, sent again: the second time with other noise (and a sum that fits)."""
    write_run(tmp_path, plan_text(), 1, Faults(refuse_at=20))
    user, place = next(
        (name, i)
        for name in (f"user-{u}" for u in range(5))
        for lines in [tamper.read(tmp_path, name)]
        for i in range(1, len(lines))
        if lines[i]["kind"] == "sent" == lines[i - 1]["kind"]
    )
    lines = tamper.read(tmp_path, user)
    lines[place - 1]["noise"][0] += 7
    lines[place - 1]["sent"][0] += 7
    tamper.rewrite(tmp_path, user, lines)
    assert (user, place + 1) in pointed_at(check_of(tmp_path, "redraw"))


def test_noise_that_is_half_as_large_is_found(tmp_path):
    write_run(tmp_path, plan_text(length=400), 1, Faults(noise_scale={2: 0.5}))
    check = check_of(tmp_path, "noise")
    assert {finding.user for finding in check.evidence} == {"user-2"}


def test_noise_that_everybody_makes_half_as_large_is_found(tmp_path):
    write_run(tmp_path, plan_text("ring", 5, 80), 1, Faults(noise_scale=dict.fromkeys(range(5), 0.5)))
    assert "all noise together" in check_of(tmp_path, "noise").observed


def test_missing_noise_of_one_user_is_found(tmp_path):
    """It claims its units and logs zeros."""
    write_run(tmp_path, plan_text(length=60), 1, Faults(noise_scale={3: 0.0}))
    assert {finding.user for finding in check_of(tmp_path, "noise").evidence} == {"user-3"}


def test_noise_that_one_user_admits_not_to_have_added_is_found(run):
    line = tamper.change(run, "user-3", "sent", 1, lambda x: x.update(units=0))
    assert ("user-3", line) in pointed_at(check_of(run, "duty"))


def test_responses_that_never_lie_are_found(tmp_path):
    write_run(tmp_path, plan_text(length=200, task=HISTOGRAM, noise="gamma = 0.5"), 1)
    for user in (f"user-{u}" for u in range(5)):
        lines = tamper.read(tmp_path, user)
        for line in lines:
            if line["kind"] in ("sent", "finish") and line["noise"] is not None:
                line["noise"] = [0, 0, 0, 0]
        tamper.rewrite(tmp_path, user, lines)
    assert check_of(tmp_path, "noise").number <= 1e-6


def test_a_biased_walk_is_found(tmp_path):
    def choose(rng, holder, n):
        return 1 if holder == 3 and rng.random() < 0.8 else int(rng.integers(n))

    write_run(tmp_path, plan_text(n=8, length=400), 1, Faults(choose=choose))
    check = check_of(tmp_path, "uniform")
    assert any(finding.user == "user-3" and "to user-1" in finding.text for finding in check.evidence)


def test_a_walk_that_never_stays_is_found(tmp_path):
    """Leaving the sender out bends the law."""

    def choose(rng, holder, n):
        return (holder + 1 + int(rng.integers(n - 1))) % n

    write_run(tmp_path, plan_text(n=6, length=300), 1, Faults(choose=choose))
    assert "self-hops" in check_of(tmp_path, "uniform").observed


def test_a_user_past_its_cap_is_found(tmp_path):
    write_run(tmp_path, plan_text(length=80, caps="contributions = 6"), 1, Faults(ignore_cap=frozenset({2})))
    assert {finding.user for finding in check_of(tmp_path, "caps").evidence} == {"user-2"}


def test_a_ring_skip_without_the_duty_rule_is_found(tmp_path):
    """The paper's counter, one noise in every n - 1 hops, leaves a window bare when somebody is skipped."""
    write_run(tmp_path, plan_text("ring", 6, 8), 1, Faults(dead=frozenset({2}), count_hops=True))
    check = check_of(tmp_path, "foreign")
    assert "0 of 1 noise units" in check.evidence[0].text
    assert check_of(tmp_path, "exposure").number == float("inf")


AWAY = frozenset({10, 14})  # n = 5: one user misses the turn of a noise, another the round


def test_two_rounds_under_one_noise_are_found(tmp_path):
    """A full noise in every window is not enough for a user that was away for a round (ADR 13)."""
    write_run(tmp_path, plan_text("ring", 5, 3), 1, Faults(away=AWAY, forget_rounds=True))
    check = check_of(tmp_path, "foreign")
    assert "1 of 2" in check.evidence[0].text
    assert check_of(tmp_path, "exposure").number == pytest.approx(5.0)


def test_two_rounds_under_two_noises_are_fine(tmp_path):
    """The control of the test above."""
    write_run(tmp_path, plan_text("ring", 5, 3), 1, Faults(away=AWAY))
    assert analyze_runs([tmp_path]).status is Status.PASS


def test_a_missing_log_of_a_ring_with_users_away_proves_nothing(tmp_path):
    """What the log does not show may be more than one component: neither may be held against it."""
    noise = "sigma = 2.0\ngrid = 0.0009765625\nspread = true"
    run = tmp_path / "run"
    write_run(run, plan_text("ring", 5, 4, noise=noise), 1, Faults(away=AWAY))
    assert analyze_runs([run]).status is Status.PASS
    for user in ("user-3", "user-4"):
        shutil.move(run / "users" / user, tmp_path)
        assert analyze_runs([run]).status is Status.UNKNOWN
        shutil.move(tmp_path / user, run / "users")


def test_a_paper_counter_without_skips_is_fine(tmp_path):
    """The control of the test above: without faults the counter and the ledger agree (release apart)."""
    write_run(tmp_path, plan_text("ring", 6, 8, release="holder"), 1, Faults(count_hops=True))
    assert analyze_runs([tmp_path]).status is Status.PASS


def test_a_reissue_without_fresh_noise_is_found(tmp_path):
    write_run(tmp_path, plan_text("ring", 6, 5), 1, Faults(lose_at=12, stale_reissue=True))
    assert "re-issued" in check_of(tmp_path, "duty").evidence[0].text


def test_a_token_with_two_holders_is_found(run):
    """Two visits to one hop, at different users: a silent fork."""
    lines = tamper.read(run, "user-1")
    place = tamper.nth(lines, "visit", 1)
    copy = dict(lines[place], visit=999)
    other = tamper.read(run, "user-4")
    tamper.rewrite(run, "user-4", [*other, copy])
    assert "second holder" in check_of(run, "steps").evidence[0].text


def test_a_result_that_is_not_the_final_token_is_found(run):
    line = tamper.change(run, "user-4", "result", 0, lambda x: x["value"].__setitem__(0, x["value"][0] + 1))
    assert pointed_at(check_of(run, "result")) == {("user-4", line)}


def test_missing_cover_elements_of_a_ring_histogram_are_found(tmp_path):
    write_run(tmp_path, plan_text("ring", 6, 4, task=HISTOGRAM, noise="gamma = 0.3"), 1)

    def edit(x):
        x["sent"] = [a - b for a, b in zip(x["sent"], x["cover"], strict=True)]
        x["cover"] = None

    line = tamper.change(tmp_path, "user-0", "sent", 0, edit)
    assert ("user-0", line) in pointed_at(check_of(tmp_path, "cover"))


def test_a_wrong_truth_is_found(run):
    from analyzer.read.truth import Truth

    (analysis,) = analyze_runs([run], truth=Truth((1e6,))).runs
    assert {check.id: check.status for check in analysis.checks}["truth"] is Status.FAIL
