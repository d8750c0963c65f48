"""``network-dp graph``: what it makes, what it says, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app
from network_dp import graph_walk
from network_dp.graphs.generators import adjacency, generate, read_edges
from network_dp.graphs.weights import metropolis, stationary


def ask(*arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(app, ["graph", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.output)
    return found


def test_a_graph_is_made_checked_drawn_and_written(tmp_path: Path) -> None:
    out, png, svg = tmp_path / "e.csv", tmp_path / "g.png", tmp_path / "g.svg"
    facts = ask("path", "--users", "5", "--steps", "30", "--out", str(out), "--draw", str(png), "--epsilon", "2")
    assert facts["users"] == 5 and facts["edges"] == 4 and facts["diameter"] == 4 and facts["degrees"] == [1, 2]
    assert read_edges(out).peers == generate("path", 5)
    assert png.read_bytes()[:4] == b"\x89PNG"
    peers = adjacency(generate("path", 5))
    p, pi = metropolis(peers), stationary(peers)
    matrix = facts["matrix"]
    assert isinstance(matrix, list)
    assert matrix[0][4] == pytest.approx(graph_walk.prepare("sum", p, pi, 0, [4], 30).epsilon(4.0, 1.0, 1e-6), rel=1e-9)
    worst = facts["worst"]
    assert isinstance(worst, dict) and worst["epsilon"] == max(map(max, matrix))
    again = ask("--edges", str(out), "--steps", "30", "--no-advise", "--draw", str(svg))
    assert again["matrix"] == matrix and svg.read_text().startswith("<?xml")


def test_the_edge_to_add_lowers_what_is_lost() -> None:
    for kind in ("path", "star"):
        facts = ask(kind, "--users", "6", "--steps", "40", "--task", "sgd")
        advice = facts["advice"]
        assert isinstance(advice, dict)
        assert (
            advice["after"]["epsilon"] <= advice["before"]["epsilon"] and advice["mean_after"] < advice["mean_before"]
        )
    assert ask("complete", "--users", "4", "--steps", "10")["advice"] is None  # there is no edge to add


def test_what_colluders_learn_together_is_that_of_the_set() -> None:
    facts = ask("path", "--users", "4", "--steps", "20", "--no-advise", "--colluders", "user-1,user-3")
    peers = adjacency(generate("path", 4))
    p, pi = metropolis(peers), stationary(peers)
    together = facts["colluders"]
    assert isinstance(together, dict) and {x["target"] for x in together["losses"]} == {"user-0", "user-2"}
    for line in together["losses"]:
        target = int(line["target"].removeprefix("user-"))
        alone = graph_walk.prepare("sum", p, pi, target, [1, 3], 20).epsilon(4.0, 1.0, 1e-6)
        matrix = facts["matrix"]
        assert isinstance(matrix, list)
        assert line["epsilon"] == alone > max(matrix[target][1], matrix[target][3])


def test_the_tables_say_whom_the_promise_is_for() -> None:
    arguments = ["graph", "grid", "--users", "6", "--steps", "20", "--distance", "2", "--epsilon", "1", "--no-advise"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    text = " ".join(result.output.split())
    assert "at least 2 hops apart (nearer ones are trusted)" in text and "Least sigma for epsilon = 1" in text


def test_of_many_users_the_worst_pair_is_bounded() -> None:
    arguments = ["graph", "star", "--users", "520", "--steps", "2600", "--task", "sgd"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "Worst pair: user-" in text and "loses epsilon" in text
    assert "only the worst pairs are bounded" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a kind of graph, or --edges FILE"),
        (("path", "--edges", "x.csv"), "give a kind of graph, or --edges FILE"),
        (("hypercube", "--users", "20"), "power of two"),
        (("tree",), "no generator is called"),
        (("path", "--weights", "other"), "metropolis or simple"),
        (("path", "--task", "mean"), "task"),
        (("star", "--distance", "3"), "no two users are 3 hops apart"),
        (("path", "--sigma", "nan"), "finite"),
        (("path", "--users", "4", "--steps", "5", "--no-advise", "--colluders", "eve"), "eve is no user"),
        (("star", "--users", "2600"), "at most 2500 users"),
        (
            ("path", "--users", "4", "--steps", "5", "--no-advise", "--draw", "/nowhere/x.png"),
            "cannot write the drawing",
        ),
    ],
)
def test_wrong_input_is_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(app, ["graph", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
