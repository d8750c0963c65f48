"""What is measured is what is said: hops from times in logs, a loop that agrees with the library, private memory."""

from __future__ import annotations

import json
import os
from itertools import pairwise

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.hops import cold_hop_s, ring_hops_per_s
from benchmarks.memory import available_gib, private_kib
from benchmarks.theory import pair_by_loop
from benchmarks.town import Visit
from network_dp import exposure


def test_the_rate_of_a_ring_leaves_out_its_start() -> None:
    slow = [Visit(1 + 5 * i, 100.0 * i, "user-0", None) for i in range(2)]
    fast = [Visit(11 + 5 * i, 200.0 + 0.01 * i, "user-0", "user-4") for i in range(8)]
    assert ring_hops_per_s(slow + fast) == pytest.approx(500.0)


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
