"""The command line: exit codes, JSON, one plain sentence for bad input."""

from __future__ import annotations

import json
import math

import pytest
from typer.testing import CliRunner

from benchmarks.generated_logs import Faults, plan_text, write_run
from coordinator_free_launcher.cli.app import app
from tests.unit.analyzer import tamper
from tests.unit.analyzer.conftest import SGD


@pytest.fixture
def call():
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def run(tmp_path):
    write_run(tmp_path / "run", plan_text(n=4, length=20), 1)
    return tmp_path / "run"


def test_pass_is_0(call, run):
    result = call("analyze", run)
    assert result.exit_code == 0 and result.output.startswith("PASS")


def test_fail_is_1_and_names_the_line(call, run):
    line = tamper.change(run, "user-2", "sent", 0, lambda x: x["noise"].__setitem__(0, x["noise"][0] + 1))
    result = call("analyze", run)
    assert result.exit_code == 1
    assert f"view.jsonl:{line}" in result.output.replace("\n", "").replace(" ", "")


def test_unknown_is_3(call, run):
    assert call("analyze", tamper.log_of(run, "user-1")).exit_code == 3


@pytest.mark.parametrize("words", [["nowhere"], ["RUN", "--truth", "many"], ["RUN", "--colluders", "stranger"]])
def test_bad_input_is_2_in_one_sentence(call, run, words):
    result = call("analyze", *(run if word == "RUN" else word for word in words))
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_corrupt_log_is_2_and_named(call, run):
    tamper.log_of(run, "user-1").write_text("garbage\n")
    result = call("analyze", run)
    assert result.exit_code == 2 and "user-1/state/view.jsonl:1:" in result.stderr


def test_json_has_every_documented_field(call, run):
    body = json.loads(call("analyze", run, "--json", "--colluders", "user-0,user-1", "--max-colluders", 2).stdout)
    assert body["schema"] == "network-dp/verdict/1" and body["status"] == "PASS"
    keys = {"schema", "status", "run", "notes", "left_out", "checks", "privacy", "utility", "alone", "users"}
    assert set(body) == keys
    for check in body["checks"]:
        assert set(check) == {
            "id",
            "title",
            "status",
            "observed",
            "bound",
            "rule",
            "theory",
            "number",
            "limit",
            "evidence_count",
            "evidence",
        }
        assert check["rule"] and check["theory"]
    assert [len(item["members"]) for item in body["privacy"]["collusions"]] == [2, 2]


def test_json_has_no_infinity(call, tmp_path):
    write_run(tmp_path, plan_text("ring", 4, 3), 1)
    result = call("analyze", tmp_path, "--json", "--max-colluders", 2)
    body = json.loads(result.stdout, parse_constant=pytest.fail)
    assert body["privacy"]["local_epsilon"] == "inf"


def test_the_truth_may_be_a_number_a_file_or_a_demo_s_json(call, run, tmp_path):
    (tmp_path / "truth.txt").write_text("2.0\n")
    (tmp_path / "truth.json").write_text('{"kind": "sum", "users": 4, "sum": [2.0]}')
    for truth in ("2.0", tmp_path / "truth.txt", tmp_path / "truth.json"):
        body = json.loads(call("analyze", run, "--json", "--truth", truth).stdout)
        assert body["utility"]["truth"] == [2.0]
        assert "truth" in {check["id"] for check in body["checks"]}


def test_export_writes_a_log_without_values(call, run, tmp_path):
    result = call("export", tamper.log_of(run, "user-1"), "--out", tmp_path / "mine.jsonl")
    assert result.exit_code == 0
    assert '"values":false' in (tmp_path / "mine.jsonl").read_text().splitlines()[0]


def test_one_user_alone_gets_its_own_numbers(call, run):
    body = json.loads(call("analyze", tamper.log_of(run, "user-1"), "--json").stdout)
    own = body["alone"]
    lines = tamper.read(run, "user-1")
    assert own["visits"] == sum(line["kind"] == "visit" and line["step"] > 0 for line in lines)
    assert own["contributions"] == sum(bool(line.get("real")) for line in lines)
    assert own["spent_epsilon"] > 0 and own["learned_epsilon"] > 0
    assert own["tokens_seen"] == sum(line["kind"] == "visit" and line["from"] is not None for line in lines)
    assert own["received_from"] == len({line["from"] for line in lines if line["kind"] == "visit"} - {None})
    assert own["handed_to"] == len({line["to"] for line in lines if line["kind"] == "sent"})
    status = {check["id"]: check["status"] for check in body["checks"]}
    assert status.pop("visits") == "PASS"
    assert set(status.values()) == {"UNKNOWN"}, "the rest is unknown, never a PASS"


def hinge(score, label):
    gap = 1 - score * label
    return 0.0 if gap < 0 else gap**2 / (2 * 0.5) if gap < 0.5 else gap - 0.25


@pytest.mark.parametrize(
    ("loss", "oracle", "graded"),
    [
        ('loss = "logistic"', lambda score, label: math.log1p(math.exp(-score * label)), True),
        ('loss = "smoothed_hinge"\nsmoothing = 0.5', hinge, True),
        ('loss = "ridge"\nlabel_bound = 1.0', lambda score, label: (score - label) ** 2 / 2, False),
    ],
)
def test_every_loss_is_followed_along_the_walk_of_a_run_that_holds_its_truth(call, tmp_path, loss, oracle, graded):
    """The truth.json of a demo is found beside the plan, and the last loss is that of the published model."""
    walk = write_run(tmp_path, plan_text(n=4, length=40, task=f"{SGD}\n{loss}", noise="sigma = 0.5"), 1)
    rows, labels = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]], [1, -1, 1]
    (tmp_path / "truth.json").write_text(json.dumps({"test_features": rows, "test_labels": labels}))
    body = json.loads(call("analyze", tmp_path, "--json").stdout)
    scores = [sum(a * b for a, b in zip([*row, 1.0], walk.final["payload"], strict=True)) / 2**0.5 for row in rows]
    wanted = sum(oracle(score, label) for score, label in zip(scores, labels, strict=True)) / 3
    step, found, accuracy = body["utility"]["learning"][-1]
    assert step == 40 and found == pytest.approx(wanted)
    assert (accuracy is not None) is graded
    assert f"loss {wanted:.4g} on the test set" in call("analyze", tmp_path).stdout


def test_users_that_were_skipped_do_not_make_the_result_wrong(call, tmp_path):
    """The ring's mean is that of who took part; how far that may be from everybody's mean is part of the bound."""
    text = plan_text("ring", 6, 40, task='kind = "mean"', noise="sigma = 0.05\ngrid = 0.0000152587890625")
    walk = write_run(tmp_path, text, 1, Faults(dead=frozenset({1, 4})))
    mean = sum(x for (x,) in walk.data) / 6
    for told, status in ((mean, "PASS"), (mean + 1.0, "FAIL")):
        (tmp_path / "truth.json").write_text(json.dumps({"mean": [told]}))
        body = json.loads(call("analyze", tmp_path, "--json").stdout)
        assert {check["id"]: check["status"] for check in body["checks"]}["truth"] == status
    assert abs(body["utility"]["estimate"][0] - mean) > 6 * body["utility"]["noise_std"], "noise alone is no excuse"


def test_the_printed_bound_is_for_programs_that_compare_not_for_people_who_decide(call, run):
    body = json.loads(call("analyze", run, "--json").stdout)
    assert body["privacy"]["printed_epsilon"] > body["privacy"]["worst_epsilon"]
    assert "printed" not in call("analyze", run).stdout


def test_a_test_set_shows_how_the_model_learned(call, tmp_path):
    """Accuracy of each logged model, recomputed from the raw lines at the last kept step."""
    walk = write_run(tmp_path, plan_text(n=4, length=40, task=SGD, noise="sigma = 0.5"), 1)
    rows, labels = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]], [1, 0, 1]
    (tmp_path / "truth.json").write_text(json.dumps({"test_features": rows, "test_labels": labels}))
    body = json.loads(call("analyze", tmp_path, "--json", "--truth", tmp_path / "truth.json").stdout)
    step, _, accuracy = body["utility"]["learning"][-1]
    model = walk.final["payload"]
    right = [
        (sum(a * b for a, b in zip([*row, 1.0], model, strict=True)) > 0) == (label > 0)
        for row, label in zip(rows, labels, strict=True)
    ]
    assert step == 40 and accuracy == pytest.approx(sum(right) / 3)
