"""Honest runs pass, whatever the task, the topology and the faults."""

from __future__ import annotations

import pytest

from analyzer.analysis import analyze_runs
from analyzer.read.export import export
from analyzer.verdict import Status
from benchmarks.generated_logs import Faults, plan_text, write_run
from tests.unit.analyzer import tamper
from tests.unit.analyzer.conftest import GRID, HISTOGRAM, SGD


def failures(analyses):
    return [
        (check.id, check.observed, check.evidence[:2])
        for run in analyses.runs
        for check in run.checks
        if check.status is not Status.PASS
    ]


def test_an_honest_run_passes(tmp_path, any_plan):
    write_run(tmp_path, any_plan, 7)
    analyses = analyze_runs([tmp_path])
    assert analyses.status is Status.PASS, failures(analyses)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (plan_text(), Faults(lose_at=20, lose_after=4)),
        (plan_text(), Faults(lose_at=20)),
        (plan_text(), Faults(refuse_at=20)),
        (plan_text(), Faults(unrun_at=20)),
        (plan_text("ring", 6, 5), Faults(unrun_at=12)),
        (plan_text(task=SGD, noise="sigma = 3.0"), Faults(unrun_at=20)),
        (plan_text(task=HISTOGRAM, noise="gamma = 0.3"), Faults(unrun_at=20)),
        (plan_text("ring", 6, 5), Faults(lose_at=12, lose_after=3)),
        (plan_text("ring", 6, 5), Faults(dead=frozenset({2}))),
        (plan_text("ring", 6, 5, noise=f"sigma = 2.0\n{GRID}\nspread = true"), Faults(dead=frozenset({2}))),
        (plan_text("ring", 6, 5, noise=f"sigma = 2.0\n{GRID}\nspread = true"), Faults(lose_at=12, lose_after=3)),
        (plan_text(task=SGD, noise="sigma = 3.0"), Faults(lose_at=20, lose_after=4)),
        (plan_text(task=SGD, noise="sigma = 3.0"), Faults(refuse_at=20)),
        (plan_text("ring", 6, 4, task=HISTOGRAM, noise="gamma = 0.3\nreissues = 1"), Faults(lose_at=12, lose_after=3)),
        (plan_text(task=HISTOGRAM, noise="gamma = 0.3"), Faults(lose_at=20, lose_after=4)),
        (plan_text("ring", 6, 4, task=HISTOGRAM, noise="gamma = 0.3"), Faults(dead=frozenset({3}))),
    ],
)
def test_an_honest_run_with_faults_passes(tmp_path, text, faults):
    write_run(tmp_path, text, 11, faults)
    analyses = analyze_runs([tmp_path])
    assert analyses.status is Status.PASS, failures(analyses)


def sent_again(run, before):
    """One hand-over of a ring, and in front of it another of the same hop: refused, then sent again."""
    lines = tamper.read(run, "user-2")
    place = next(i for i, line in enumerate(lines) if line["kind"] == "sent" and line["units"] == 1)
    lines.insert(place, {**lines[place], "tag": "0" * 64, **before(lines[place])})
    tamper.rewrite(run, "user-2", lines)


def test_more_noise_for_the_same_hop_is_no_redrawn_noise(tmp_path):
    """Refused, topped up for somebody else who is down, and back to the first receiver: THEORY.md#noise-once allows
    it."""
    write_run(tmp_path, plan_text("ring", 5, 4), 1)
    sent_again(tmp_path, lambda x: {"units": 0, "noise": [0], "sent": [x["sent"][0] - x["noise"][0]]})
    (analysis,) = analyze_runs([tmp_path]).runs
    assert {check.id: check.status for check in analysis.checks}["redraw"] is Status.PASS


def test_another_tag_without_values_proves_nothing(tmp_path):
    """The same bytes under a new tag: fine where the bytes are shown, open where they are not."""
    write_run(tmp_path / "run", plan_text("ring", 5, 4), 1)
    sent_again(tmp_path / "run", lambda x: {})
    statuses = []
    for user in (f"user-{u}" for u in range(5)):
        export(tamper.log_of(tmp_path / "run", user), tmp_path / f"{user}.jsonl")
    for paths in ([tmp_path / "run"], sorted(tmp_path.glob("*.jsonl"))):
        (analysis,) = analyze_runs(paths, tmp_path / "run" / "plan.toml").runs
        statuses.append({check.id: check.status for check in analysis.checks}["redraw"])
    assert statuses == [Status.PASS, Status.PARTIAL]


HONEST = {
    "complete sum": plan_text(length=40),
    "ring sum": plan_text("ring", 4, 4),
    "complete sgd": plan_text(n=4, length=30, task=SGD, noise="sigma = 3.0"),
    "ring sgd": plan_text("ring", 4, 4, task=SGD, noise="sigma = 3.0"),
    "complete histogram": plan_text(n=4, length=20, task=HISTOGRAM, noise="gamma = 0.3"),
    "ring histogram": plan_text("ring", 4, 3, task=HISTOGRAM, noise="gamma = 0.3"),
}


def failed_among(folder, text, seeds):
    """The seeds of honest runs of one plan that do not pass, and why."""
    failed = []
    for seed in seeds:
        write_run(folder / str(seed), text, 1000 + seed)
        analyses = analyze_runs([folder / str(seed)])
        if analyses.status is not Status.PASS:
            failed.append((seed, failures(analyses)))
    return failed


@pytest.mark.parametrize("plan", HONEST, ids=lambda name: name.replace(" ", "-"))
def test_honest_runs_pass_whatever_the_seed(tmp_path, plan):
    assert failed_among(tmp_path, HONEST[plan], range(8)) == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("runs", [300, pytest.param(1000, marks=pytest.mark.full)])
def test_at_least_999_of_1000_honest_runs_pass(tmp_path, runs):
    """The checks together cry wolf with probability at most 2e-4 per run, so not even one of 1000 should."""
    kinds = len(HONEST)
    failed = [failed_among(tmp_path / plan, HONEST[plan], range(i, runs, kinds)) for i, plan in enumerate(HONEST)]
    assert sum(map(len, failed)) <= runs // 1000, failed


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("plan", HONEST, ids=lambda name: name.replace(" ", "-"))
def test_at_least_999_of_1000_honest_runs_of_each_kind_pass(tmp_path, plan):
    failed = failed_among(tmp_path, HONEST[plan], range(1000, 2000))
    assert len(failed) <= 1, failed


def test_errors_of_several_runs_are_judged_together(tmp_path):
    for number in range(1, 5):
        write_run(tmp_path / str(number), plan_text(run_number=number), number)
    analyses = analyze_runs([tmp_path / str(number) for number in range(1, 5)])
    assert {check.id for check in analyses.together} == {"runs-mean", "runs-variance"}
    assert analyses.status is Status.PASS
