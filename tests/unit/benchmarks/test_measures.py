"""What is measured is what is said: hops from times in logs, a loop that agrees with the library, private memory."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.bench import Bench
from benchmarks.hops import cold_hop_s, marks_of
from benchmarks.memory import available_gib, private_kib
from benchmarks.rows import Row
from benchmarks.theory import pair_by_loop
from benchmarks.town import Visit
from network_dp import exposure


def test_a_hop_to_oneself_is_no_hop_except_on_a_ring_where_there_is_none() -> None:
    holders = ["a", "b", "b", "b", "c", "a"]
    seen = [Visit(0, 0.0, "a", None)]
    seen += [Visit(step, float(step), user, sender) for step, (sender, user) in enumerate(pairwise(holders), start=1)]
    assert marks_of(seen, "complete")[-1][1] - marks_of(seen, "complete")[0][1] == 3
    assert marks_of(seen[::3], "ring") == [(0.0, 0), (3.0, 3)]


def test_a_cold_hop_is_neither_a_self_hop_nor_one_to_the_last_peer() -> None:
    holders = ["a", "b", "b", "a", "b", "c", "a", "c", *"abcabcabc"]
    lengths = {"cold": 1.0, "warm": 0.001, "self": 0.002}
    last: dict[str, str] = {}
    seen, now = [Visit(0, 0.0, "a", None)], 0.0
    for step, (sender, holder) in enumerate(pairwise(holders), start=1):
        kind = "self" if sender == holder else "warm" if last.get(sender) == holder else "cold"
        if sender != holder:
            last[sender] = holder
        now += lengths[kind]
        seen.append(Visit(step, now, holder, sender))
    assert cold_hop_s(seen) == pytest.approx(1.0)


def test_the_loop_over_steps_and_pairs_gives_the_librarys_exposure() -> None:
    walk = np.random.default_rng(3).integers(0, 6, 200)
    matrix = exposure.matrix(walk, 6, "sum")
    for u, v in [(0, 1), (2, 5), (4, 3)]:
        assert pair_by_loop(walk.tolist(), u, v) == pytest.approx(matrix[u, v])


def test_private_memory_sees_what_this_process_allocates() -> None:
    before = private_kib(os.getpid())
    block = bytearray(os.urandom(1 << 25))
    assert private_kib(os.getpid()) - before > 0.9 * len(block) / 1024
    assert available_gib() > 0.0


def test_the_command_prints_json_alone_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--quick", "--only", "noise", "--json"]) == 0
    printed = capsys.readouterr()
    assert {row["section"] for row in json.loads(printed.out)["rows"]} == {"noise"}
    assert "exact discrete Gaussian" in printed.err


def test_a_section_that_cannot_be_measured_is_a_row_and_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stumbles(bench: Bench) -> Iterator[Row]:
        yield Row("warm", "before", 2.0, "x")
        raise OSError("no such disk")

    def never_ends(bench: Bench) -> list[Row]:
        while True:
            time.sleep(0.01)

    broken = {"warm": stumbles, "cold": never_ends, "noise": lambda bench: [Row("noise", "quiet", 1.0, "x")]}
    monkeypatch.setattr(command, "SECTIONS", broken)
    monkeypatch.setattr(command, "SECTION_MAX_S", 0.2)
    assert command.main(["--only", "warm", "cold", "noise", "--json"]) == 3
    printed = capsys.readouterr()
    found = json.loads(printed.out)["rows"]
    rows = {row["section"]: row for row in found}
    assert [row["value"] for row in found if row["section"] == "warm"] == [2.0, None]
    assert rows["warm"]["value"] is None and "no such disk" in rows["warm"]["note"]
    assert rows["cold"]["value"] is None and "not done within 0 s" in rows["cold"]["note"]
    assert rows["noise"]["value"] == 1.0
    assert "NOT MEASURED" in printed.err and "warm, cold" in printed.err


def test_what_does_not_fit_into_the_minutes_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--quick", "--only", "noise", "--minutes", "0.1", "--json"]) == 3
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["value"] is None and "no time was left" in row["note"]


@pytest.mark.parametrize("words", [["--users", "2"], ["--users", "many"], ["--only", "everything"]])
def test_bad_arguments_are_one_sentence_and_exit_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(words)
    assert ended.value.code == 2
    assert "from 3 to 4000" in (said := capsys.readouterr().err) or "choose from" in said
