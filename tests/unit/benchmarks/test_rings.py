"""Bare rings and rings of our own, as processes: they go round, and end without noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bare_rings import ring_rate
from benchmarks.bench import Bench
from benchmarks.crowd import crowd
from benchmarks.hops import Ours, cold_hop_s
from benchmarks.town import make_plan, make_run, visits, walk
from benchmarks.turns import Turns, take_turns
from tests.unit.benchmarks.left_over import commands_in

pytestmark = pytest.mark.process


@pytest.mark.parametrize("kind", ["unary", "synced", "stream", "kept", "cold", "tls"])
def test_a_bare_ring_goes_round_and_ends_quietly(tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    keys = make_run(tmp_path / "keys", make_plan(3, topology="ring", rounds=1))
    assert ring_rate(keys, 3, size=700_000, hops=12, kind=kind) > 0
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("topology", ["ring", "complete"])
def test_a_long_token_walks_with_its_noise(tmp_path: Path, topology: str) -> None:
    ours = Ours(topology, "process", size=1_600_000, hops=100_000, n=3)
    with ours.ring(tmp_path / "ours") as ring:
        (rate,) = take_turns([ring], Turns(1, 0.5, 0.1))[ours.name]
    assert rate > 0


def test_a_bare_walk_of_a_crowd_and_ours_are_measured_and_leave_nobody(tmp_path: Path) -> None:
    rows = crowd(Bench(tmp_path, quick=True, say=lambda text: None))
    assert [row.unit for row in rows] == ["s", "hops/s", "s", "hops/s", "MiB/user"]
    assert all(row.value is not None and row.value > 0 for row in rows)
    assert commands_in(tmp_path) == []


def test_a_walk_with_one_connection_kept_a_user_ends(tmp_path: Path) -> None:
    run = make_run(tmp_path / "one", make_plan(6, topology="complete", steps=40, durability="process"))
    walk(run, warm_channels="1")
    seen = visits(run)
    assert [visit.step for visit in seen] == list(range(41))
    assert cold_hop_s(seen) > 0
