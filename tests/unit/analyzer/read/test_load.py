"""Reading: any mixture of files that is one run, and a plain refusal of anything else."""

from __future__ import annotations

import gzip
import shutil

import pytest

from analyzer.analysis import analyze_runs
from analyzer.errors import InputError
from analyzer.verdict import Status
from benchmarks.generated_logs import plan_text, write_run
from tests.unit.analyzer import tamper


@pytest.fixture
def run(tmp_path):
    write_run(tmp_path / "run", plan_text(n=4, length=20), 1)
    return tmp_path / "run"


def test_logs_copied_from_several_machines_are_read_with_their_plan(run, tmp_path):
    copies = []
    for user in range(4):
        copies.append(tmp_path / f"copy-{user}.jsonl")
        shutil.copy(tamper.log_of(run, f"user-{user}"), copies[-1])
    assert analyze_runs(copies, plan=run / "plan.toml").status is Status.PASS


def test_a_plan_above_the_logs_is_found(run):
    assert analyze_runs([tamper.log_of(run, f"user-{user}") for user in range(4)]).status is Status.PASS


def test_gzip_is_read_as_plain(run):
    path = tamper.log_of(run, "user-2")
    path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert analyze_runs([run]).status is Status.PASS


def test_a_torn_last_line_is_tolerated_and_said(run):
    path = tamper.log_of(run, "user-2")
    with path.open("a") as log:
        log.write('{"kind":"visit","epo')
    analyses = analyze_runs([run])
    assert analyses.status is Status.PASS
    (note,) = analyses.runs[0].run.logs.notes
    assert f"{path}:" in note and "torn" in note


def test_a_cut_gzip_is_a_torn_log(run):
    path = tamper.log_of(run, "user-2")
    packed = gzip.compress(path.read_bytes())
    path.with_suffix(".jsonl.gz").write_bytes(packed[: len(packed) // 2])
    path.unlink()
    (analysis,) = analyze_runs([run]).runs
    assert "torn" in analysis.run.logs.notes[0]
    assert analysis.status is not Status.PASS


def refused(run, match):
    with pytest.raises(InputError, match=match) as caught:
        analyze_runs([run])
    return caught.value


def test_a_corrupt_line_is_refused_by_file_and_line(run):
    path = tamper.log_of(run, "user-2")
    lines = path.read_text().splitlines()
    lines[3] = lines[3][:20]
    path.write_text("\n".join(lines) + "\n")
    assert refused(run, r"user-2/state/view\.jsonl:4: not a record").line == 4


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda line: line.update(step=22), "step 22 is impossible"),
        (lambda line: line.update(step=-1), "step must be a whole number"),
        (lambda line: line.update(surprise=1), "unknown"),
        (lambda line: line.update(cause="magic"), "cause"),
        (lambda line: line.update({"from": "stranger"}), "'stranger' is not a user of the plan"),
        (lambda line: line.update(received=[1.5]), "whole numbers"),
        (lambda line: line.update(received=[10**40]), "received must be a list of numbers"),
        (lambda line: line.update(received={"a": 1}), "received must be a list of numbers"),
        (lambda line: line.update(visit=2**70), "visit must be a whole number"),
        (lambda line: line.update(base=[1, 2]), "base must be"),
        (lambda line: line.update(tag=[1]), "tag must be a text"),
        (lambda line: line.update({"from": ["user-1"]}), "from must be a user"),
        (lambda line: line.update(time=10**400), "time must be a time"),
        (lambda line: line.update(epoch=[2**70, 0]), "epoch must be"),
        (lambda line: line.update(received=[1, 2]), "a list of 1 numbers"),
    ],
)
def test_an_impossible_record_is_refused_by_file_and_line(run, edit, says):
    line = tamper.change(run, "user-2", "visit", 1, edit)
    assert refused(run, says).line == line


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"kind":"visit","received":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"kind":"visit","step":' + "9" * 100_000 + "}",
        '{"kind":"result","epoch":[0,0],"contributions":1e400}',
        '{"kind":"result","epoch":[0,0],"contributions":NaN}',
        '{"kind":"peer","peer":"user-1","state":{}}',
        '{"kind":"sent","epoch":[0,0],"step":1,"visit":1,"to":"user-1","tag":"","real":true,"units":4294967296}',
        '{"kind":["visit"]}',
        "\ud800",
    ],
    ids=range(9),
)
def test_an_absurd_line_is_refused_by_file_and_line(run, line):
    path = tamper.log_of(run, "user-2")
    lines = path.read_text().splitlines()
    lines[3] = line
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass") + b"\n")
    assert refused(run, r"user-2/state/view\.jsonl:4: not a record").line == 4


@pytest.mark.parametrize("field", ["schema", "run", "plan", "user", "values"])
@pytest.mark.parametrize("value", [[], {}, 1, None])
def test_an_absurd_header_is_refused(run, field, value):
    tamper.change(run, "user-2", "header", 0, lambda line: line.update({field: value}))
    refused(run, r"user-2/state/view\.jsonl:1: ")


def test_more_cover_elements_than_a_run_can_hold_are_refused(run):
    line = tamper.change(run, "user-2", "sent", 1, lambda line: line.update(cover=[2**40]))
    assert refused(run, "cover elements").line == line


def test_a_log_of_another_plan_is_refused(run, tmp_path):
    write_run(tmp_path / "other", plan_text(n=4, length=21), 1)
    shutil.copy(tamper.log_of(tmp_path / "other", "user-1"), tamper.log_of(run, "user-1"))
    refused(run, "user-1/state/view.jsonl:1: is a log of another plan")


def test_a_second_log_of_one_user_is_refused(run):
    shutil.copy(tamper.log_of(run, "user-1"), tamper.log_of(run, "user-2"))
    refused(run, "is a second log of user-1")


def test_an_empty_log_is_refused(run):
    tamper.log_of(run, "user-1").write_text("")
    refused(run, "the log is empty")


def test_a_log_without_header_is_refused(run):
    tamper.rewrite(run, "user-1", tamper.read(run, "user-1")[1:])
    refused(run, 'the first line must be the "header"')


def test_logs_without_a_plan_are_refused(tmp_path):
    (tmp_path / "view.jsonl").write_text("{}\n")
    refused(tmp_path, "give the plan with --plan FILE")


def test_a_directory_without_logs_is_refused(tmp_path):
    (tmp_path / "plan.toml").write_text(plan_text())
    refused(tmp_path, "holds no view log")
