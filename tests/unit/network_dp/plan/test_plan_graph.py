"""Peer lists of a plan: mutual, connected, in the hash; what is wrong is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from analyzer.checks.limits import path_limit
from coordinator_free_launcher.cli.app import app
from coordinator_free_launcher.identity.finalise import finalise
from network_dp import graph_walk
from network_dp.plan import Plan, PlanError
from network_dp.plan_reader import dump, from_dict, parse
from network_dp.promise import aim, promised_epsilon
from network_dp.topology import Graph
from tests.unit.network_dp.plan.plans import users


def values(peers: list[list[int]], **tables: Any) -> dict[str, Any]:
    people = users(len(peers))
    for user, others in zip(people, peers, strict=True):
        user["peers"] = [f"user-{other}" for other in others]
    return {
        "walk": {"topology": "graph", "steps": 20, **tables.pop("walk", {})},
        "task": {"kind": "mean"},
        "noise": {"sigma": 1.0},
        "users": people,
        **tables,
    }


PATH = [[1], [0, 2], [1, 3], [2]]


def plan(**tables: Any) -> Plan:
    return from_dict(values(PATH, **tables))


def test_a_plan_with_peers_reads_back_equal_with_its_lists() -> None:
    read = plan(walk={"weights": "simple"}, noise={"sigma": 1.0, "distance": 2})
    assert parse(dump(read)) == read and read.users[1].peers == ("user-0", "user-2")
    assert isinstance(read.topology, Graph) and read.topology.peers == ((1,), (0, 2), (1, 3), (2,))


def test_lists_weights_control_and_distance_are_in_the_hash_and_the_order_of_a_list_is_not() -> None:
    others = [
        from_dict(values([[1, 2], [0, 2], [0, 1, 3], [2]])),
        plan(walk={"weights": "simple"}),
        plan(noise={"sigma": 1.0, "distance": 2}),
    ]
    assert len({plan().hash, *(other.hash for other in others)}) == 4
    assert from_dict(values([[1], [2, 0], [1, 3], [2]])).hash == plan().hash


@pytest.mark.parametrize(
    "peers,sentence",
    [
        ([[1], [2], [1, 3], [2]], r"users\[1\]\.peers: user-1 does not name user-0, which names it"),
        ([[1], [0], [3], [2]], r"no way leads from user-0 to user-2, user-3"),
        ([[0, 1], [0], [3], [2]], r"users\[0\]\.peers: user-0 names itself"),
        ([[1, 1], [0], [3], [2]], r"users\[0\]\.peers = .*different texts"),
        ([[], [0], [3], [2]], r"users\[0\]\.peers = "),
        ([[9], [0], [3], [2]], r'users\[0\]\.peers: "user-9" is not a user'),
    ],
)
def test_what_is_wrong_with_a_graph_is_named(peers: list[list[int]], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        from_dict(values(peers))


@pytest.mark.parametrize(
    "changes,sentence",
    [
        ({"walk": {"topology": "complete", "steps": 20}}, r"users\[0\]\.peers: only a walk with topology"),
        ({"walk": {"topology": "graph", "rounds": 20}}, r"walk\.rounds: .* takes steps instead"),
        ({"walk": {"topology": "graph", "steps": 5, "weights": "even"}}, r"walk\.weights"),
        ({"noise": {"sigma": 1.0, "distance": 4}}, r"noise\.distance = 4: must be a whole number from 1 to 3"),
        ({"noise": {"sigma": 1.0, "reissues": 1}}, r"noise\.reissues = 1"),
        ({"task": {"kind": "histogram", "buckets": 3}, "noise": {"mechanism": "rr", "gamma": 0.5}}, "no accounting"),
    ],
)
def test_what_a_graph_cannot_hold_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        from_dict({**values(PATH), **changes})


def test_a_histogram_among_peers_is_gaussian_unless_it_says_otherwise() -> None:
    assert plan(task={"kind": "histogram", "buckets": 3}).noise.mechanism == "gaussian"


@pytest.mark.parametrize("kind", ["sum", "sgd"])
def test_the_promise_is_the_worst_pair_that_far_apart(kind: str) -> None:
    task = {"kind": kind, **({"features": 2, "step_size": 0.1} if kind == "sgd" else {})}
    for distance in (1, 2, 3):
        made = plan(task=task, noise={"sigma": 5.0, "distance": distance}, walk={"weights": "simple"})
        graph = made.topology
        assert isinstance(graph, Graph)
        law = (graph.transition(), graph.stationary())
        pairs = [
            graph_walk.prepare(made.task.accounting, *law, u, [v], 20, True).epsilon(5.0, made.sensitivity, aim(made))
            for u in range(4)
            for v in range(4)
            if graph.distances()[u, v] >= distance
        ]
        assert promised_epsilon(made) == pytest.approx(max(pairs), rel=1e-9)
        pooled = promised_epsilon(made, colluders=2)  # of the worst set: tests/paper/test_graph_sets.py
        # On a path nobody behind an observer sees more than it does.
        assert pooled > max(pairs) if distance == 1 else pooled == pytest.approx(max(pairs), rel=1e-9)


def test_calibration_meets_the_target_and_trusting_neighbours_costs_less_noise() -> None:
    far, near = (finalise(plan(noise={"epsilon": 1.0, "distance": distance})) for distance in (3, 1))
    assert near.noise.sigma is not None and far.noise.sigma is not None
    assert far.noise.sigma < 0.95 * near.noise.sigma
    for made in (far, near):
        assert 0.999 <= (promised_epsilon(made) or 0.0) <= 1.0
    limit = path_limit(near)
    assert limit is not None and limit > 1.0


def test_a_distance_beyond_the_graph_is_refused() -> None:
    with pytest.raises(PlanError, match=r"noise\.distance = 3: the longest way between two users is 2 hops"):
        from_dict(values([[1, 2, 3], [0], [0], [0]], noise={"sigma": 1.0, "distance": 3}))


def test_plan_new_writes_the_lists_of_a_graph_made_by_name_or_read_from_a_file(tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("ann,bob\nbob,cy\n")
    made = parse(CliRunner().invoke(app, ["plan", "new", "--graph", "hypercube", "--users", "8"]).stdout)
    read = parse(CliRunner().invoke(app, ["plan", "new", "--graph", str(edges)]).stdout)
    assert isinstance(made.topology, Graph) and made.topology.peers[5] == (1, 4, 7)
    assert [user.peers for user in read.users] == [("bob",), ("ann", "cy"), ("bob",)]
    refused = CliRunner().invoke(app, ["plan", "new", "--topology", "graph"])
    assert refused.exit_code == 2


def test_plan_check_says_between_whom_the_promise_holds(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(dump(plan(noise={"sigma": 5.0, "distance": 2})))
    said = CliRunner().invoke(app, ["plan", "check", str(file)]).stdout
    assert "2 hops apart or more" in " ".join(said.replace("│", " ").split())
