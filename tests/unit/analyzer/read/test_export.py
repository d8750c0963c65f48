"""An exported log carries the chain and nothing that depends on data, noise or the clock."""

from __future__ import annotations

import gzip
import hashlib
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from analyzer.analysis import analyze_runs
from analyzer.read.export import export
from analyzer.report.page import page
from analyzer.verdict import Status, left_out
from benchmarks.generated_logs import plan_text, write_run
from coordinator_free_launcher.cli.app import app
from tests.unit.analyzer import tamper


@pytest.fixture
def shown(tmp_path):
    """A run, and the same run as its users would hand it over."""
    write_run(tmp_path / "run", plan_text(n=4, length=60), 1)
    (tmp_path / "shown").mkdir()
    for user in range(4):
        export(tamper.log_of(tmp_path / "run", f"user-{user}"), tmp_path / "shown" / f"user-{user}.jsonl")
    return tmp_path


def numbers_in(value):
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers_in(item)]
    if isinstance(value, list):
        return [number for item in value for number in numbers_in(item)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def test_no_value_time_or_key_survives(shown):
    allowed = {
        "epoch",
        "step",
        "visit",
        "from",
        "to",
        "tag",
        "cause",
        "base",
        "by",
        "real",
        "units",
        "contributions",
        "kind",
        "schema",
        "run",
        "plan",
        "user",
        "values",
        "insecure",
    }
    for path in sorted((shown / "shown").iterdir()):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert set().union(*(line.keys() for line in lines)) <= allowed
        assert max(numbers_in(lines)) <= 60, "no number larger than a step: tokens and times are far larger"


def test_starts_are_left_out(shown):
    """When a process was started, and how often, is nobody else's business."""
    assert any(line["kind"] == "start" for line in tamper.read(shown / "run", "user-1"))
    assert '"start"' not in (shown / "shown" / "user-1.jsonl").read_text().replace('"cause":"start"', "")


def test_a_tag_cannot_be_tested_against_a_guess(shown):
    """Nothing exported links a tag to its token: equal exports come from any values under other keys."""
    lines = tamper.read(shown / "run", "user-1")
    tokens = [line["sent"] for line in lines if line["kind"] == "sent"]
    text = (shown / "shown" / "user-1.jsonl").read_text()
    for token in tokens:
        for form in (json.dumps(token), json.dumps(token[0]), repr(token)):
            assert hashlib.sha256(form.encode()).hexdigest() not in text
    changed = [dict(line, sent=[1]) if line["kind"] == "sent" else line for line in lines]
    tamper.rewrite(shown / "run", "user-1", changed)
    export(tamper.log_of(shown / "run", "user-1"), shown / "again.jsonl")
    assert (shown / "again.jsonl").read_text() == text


def test_exported_logs_give_the_same_exposure_and_say_what_they_do_not_show(shown):
    (full,) = analyze_runs([shown / "run"]).runs
    (bare,) = analyze_runs([shown / "shown"], plan=shown / "run" / "plan.toml").runs
    np.testing.assert_array_equal(full.privacy.exposure, bare.privacy.exposure)
    status = {check.id: check.status for check in bare.checks}
    assert status["links"] is status["steps"] is status["exposure"] is Status.PASS
    withheld = {name for name, found in status.items() if found is Status.PARTIAL}
    assert withheld == {"logs", "conservation", "bounds", "noise", "fresh", "result"}
    assert bare.status is Status.PARTIAL and bare.status.exit_code == 0
    assert "The noise looks as the plan says" in left_out(bare.checks)


def test_exported_logs_of_which_one_is_missing_are_unknown(shown):
    (shown / "shown" / "user-2.jsonl").unlink()
    assert analyze_runs([shown / "shown"], plan=shown / "run" / "plan.toml").status is Status.UNKNOWN


def test_a_broken_chain_shows_in_exported_logs_too(shown):
    path = shown / "shown" / "user-2.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for i, line in enumerate(lines) if i != 4) + "\n")
    assert analyze_runs([shown / "shown"], plan=shown / "run" / "plan.toml").status is Status.FAIL


def test_a_compressed_export_says_nothing_about_the_clock(shown):
    export(tamper.log_of(shown / "run", "user-1"), shown / "a.jsonl.gz")
    packed = (shown / "a.jsonl.gz").read_bytes()
    assert packed[4:8] == b"\0\0\0\0"
    assert gzip.decompress(packed).decode() == (shown / "shown" / "user-1.jsonl").read_text()


def test_the_log_itself_is_never_written_to(shown):
    """Not under its own name, a link's, or with leave to replace."""
    log = tamper.log_of(shown / "run", "user-1")
    before = log.read_bytes()
    (shown / "soft").symlink_to(log)
    (shown / "hard").hardlink_to(log)
    for target in (log, shown / "soft", shown / "hard", log.parent / ".." / log.parent.name / log.name):
        for more in ([], ["--replace"]):
            result = CliRunner().invoke(app, ["export", str(log), "--out", str(target), *more])
            assert result.exit_code == 2
            assert log.read_bytes() == before
    result = CliRunner().invoke(app, ["export", str(shown / "soft"), "--out", str(log), "--replace"])
    assert result.exit_code == 2 and "is the log itself" in result.output and log.read_bytes() == before


def test_another_file_is_replaced_only_when_told(shown):
    log, letter, nowhere = tamper.log_of(shown / "run", "user-1"), shown / "letter", shown / "no" / "folder"
    letter.write_text("dear")
    (shown / "dangling").symlink_to(shown / "elsewhere")
    for target, problem in ((letter, "--replace"), (shown / "dangling", "--replace"), (nowhere, "cannot be written")):
        result = CliRunner().invoke(app, ["export", str(log), "--out", str(target)])
        assert result.exit_code == 2 and problem in result.output
    assert letter.read_text() == "dear" and not (shown / "elsewhere").exists()
    assert CliRunner().invoke(app, ["export", str(log), "--out", str(letter), "--replace"]).exit_code == 0
    assert letter.read_text() == (shown / "shown" / "user-1.jsonl").read_text()


def test_how_much_a_user_clipped_is_on_its_own_card_and_in_no_exported_log(shown):
    log = tamper.log_of(shown / "run", "user-1")
    header, rest = log.read_text().split("\n", 1)
    log.write_text(header + '\n{"kind":"clipped","count":4711}\n' + rest)
    (analysis,) = analyze_runs([shown / "run"]).runs
    assert [card.clipped for card in analysis.cards()] == [0, 4711, 0, 0]
    assert "4711 values of its data lay outside the public bounds" in page(analysis)
    export(log, shown / "again.jsonl")
    assert "4711" not in (shown / "again.jsonl").read_text()
