"""Bare rings and rings of our own, as processes: they go round, and end without noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bare_rings import ring_rate
from benchmarks.hops import cold_hop_s, our_rate
from benchmarks.town import make_plan, make_run, visits, walk

pytestmark = pytest.mark.process


@pytest.mark.parametrize("kind", ["unary", "synced", "stream", "kept", "cold", "tls"])
def test_a_bare_ring_goes_round_and_ends_quietly(tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    keys = make_run(tmp_path / "keys", make_plan(3, topology="ring", rounds=1))
    assert ring_rate(keys, 3, size=700_000, hops=12, kind=kind) > 0
    assert capfd.readouterr().err == ""


def test_a_long_token_goes_round_with_and_without_its_noise(tmp_path: Path) -> None:
    for noise in (True, False):
        rate = our_rate(tmp_path / str(noise), 3, dimension=200_000, durability="process", noise=noise, n=3)
        assert rate > 0


def test_a_walk_with_one_connection_kept_a_user_ends(tmp_path: Path) -> None:
    run = make_run(tmp_path / "one", make_plan(6, topology="complete", steps=40, durability="process"))
    walk(run, warm_channels="1")
    seen = visits(run)
    assert [visit.step for visit in seen] == list(range(41))
    assert cold_hop_s(seen) > 0
