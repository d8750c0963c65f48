"""Rings take turns: who has none stands still, and rates are those of a ring's own turns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.bare_rings import bare_ring
from benchmarks.hops import Ours
from benchmarks.town import make_plan, make_run
from benchmarks.turns import Mark, NotMeasuredError, Ring, Turns, paired, rate_between, take_turns
from tests.unit.benchmarks.left_over import commands_in

COUNTER = "import time\nwhile True: print(time.time(), flush=True); time.sleep(0.001)"


def test_a_rate_is_that_between_two_moments() -> None:
    slow = [(float(second), 5 * second) for second in range(10)]
    fast = [(10.0 + 0.1 * i, 50 + 5 * i) for i in range(100)]
    assert rate_between([*slow, *fast], 0.5, 8.5) == pytest.approx(5.0)
    assert rate_between([*slow, *fast], 11.0, 19.0) == pytest.approx(50.0)
    assert rate_between(slow, 2.5, 3.5) is None


def test_a_ratio_is_taken_turn_by_turn() -> None:
    machine = [1.0, 0.5, 2.0, 1.3]  # its speed, turn by turn
    ours, rival = [900 * speed for speed in machine], [1000 * speed for speed in machine]
    ratio, error = paired(ours, rival)
    assert ratio == pytest.approx(0.9) and error == pytest.approx(0.0, abs=1e-12)
    ratio, error = paired([1.0, 4.0], [1.0, 1.0])
    assert ratio == pytest.approx(2.0) and error == pytest.approx(2.0 * 0.6931, rel=1e-3)


def test_one_runs_at_a_time(tmp_path: Path) -> None:
    said: dict[str, list[float]] = {}
    children: list[subprocess.Popen[bytes]] = []

    def ring(name: str) -> Ring:
        with (tmp_path / name).open("wb") as out:
            child = subprocess.Popen([sys.executable, "-c", COUNTER], stdout=out)

        children.append(child)

        def marks() -> list[Mark]:
            said[name] = [float(line) for line in (tmp_path / name).read_text().split("\n")[:-1]]
            return [(moment, hops) for hops, moment in enumerate(said[name])]

        return Ring(name, [child.pid], marks)

    rings = [ring(name) for name in "ab"]
    deadline = time.monotonic() + 30
    while not all((tmp_path / name).stat().st_size for name in "ab"):
        assert time.monotonic() < deadline, "they do not count"
        time.sleep(0.01)
    for each in rings:
        each.pause()
    begun = time.time()
    rates = take_turns(rings, Turns(3, 0.3, 0.05))
    for child in children:
        child.kill()
        child.wait(30)
    assert {name: len(found) for name, found in rates.items()} == {"a": 3, "b": 3}
    a, b = ({int((moment - begun) / 0.05) for moment in said[name] if begun <= moment < begun + 1.7} for name in "ab")
    assert len(a & b) <= 12, "both ran in the same twentieths of a second, beside those in which turns change"
    assert len(a) >= 9 and len(b) >= 9


def _slow(hop_s: float, begun: float) -> Ring:
    """A ring of nobody, in which the token comes round at whole multiples of a time."""
    return Ring("slow", [], lambda: [(begun + i * hop_s, i) for i in range(int((time.time() - begun) / hop_s) + 1)])


def test_a_turn_grows_until_the_token_has_come_round_twice_and_says_so() -> None:
    told: list[str] = []
    (rate,) = take_turns([_slow(0.3, time.time())], Turns(1, 0.1, 0.01, most_s=20.0), told.append)["slow"]
    assert rate == pytest.approx(1 / 0.3)
    assert told and all("slow" in text and "goes on to" in text for text in told)


def test_where_turns_grow_there_are_fewer_of_them_but_two_at_least() -> None:
    told: list[str] = []
    rates = take_turns([_slow(0.3, time.time())], Turns(9, 0.1, 0.01, most_s=20.0), told.append)["slow"]
    assert 2 <= len(rates) < 9
    assert told[-1] == f"turns grew, so there were {len(rates)} of 9"


def test_a_turn_that_would_grow_without_end_is_given_up_and_says_why() -> None:
    with pytest.raises(NotMeasuredError, match=r"slow did not come round twice in 0.2 s"):
        take_turns([_slow(1e6, time.time())], Turns(1, 0.1, 0.01, most_s=0.2))


@pytest.mark.process
def test_a_bare_ring_and_ours_take_turns(tmp_path: Path) -> None:
    keys = make_run(tmp_path / "keys", make_plan(3, topology="ring", rounds=1))
    with (
        bare_ring("bare", keys, 3, 100, "unary") as bare,
        Ours("ring", "process", 100, 60_000, 3).ring(tmp_path / "ours") as ours,
    ):
        rates = take_turns([bare, ours], Turns(2, 0.5, 0.1))
    assert all(rate > 0 for found in rates.values() for rate in found)


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_whoever_ends_a_benchmark_leaves_no_ring_stopped(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "warm"]
    there = {**os.environ, "TMPDIR": str(tmp_path)}
    bench = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=there)
    assert bench.stdout is not None
    for line in bench.stdout:
        if "turns of" in line:
            break
    assert len(commands_in(tmp_path)) > 20, "bare members and users of ours, most of them stopped"
    bench.send_signal(number)
    assert bench.wait(30) == 128 + number
    bench.stdout.close()
    deadline = time.monotonic() + 20
    while left := commands_in(tmp_path):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []
