"""Graphs of peers by name and from files (THEORY.md#graphs): what they are, and what is said of those that are none."""

import networkx as nx
import pytest

from network_dp.errors import AccountingError
from network_dp.graphs import generators as graphs
from network_dp.graphs.generators import GENERATORS, GraphError, Options, generate


def as_graph(peers):
    return nx.Graph([(x, y) for x, row in enumerate(peers) for y in row])


@pytest.mark.parametrize("kind", GENERATORS)
def test_every_generator_gives_mutual_connected_lists_from_a_seed(kind):
    options = Options(seed=3)
    peers = generate(kind, 64, options)
    assert peers == generate(kind, 64, options) and all(row == sorted(set(row)) for row in peers)
    assert all(x in peers[y] and x != y for x, row in enumerate(peers) for y in row)
    assert nx.is_connected(as_graph(peers)) and all(type(y) is int for row in peers for y in row)


@pytest.mark.parametrize("kind", ["random-regular", "erdos-renyi", "geometric", "small-world"])
def test_another_seed_gives_another_graph(kind):
    assert generate(kind, 64, Options(seed=1)) != generate(kind, 64, Options(seed=2))


def test_shapes():
    assert generate("path", 4) == [[1], [0, 2], [1, 3], [2]]
    assert generate("star", 4) == [[1, 2, 3], [0], [0], [0]]
    assert generate("ring-lattice", 5, Options(degree=2)) == [[1, 4], [0, 2], [1, 3], [2, 4], [0, 3]]
    assert generate("grid", 6) == [[1, 3], [0, 2, 4], [1, 5], [0, 4], [1, 3, 5], [2, 4]]
    assert {len(row) for row in generate("torus", 12)} == {4}
    assert all(x ^ y in (1, 2, 4, 8) for x, row in enumerate(generate("hypercube", 16)) for y in row)
    assert {len(row) for row in generate("random-regular", 20, Options(degree=3))} == {3}
    assert nx.is_isomorphic(as_graph(generate("grid", 12, Options(rows=2))), nx.grid_2d_graph(2, 6))


@pytest.mark.parametrize(
    ("kind", "n", "options", "message"),
    [
        ("tree", 5, {}, "no generator is called 'tree': choose one of ring-lattice, grid"),
        ("hypercube", 20, {}, "power of two of users, got 20: take 16 or 32"),
        ("grid", 7, {}, "7 users fill no rectangle"),
        ("grid", 12, {"rows": 5}, "rows = 5 do not divide 12"),
        ("torus", 8, {}, "sides of at least 3"),
        ("ring-lattice", 9, {"degree": 3}, "degree must be even"),
        ("random-regular", 7, {"degree": 3}, "7 times degree even"),
        ("erdos-renyi", 9, {"probability": 0.0}, "probability"),
        ("geometric", 9, {"radius": 0.0}, "radius"),
        ("small-world", 9, {"rewire": 2.0}, "rewire"),
        ("erdos-renyi", 40, {"probability": 0.05, "seed": 1}, "not connected: .* cannot be reached from"),
        ("path", 200_000, {}, "at most 100,000"),
    ],
)
def test_graphs_that_cannot_be_made(kind, n, options, message):
    with pytest.raises(GraphError, match=message):
        generate(kind, n, Options(**options))


def test_counts_are_whole():
    with pytest.raises(AccountingError, match="at least 3"):
        generate("path", 2)


@pytest.mark.parametrize(
    ("peers", "message"),
    [
        ([[1], []], "edge bo - ann is missing: ann names bo"),
        ([[0, 1], [0]], "ann is its own peer"),
        ([[5], [0]], "ann names peer 5"),
        ([[1, 1], [0]], "ann names a peer twice"),
        ([[1], [0], [3], [2], []], "cy, di, ed cannot be reached from ann"),
        (
            [[1]] + [[0]] + [[2 + (i + 1) % 12, 2 + (i - 1) % 12] for i in range(12)],
            "ann, bo cannot be reached from cy",
        ),
    ],
)
def test_errors_name_the_edge_or_the_part_that_is_cut_off(peers, message):
    names = ["ann", "bo", "cy", "di", "ed", *(f"u{i}" for i in range(20))]
    with pytest.raises(GraphError, match=message):
        graphs.check(peers, names)


def test_edges_from_csv_and_graphml_are_the_same_graph(tmp_path):
    table, drawn = tmp_path / "e.csv", tmp_path / "e.graphml"
    table.write_text("user,peer\nann,bo\nbo, cy\n\ncy,ann\ncy,di\n")
    nx.write_graphml(nx.Graph([("ann", "bo"), ("bo", "cy"), ("cy", "ann"), ("cy", "di")]), drawn)
    read = graphs.read_edges(table)
    assert read.names == ["ann", "bo", "cy", "di"] and read.peers == [[1, 2], [0, 2], [0, 1, 3], [2]]
    assert graphs.read_edges(drawn, read.names) == read
    mutual = nx.DiGraph([("ann", "bo"), ("bo", "ann")])
    nx.write_graphml(mutual, drawn)
    assert graphs.read_edges(drawn).peers == [[1], [0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\nb,c,d\n", "e.csv: line 2 must hold two names"),
        ("a,b\nb\n", "line 2"),
        ("a,b\nb,a\n", "edge b - a is there twice"),
        ("a,a\n", "edge a - a: nobody is its own peer"),
        ("a,b\nc,d\n", "c, d cannot be reached from a"),
        ('a,"b\n', "not a CSV"),
        ("", "at least 2 users"),
        ("\udcff", "UTF-8"),
    ],
)
def test_a_csv_that_is_no_graph(tmp_path, text, message):
    file = tmp_path / "e.csv"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(GraphError, match=message):
        graphs.read_edges(file)


def test_names_of_a_plan_are_all_and_only_those_allowed(tmp_path):
    file = tmp_path / "e.csv"
    file.write_text("a,b\nb,c\n")
    with pytest.raises(GraphError, match="'c' is no user"):
        graphs.read_edges(file, ["a", "b"])
    with pytest.raises(GraphError, match="d cannot be reached"):
        graphs.read_edges(file, ["a", "b", "c", "d"])


def test_a_graphml_that_is_no_graph(tmp_path):
    file = tmp_path / "e.graphml"
    nx.write_graphml(nx.DiGraph([("a", "b"), ("b", "a"), ("b", "c")]), file)
    with pytest.raises(GraphError, match="edge c - b is missing: the file is directed"):
        graphs.read_edges(file)
    alone = nx.Graph([("a", "b")])
    alone.add_node("z")
    nx.write_graphml(alone, file)
    with pytest.raises(GraphError, match="z: no edge leads there"):
        graphs.read_edges(file)
    for text in ("<graphml", "<a/>", '<!DOCTYPE x [<!ENTITY a "b">]><graphml/>', "not xml"):
        file.write_text(text)
        with pytest.raises(GraphError, match="GraphML"):
            graphs.read_edges(file)
