"""A verdict, bad input and a fault of the program itself never share an exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from analyzer import analysis
from analyzer.verdict import Status
from benchmarks.generated_logs import plan_text, write_run
from coordinator_free_launcher.cli import app as cli
from coordinator_free_launcher.cli import crash
from coordinator_free_launcher.engines import container_report

ROOT = Path(__file__).parents[4]
SECRET = "0.123456789"


def ends_with(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["network-dp", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def fails(*anything: object, **more: object) -> None:
    raise KeyError(SECRET)


def test_every_end_has_a_code_of_its_own() -> None:
    bad = {status.exit_code for status in Status if status.exit_code} | {2, crash.CRASHED}
    assert len(bad) == 5 and Status.PASS.exit_code == Status.PARTIAL.exit_code == 0


def test_a_crash_is_70_and_told_by_its_type_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(analysis, "analyze_runs", fails)
    assert ends_with(monkeypatch, "analyze", tmp_path) == 70
    said = capsys.readouterr().err
    assert "KeyError" in said and SECRET not in said and len(said.splitlines()) == 1


def test_a_crash_is_shown_in_full_to_who_asks(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(analysis, "analyze_runs", fails)
    monkeypatch.setenv("NETWORK_DP_DEBUG", "1")
    assert ends_with(monkeypatch, "analyze", tmp_path) == 70
    assert "Traceback" in capsys.readouterr().err


def test_bad_input_is_2(tmp_path, monkeypatch):
    assert ends_with(monkeypatch, "analyze", tmp_path / "nowhere") == 2
    assert ends_with(monkeypatch, "analyze") == 2


def test_a_report_that_cannot_be_written_is_2(tmp_path, monkeypatch, capsys):
    write_run(tmp_path / "run", plan_text(n=4, length=20), 1)
    assert ends_with(monkeypatch, "analyze", tmp_path / "run", "--html", tmp_path / "no" / "report.html") == 2
    assert "report.html: no such file or folder" in capsys.readouterr().err


def test_a_deep_view_line_is_2(tmp_path, monkeypatch, capsys):
    write_run(tmp_path, plan_text(n=4, length=20), 1)
    log = tmp_path / "users" / "user-1" / "state" / "view.jsonl"
    log.write_text(log.read_text() + "[" * 100_000 + "\n")
    assert ends_with(monkeypatch, "analyze", tmp_path) == 2
    assert "user-1/state/view.jsonl:" in capsys.readouterr().err


def test_the_last_container_keeps_to_the_same_codes(tmp_path):
    """Nothing handed over is bad input; what cannot be a path is a crash, and no verdict."""
    script = [sys.executable, "-m", container_report.__name__]
    (tmp_path / "plan.toml").write_text(plan_text())
    for words, code in (([tmp_path, tmp_path, tmp_path], 2), ([], 70)):
        done = subprocess.run([*script, *map(str, words)], capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == code, done.stderr
