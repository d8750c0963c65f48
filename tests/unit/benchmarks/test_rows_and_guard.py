"""The table's numbers, and the guard that compares them with a committed run."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks import guard, report
from benchmarks.rows import EXPONENT, Row, Target, growth

FAST = Row("warm", "ours", 120.0, "hops/s", 1.2, "bare", Target(1.0, "high"))
SHORT = Row("cold", "ours", 3.0, "ms", 1.5, "bare", Target(1.6, "low"), better="low")
SLOPE = Row("bounds", "bound, growth", 1.0, EXPONENT, better="low")
ROWS = [FAST, SHORT, SLOPE]
BASELINE = {FAST.key: 1.2, SHORT.key: 1.5, SLOPE.key: 1.0}


def test_growth_finds_the_exponent_of_a_power_law() -> None:
    sizes = [10.0, 100.0, 1000.0]
    assert growth("s", "w", sizes, [3.0 * size**1.7 for size in sizes]).value == pytest.approx(1.7)


@pytest.mark.parametrize(
    ("row", "ok"),
    [
        (FAST, True),
        (replace(FAST, ratio=0.99), False),
        (SHORT, True),
        (replace(SHORT, ratio=1.61), False),
        (SLOPE, None),
        (Row("memory", "users", 9.0, "MiB", target=Target(8.0, "low", "value")), False),
    ],
)
def test_a_target_is_met_on_its_own_side(row: Row, ok: bool | None) -> None:
    assert row.ok is ok


def test_a_run_like_the_baseline_gives_no_warning() -> None:
    assert guard.compare(ROWS, BASELINE) == []


@pytest.mark.parametrize("worse", [replace(FAST, ratio=0.8), replace(SHORT, ratio=2.0), replace(SLOPE, value=1.5)])
def test_a_row_that_became_worse_is_named(worse: Row) -> None:
    (warning,) = guard.compare([worse], BASELINE)
    assert worse.key in warning


@pytest.mark.parametrize("better", [replace(FAST, ratio=3.0), replace(SHORT, ratio=0.5), replace(SLOPE, value=0.1)])
def test_a_row_that_became_better_is_fine(better: Row) -> None:
    assert guard.compare([better], BASELINE) == []


def test_absolute_numbers_are_not_compared() -> None:
    assert guard.compare([replace(FAST, ratio=None)], {replace(FAST, ratio=None).key: 1e9}) == []


def test_a_baseline_is_read_back_and_keeps_rows_of_other_sections(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    guard.write([FAST, SLOPE], {"cores": 2}, path)
    guard.write([SHORT], {"cores": 2}, path)
    assert guard.read(path) == BASELINE
    assert guard.read(tmp_path / "none.json") == {}


def test_the_committed_baseline_can_be_read() -> None:
    assert all(np.isfinite(value) for value in guard.read().values())


def test_the_report_shows_every_row_and_is_json() -> None:
    console = Console(width=150, file=StringIO())
    with console.capture() as captured:
        console.print(report.table(ROWS))
    text = captured.get()
    assert all(row.what in text for row in ROWS)
    values = json.loads(json.dumps(report.as_dict(ROWS, report.machine(), 1.0, ["slower"], "OK")))
    assert [row["ok"] for row in values["rows"]] == [True, True, None]


@pytest.mark.parametrize(
    ("rows", "judged", "code", "word"),
    [
        (ROWS, True, 0, "OK: 3 rows in 5 s; 2 of 2 targets met"),
        ([replace(FAST, ratio=0.1), SLOPE], True, 1, "missed: ours"),
        ([replace(FAST, ratio=0.1), SLOPE], False, 0, "mean nothing"),
        ([replace(FAST, ratio=0.1), Row.missing("cold", "why")], True, 3, "not measured: cold"),
    ],
)
def test_code_and_last_line_tell_how_it_went(rows: list[Row], judged: bool, code: int, word: str) -> None:
    found, text = report.verdict(rows, [], 5.0, judged=judged)
    assert found == code and word in text


def test_a_row_that_was_not_measured_is_shown_with_its_reason_and_kept_out_of_the_baseline(tmp_path: Path) -> None:
    row = Row.missing("large", "the disk [red] is full")
    console = Console(width=150, file=StringIO())
    with console.capture() as captured:
        console.print(report.table([row]))
    assert "not measured: the disk [red] is full" in captured.get()
    guard.write([row], {}, tmp_path / "baseline.json")
    assert guard.read(tmp_path / "baseline.json") == {}
