"""Graphs of peers: made by name from a seed, or read from a file; always plain lists, one per user (THEORY.md#graphs).

A graph that cannot carry a walk is refused: the message names the edge that is missing or the part that is cut off.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from network_dp.errors import UserError, require_whole
from network_dp.untrusted import FormatError, read_text, shortened

Peers = list[list[int]]
Bools = NDArray[np.bool_]

USERS_MAX: Final = 100_000
FILE_MAX: Final = 1 << 25  # bytes of a file of edges
_NAMED = 10  # users that an error names


class GraphError(UserError, ValueError):
    """A graph that no walk can use; the message names the edge, the user or the part that is wrong."""


@dataclass(frozen=True)
class Options:
    """What generators ask for. None: a value that fits the number of users."""

    degree: int = 4  # ring lattice, random regular, small world: peers of each user
    rows: int | None = None  # grid, torus: the columns follow; None: as square as it gets
    probability: float | None = None  # Erdos-Renyi: of each edge; None: 2 ln(n)/n, connected nearly always
    radius: float | None = None  # geometric: in the unit square; None: sqrt(3 ln(n)/(pi n))
    rewire: float = 0.1  # small world: share of edges that lead anywhere
    seed: int = 0


@dataclass(frozen=True)
class PeerGraph:
    """Users by name, and for each the sorted indices of its peers."""

    names: list[str]
    peers: Peers


def generate(kind: str, n_users: int, options: Options = Options()) -> Peers:  # frozen
    """The peers of every user, 0 .. n-1. The same kind, number, options and version of networkx: the same graph."""
    if kind not in GENERATORS:
        raise GraphError(f"no generator is called {shortened(kind)!r}: choose one of {', '.join(GENERATORS)}")
    require_whole("n_users", n_users, 3)
    _require(n_users <= USERS_MAX, f"a graph has at most {USERS_MAX:,} users, got {n_users:,}")
    require_whole("seed", options.seed)
    peers = as_lists(GENERATORS[kind](n_users, options))
    check(peers)
    return peers


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise GraphError(message)


def as_lists(graph: Any) -> Peers:
    """A networkx graph over 0 .. n-1 as lists."""
    return [sorted(graph[x]) for x in range(len(graph))]


def adjacency(peers: Sequence[Sequence[int]]) -> Bools:
    """The matrix of who is whose peer."""
    matrix = np.zeros((len(peers), len(peers)), dtype=np.bool_)
    for x, row in enumerate(peers):
        matrix[x, list(row)] = True
    return matrix


# --- by name


def _ring_lattice(n: int, options: Options) -> Any:
    return nx.watts_strogatz_graph(n, _even_degree(n, options), 0.0, seed=0)


def _even_degree(n: int, options: Options) -> int:
    fits = options.degree % 2 == 0 and 2 <= options.degree < n
    _require(fits, f"degree must be even, at least 2 and less than the {n} users, got {options.degree}")
    return options.degree


def _lattice(n: int, options: Options, least: int, torus: bool) -> Any:
    rows = options.rows
    if rows is None:
        sides = [k for k in range(least, math.isqrt(n) + 1) if n % k == 0 and n // k >= least]
        _require(bool(sides), f"{n} users fill no rectangle with sides of at least {least}: give another number")
        rows = sides[-1]
    fits = rows >= least and n % rows == 0 and n // rows >= least
    _require(fits, f"rows = {rows} do not divide {n} users into a rectangle with sides of at least {least}")
    # made in the order of rows and columns, which is the order of the new labels
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, n // rows, periodic=torus), ordering="sorted")


def _grid(n: int, options: Options) -> Any:
    return _lattice(n, options, 2, torus=False)


def _torus(n: int, options: Options) -> Any:
    return _lattice(n, options, 3, torus=True)


def _hypercube(n: int, options: Options) -> Any:
    dimension = n.bit_length() - 1
    near = f"{2**dimension} or {2 ** (dimension + 1)}"
    _require(n == 2**dimension, f"a hypercube has a power of two of users, got {n}: take {near}")
    return nx.convert_node_labels_to_integers(nx.hypercube_graph(dimension), ordering="sorted")


def _random_regular(n: int, options: Options) -> Any:
    fits = 2 <= options.degree < n and n * options.degree % 2 == 0
    _require(fits, f"degree must be between 2 and {n - 1}, and {n} times degree even, got {options.degree}")
    return nx.random_regular_graph(options.degree, n, seed=options.seed)


def _erdos_renyi(n: int, options: Options) -> Any:
    chance = min(2 * math.log(n) / n, 1.0) if options.probability is None else options.probability
    _require(0 < chance <= 1, f"probability must lie in (0, 1], got {chance}")
    return nx.gnp_random_graph(n, chance, seed=options.seed)


def _geometric(n: int, options: Options) -> Any:
    radius = math.sqrt(3 * math.log(n) / (math.pi * n)) if options.radius is None else options.radius
    _require(0 < radius <= 2, f"radius must lie in (0, 2], got {radius}")
    return nx.random_geometric_graph(n, radius, seed=options.seed)


def _small_world(n: int, options: Options) -> Any:
    _require(0 <= options.rewire <= 1, f"rewire must lie in [0, 1], got {options.rewire}")
    return nx.watts_strogatz_graph(n, _even_degree(n, options), options.rewire, seed=options.seed)


def _star(n: int, options: Options) -> Any:
    return nx.star_graph(n - 1)


def _path(n: int, options: Options) -> Any:
    return nx.path_graph(n)


def _complete(n: int, options: Options) -> Any:
    return nx.complete_graph(n)


#: As plans and the command line name them.
GENERATORS: Final[Mapping[str, Callable[[int, Options], Any]]] = {
    "ring-lattice": _ring_lattice,
    "grid": _grid,
    "torus": _torus,
    "hypercube": _hypercube,
    "random-regular": _random_regular,
    "erdos-renyi": _erdos_renyi,
    "geometric": _geometric,
    "small-world": _small_world,
    "star": _star,
    "path": _path,
    "complete": _complete,
}


# --- checks


def check(peers: Sequence[Sequence[int]], names: Sequence[str] | None = None) -> None:
    """GraphError unless peers are mutual, nobody is its own, and a way leads from everybody to everybody."""
    called = [str(x) for x in range(len(peers))] if names is None else names
    _require(len(peers) >= 2, f"a graph needs at least 2 users, got {len(peers)}")
    for x, row in enumerate(peers):
        for y in row:
            _require(0 <= y < len(peers), f"{called[x]} names peer {y}: users are 0 to {len(peers) - 1}")
            _require(y != x, f"{called[x]} is its own peer: take it out (the weights say how often a holder stays)")
    sets = [set(row) for row in peers]
    for x, row in enumerate(peers):
        _require(len(sets[x]) == len(row), f"{called[x]} names a peer twice")
        for y in row:
            _require(x in sets[y], f"edge {called[y]} - {called[x]} is missing: {called[x]} names {called[y]} as peer")
    away = cut_off(peers)
    if away:
        seen = ", ".join(called[x] for x in away[:_NAMED]) + (f" and {len(away) - _NAMED} more" * (len(away) > _NAMED))
        raise GraphError(
            f"the graph is not connected: {seen} cannot be reached from {called[_biggest(peers)[0]]}; add an edge "
            "between the parts (random graphs: another seed, or more edges)"
        )


def cut_off(peers: Sequence[Sequence[int]]) -> list[int]:
    """Users outside the largest connected part."""
    inside = set(_biggest(peers))
    return [x for x in range(len(peers)) if x not in inside]


def _biggest(peers: Sequence[Sequence[int]]) -> list[int]:
    best: list[int] = []
    left = set(range(len(peers)))
    while left:
        waiting = [min(left)]
        left.remove(waiting[0])
        part = []
        while waiting:
            part.append(waiting.pop())
            waiting += [y for y in peers[part[-1]] if y in left]
            left.difference_update(peers[part[-1]])
        best = max(best, sorted(part), key=len)
    return best


# --- from a file


def read_edges(path: Path, names: Sequence[str] | None = None) -> PeerGraph:
    """Edges from FILE.graphml, or from a CSV with one pair of names per line (a first line `user,peer` is a header).

    With `names` (of a plan) every user must be one of them and all must occur; without, users come in the order in
    which the file first names them.
    """
    try:
        text = read_text(path, FILE_MAX)
        pairs = _graphml(text) if path.suffix.lower() == ".graphml" else _csv(text)
    except FormatError as error:
        raise GraphError(f"{path}: {error}") from None
    try:
        return _from_pairs(pairs, names)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None


def _csv(text: str) -> list[tuple[str, str]]:
    pairs = []
    try:
        for number, row in enumerate(csv.reader(io.StringIO(text), strict=True), 1):
            cells = [cell.strip() for cell in row]
            if not any(cells) or (number == 1 and cells == ["user", "peer"]):
                continue
            if len(cells) != 2 or not all(cells):
                raise FormatError(f"line {number} must hold two names, user and peer, got {shortened(','.join(row))!r}")
            pairs.append((cells[0], cells[1]))
    except csv.Error as error:
        raise FormatError(f"not a CSV file: {error}") from None
    return pairs


def _graphml(text: str) -> list[tuple[str, str]]:
    """Edges of a GraphML text, named by the `name` or `label` of their users, else by their ids."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise FormatError("not a plain GraphML file: it declares a document type or entities")
    try:
        graph = nx.parse_graphml(text)
    except (nx.NetworkXError, SyntaxError, ValueError, KeyError, TypeError, AttributeError):
        raise FormatError("not a GraphML file that can be read") from None
    called = {node: str(facts.get("name") or facts.get("label") or node) for node, facts in graph.nodes(data=True)}
    if len(set(called.values())) < len(called):
        raise FormatError("two users have the same name")
    pairs = [(called[x], called[y]) for x, y in graph.edges()]
    if graph.is_directed():
        there = set(pairs)
        for x, y in pairs:
            _require(
                (y, x) in there, f"edge {y} - {x} is missing: the file is directed, and only {x} names {y} as peer"
            )
        pairs = [(x, y) for x, y in pairs if x <= y]
    alone = set(called.values()) - {name for pair in pairs for name in pair}
    _require(not alone, f"{', '.join(sorted(alone)[:_NAMED])}: no edge leads there")
    return pairs


def _from_pairs(pairs: list[tuple[str, str]], names: Sequence[str] | None) -> PeerGraph:
    called = list(names) if names is not None else list(dict.fromkeys(name for pair in pairs for name in pair))
    _require(len(called) <= USERS_MAX, f"a graph has at most {USERS_MAX:,} users, got {len(called):,}")
    place = {name: i for i, name in enumerate(called)}
    rows: list[set[int]] = [set() for _ in called]
    for x, y in pairs:
        for name in (x, y):
            _require(name in place, f"{shortened(name)!r} is no user of the plan")
        _require(x != y, f"edge {x} - {y}: nobody is its own peer")
        _require(place[y] not in rows[place[x]], f"edge {x} - {y} is there twice: write every edge once")
        rows[place[x]].add(place[y])
        rows[place[y]].add(place[x])
    peers = [sorted(row) for row in rows]
    check(peers, called)
    return PeerGraph(called, peers)
