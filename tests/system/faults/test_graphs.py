"""Walks among peers, over real processes, with faults: the token keeps to the graph and nothing is lost."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from analyzer.analysis import analyze_runs
from analyzer.verdict import Status
from node.protocols import exits
from tests.system.faults.conftest import MakeTown
from tests.system.faults.evidence import Hop, check
from tests.system.harness import Harness

pytestmark = pytest.mark.process

CUBE = [sorted(i ^ (1 << bit) for bit in range(4)) for i in range(16)]
STAR = [[1, 2, 3, 4, 5], [0], [0], [0], [0], [0]]


def on_graph(make_town: MakeTown, peers: list[list[int]], steps: int, **more: Any) -> Harness:
    return make_town(len(peers), topology="graph", steps=steps, peers=peers, **more)


def check_on_graph(town: Harness, branch: list[Hop]) -> None:
    """PASS; every hop but the first, of the public token, is between peers."""
    analyses = analyze_runs([town.folder])
    lacking = [c for run in analyses.runs for c in run.checks if c.status is not Status.PASS]
    assert analyses.status is Status.PASS, lacking
    peers = {user.name: {user.name, *(user.peers or ())} for user in town.plan.users}
    for before, after in pairwise(branch[1:]):
        assert after.user in peers[before.user]


def test_a_hypercube_of_16_outlives_lost_holders_by_votes_that_peers_relay(make_town: MakeTown) -> None:
    town = on_graph(make_town, CUBE, 700)
    town.start_all()
    town.wait_step(60)
    town.freeze()
    lost = town.holders()  # whoever has the token, or is just getting it
    away = next(name for name in town.names if name not in lost)
    town.kill(*lost, away)
    town.thaw()
    town.start(away)
    town.wait_all(*(name for name in town.names if name not in lost))
    check_on_graph(town, check(town, everybody=False))
    assert town.reissues()


def test_a_leaf_whose_only_peer_is_down_waits_and_says_for_whom(make_town: MakeTown) -> None:
    town = on_graph(make_town, STAR, 600)
    for names in (town.names[1:], town.names[:1]):  # at a pace: to look at all logs must not outlast the walk
        town.start(*names, pace="150")
    town.wait_step(60)  # everybody has had the token, and asked what others remember of it
    town.freeze()
    while "user-0" in town.holders():
        town.thaw()
        town.wait_step(town.furthest() + 1)
        town.freeze()
    town.kill("user-0")
    town.thaw()
    # Thawed in the middle of a hand-over, it may not offer the token to anybody else, and only says who did not answer.
    said = ("waiting for one of this user's peers: user-0", "no answer from user-0")
    town.until("a leaf waits", lambda: any(text in town.log(name) for name in town.names for text in said))
    town.start("user-0")
    town.wait_all()
    check_on_graph(town, check(town))


def test_the_wait_of_a_stranded_leaf_ends_with_a_reason_and_the_walk_goes_on_from_its_disk(make_town: MakeTown) -> None:
    town = on_graph(make_town, STAR, 400, timing={"stall_timeout_s": 1.0, "lease_s": 60.0})
    reason = "waiting for one of this user's peers: user-0; keeping the token. Not answering: "
    end = "Start them, then start this user again."
    town.start_all()
    town.wait_step(60)
    for _ in range(10):  # until nobody was in the middle of a hand-over to it
        town.freeze()
        town.kill("user-0")
        town.thaw()
        town.pass_time(4.0)
        stopped = [name for name, code in town.codes.items() if code == exits.STALLED]
        if any(reason in town.log(name) and end in town.log(name) for name in stopped):
            break
        town.start("user-0", *stopped)
        town.wait_step(town.furthest() + 1)
    else:
        raise AssertionError(f"no leaf ended for that reason\n{town.describe()}")
    before = town.furthest()
    town.close()
    town.codes.clear()
    town.start_all()
    town.wait_all()
    branch = check(town)
    check_on_graph(town, branch)
    assert branch[-1].visit.step > before and not town.reissues()


def test_a_star_of_6_with_simple_weights_outlives_a_killed_leaf(make_town: MakeTown) -> None:
    town = on_graph(make_town, STAR, 600, weights="simple")
    town.start_all()
    town.wait_step(30)
    town.kill("user-3")
    town.wait_step(60)
    town.start("user-3")
    town.wait_all()
    check_on_graph(town, check(town))
