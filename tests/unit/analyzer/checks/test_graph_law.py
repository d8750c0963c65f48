"""Walks among peers are judged by their own law: honest ones pass, a preference or a hop beside the graph does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analyzer.analysis import analyze_runs
from analyzer.report.page import page
from analyzer.verdict import Check, Status
from benchmarks.generated_logs import Faults, plan_text, write_run
from network_dp.graphs.promise import promised_matrix
from network_dp.plan_reader import parse
from network_dp.topology import Graph

PEERS = [[1, 2, 3, 4], [0, 2], [0, 1, 3], [0, 2], [0]]


def graph_text(length: int = 600, weights: str = "metropolis") -> str:
    text = plan_text(n=5, length=length).replace('topology = "complete"', f'topology = "graph"\nweights = "{weights}"')
    for user, peers in enumerate(PEERS):
        names = ", ".join(f'"user-{peer}"' for peer in peers)
        text = text.replace(f'127.0.0.1:{5000 + user}"', f'127.0.0.1:{5000 + user}"\npeers = [{names}]')
    return text


def by_weights(weights: str = "metropolis"):
    graph = parse(graph_text(weights=weights)).topology
    assert isinstance(graph, Graph)
    matrix = graph.transition()
    return lambda rng, holder, n: int(rng.choice(n, p=matrix[holder]))


def checks(folder: Path) -> dict[str, Check]:
    (analysis,) = analyze_runs([folder]).runs
    return {check.id: check for check in analysis.checks}


@pytest.mark.slow
def test_an_honest_walk_among_peers_passes_every_check(tmp_path: Path) -> None:
    write_run(tmp_path, graph_text(), 1, Faults(choose=by_weights()))
    found = checks(tmp_path)
    assert {check.status for check in found.values()} == {Status.PASS}
    assert "weights" in found["uniform"].title and "peer to peer" in found["order"].title


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 20])
def test_honest_walks_raise_no_alarm(tmp_path: Path, start: int) -> None:
    for seed in range(start, start + 20):
        write_run(tmp_path / str(seed), graph_text(150), seed, Faults(choose=by_weights()))
        found = checks(tmp_path / str(seed))
        assert found["uniform"].status is Status.PASS and found["exposure"].status is Status.PASS


def _uniform_over_peers(rng: np.random.Generator, holder: int, n: int) -> int:
    return int(rng.choice([holder, *PEERS[holder]]))


def _prefers(rng: np.random.Generator, holder: int, n: int) -> int:
    return 2 if holder == 1 else by_weights()(rng, holder, n)


@pytest.mark.slow
@pytest.mark.parametrize("choose", [_uniform_over_peers, _prefers, by_weights("simple")], ids=["even", "2", "simple"])
def test_draws_that_do_not_follow_the_weights_fail(tmp_path: Path, choose) -> None:
    write_run(tmp_path, graph_text(900), 1, Faults(choose=choose))
    assert checks(tmp_path)["uniform"].status is Status.FAIL


def test_one_hop_beside_the_graph_fails_both_checks_and_is_named(tmp_path: Path) -> None:
    honest, hops = by_weights(), iter(range(10_000))

    def strays_once(rng: np.random.Generator, holder: int, n: int) -> int:
        return 1 if holder == 4 and next(hops) == 20 else honest(rng, holder, n)

    write_run(tmp_path, graph_text(900), 1, Faults(choose=strays_once))
    found = checks(tmp_path)
    assert found["order"].status is found["uniform"].status is Status.FAIL
    (evidence,) = found["order"].evidence
    assert evidence.user == "user-4" and "user-1, which is not its peer" in evidence.text


def test_the_report_draws_the_graph_and_epsilon_against_distance(tmp_path: Path) -> None:
    write_run(tmp_path, graph_text(), 1, Faults(choose=by_weights()))
    (analysis,) = analyze_runs([tmp_path]).runs
    drawn = page(analysis)
    for user in range(5):  # of the most exposed, and of each other on demand
        for when in ("on the path that was walked", "as promised before the run"):
            assert f"What users saw of user-{user} {when}: user-" in drawn
    assert drawn.count('id="edges-between-peers"') == 1 and drawn.count('<use href="#edges-between-peers"/>') == 9
    assert "Epsilon against distance" in drawn and "promised before the run, worst pair" in drawn
    assert "for the worst pair of users anywhere in the graph" in drawn


def test_what_was_promised_covers_what_neighbours_and_others_saw_on_average(tmp_path: Path) -> None:
    """The promise is an average over paths: so is what users saw over many of them."""
    plan = parse(graph_text(60))
    before = promised_matrix(plan)
    assert before is not None and (before[~np.eye(5, dtype=bool)] > 0).all()
    found = []
    for seed in range(12):
        write_run(tmp_path / str(seed), graph_text(60), seed, Faults(choose=by_weights()))
        (analysis,) = analyze_runs([tmp_path / str(seed)]).runs
        found.append(analysis.privacy.epsilon)
    assert (np.mean(found, axis=0) <= before).all()
