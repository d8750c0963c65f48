"""``network-dp graph``: make, check and draw a graph of peers, and say who is exposed to whom before any run."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from coordinator_free_launcher.cli.drawing import drawing
from coordinator_free_launcher.cli.options import finite, refuse_idle
from coordinator_free_launcher.cli.say import bar
from network_dp.errors import require

if TYPE_CHECKING:
    from network_dp.graphs.advice import Advice, Question
    from network_dp.graphs.bounds import Bounds
    from network_dp.graphs.generators import Options, PeerGraph
    from network_dp.graphs.pairs import Promise

SHOWN = 5  # most exposed users
NAMED = 40  # users up to which a drawing names them

KindArgument = Annotated[
    str | None,
    typer.Argument(
        help="ring-lattice, grid, torus, hypercube, random-regular, erdos-renyi, geometric, small-world, star, "
        "path or complete; leave it out with --edges."
    ),
]
EpsilonOption = Annotated[
    float | None, typer.Option(callback=finite, help="Also: the least sigma with which no pair loses more.")
]
DistanceOption = Annotated[
    int, typer.Option(min=1, help="Worst pair and --epsilon: of users so many hops apart; nearer are trusted.")
]


DegreeOption = Annotated[
    int | None, typer.Option(min=1, help="Peers per user: ring lattice, random regular, small world (4).")
]
ProbabilityOption = Annotated[float | None, typer.Option(callback=finite, help="Erdos-Renyi: probability of an edge.")]
RadiusOption = Annotated[
    float | None, typer.Option(callback=finite, help="Geometric: who is nearer in the unit square is a peer.")
]
RewireOption = Annotated[
    float | None, typer.Option(callback=finite, help="Small world: share of edges that lead anywhere (0.1).")
]

#: Which kinds of graph an option shapes.
_SHAPED_BY: Final = {
    "degree": ("ring-lattice", "random-regular", "small-world"),
    "rows": ("grid", "torus"),
    "probability": ("erdos-renyi",),
    "radius": ("geometric",),
    "rewire": ("small-world",),
}


def graph(
    kind: KindArgument = None,
    users: Annotated[int, typer.Option(min=3, max=100_000, help="Users.")] = 16,
    edges: Annotated[Path | None, typer.Option(help="Read the graph: CSV with two names per line, or GraphML.")] = None,
    degree: DegreeOption = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Grid and torus: rows (default: as square as it gets).")
    ] = None,
    probability: ProbabilityOption = None,
    radius: RadiusOption = None,
    rewire: RewireOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random graphs.")] = 0,
    weights: Annotated[
        str, typer.Option(help="metropolis (all are visited alike) or simple (by degree).")
    ] = "metropolis",
    task: Annotated[str, typer.Option(help="sum or sgd.")] = "sum",
    steps: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Steps of the walk; default 20 per user.")
    ] = None,
    sigma: Annotated[float, typer.Option(callback=finite, help="Standard deviation of one noise.")] = 4.0,
    sensitivity: Annotated[float, typer.Option(callback=finite, help="How far one contribution can move.")] = 1.0,
    delta: Annotated[float, typer.Option(callback=finite, help="delta of (epsilon, delta)-DP.")] = 1e-6,
    epsilon: EpsilonOption = None,
    distance: DistanceOption = 1,
    colluders: Annotated[str, typer.Option(help="Also: what each user loses to these together: a,b,c.")] = "",
    released: Annotated[
        bool, typer.Option("--released", help="Everybody gets the result, not just its holder.")
    ] = False,
    advise: Annotated[
        bool, typer.Option(help="Look for the edge whose addition helps most (slow on large graphs).")
    ] = True,
    out: Annotated[
        Path | None, typer.Option(help="Write the edges as CSV, for --edges here and in `plan new`.")
    ] = None,
    draw: Annotated[Path | None, typer.Option(help="Draw the graph, exposure in colour: FILE.png or FILE.svg.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Who is exposed to whom? Make or read a graph of peers, check it, and see every pair's epsilon before a run.

    On a graph the promise is a matrix: what a user loses to its neighbours is more than what it loses to users far
    away. A user with few peers keeps the token long under Metropolis weights, and is exposed to all.

    Examples:

    * network-dp graph hypercube --users 32 --steps 275 --task sgd --draw cube.png
    * network-dp graph --edges friends.csv --epsilon 1 --distance 2
    """
    from network_dp.graphs.advice import Question

    options = _options(kind, seed, degree=degree, rows=rows, probability=probability, radius=radius, rewire=rewire)
    made = _graph(kind, users, edges, options)
    if weights not in ("metropolis", "simple"):
        raise typer.BadParameter(f"--weights {weights}: must be metropolis or simple")
    length = steps or 20 * len(made.peers)
    question = Question(task, weights, length, sigma, sensitivity, delta, released, distance)  # type: ignore[arg-type]
    facts = _facts(made, question, epsilon, advise, quiet=as_json)
    if colluders:
        facts["colluders"] = _colluders(made, question, [name.strip() for name in colluders.split(",")], as_json)
    if out is not None:
        out.write_text(_csv(made))
        facts["edges_file"] = str(out)
    if draw is not None:
        _draw(made, facts.get("matrix"), question, draw)
        facts["drawing"] = str(draw)
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
    else:
        _show(facts)


def _options(kind: str | None, seed: int, **given: float | None) -> Options:
    """What shapes the graph; an option that this kind has no use for is refused."""
    from network_dp.graphs.generators import Options

    for name, value in given.items():
        if kind not in _SHAPED_BY[name]:
            refuse_idle({f"--{name}": value}, " and ".join(_SHAPED_BY[name]))
    return Options(seed=seed, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]  # by name


def _graph(kind: str | None, users: int, edges: Path | None, options: Any) -> PeerGraph:
    from network_dp.graphs import generators as graphs

    if (kind is None) == (edges is None):
        raise typer.BadParameter("give a kind of graph, or --edges FILE")
    if edges is not None:
        return graphs.read_edges(edges)
    assert kind is not None
    return graphs.PeerGraph([f"user-{i}" for i in range(users)], graphs.generate(kind, users, options))


def _facts(made: PeerGraph, question: Question, epsilon: float | None, advise: bool, quiet: bool) -> dict[str, Any]:
    """All that is printed, as JSON can hold it; of thousands of users, only the worst pairs by bounds."""
    from network_dp.graphs.advice import best_edge
    from network_dp.graphs.bounds import Bounds
    from network_dp.graphs.pairs import USERS_MAX

    pairs = (question.bounds if len(made.peers) > USERS_MAX else question.promise)(made.peers)
    with bar("pairs", quiet=quiet) as step:
        lost = _bounded(made, question, pairs, step) if isinstance(pairs, Bounds) else _all(made, question, pairs, step)
    facts: dict[str, Any] = {
        "users": len(made.peers),
        "edges": sum(map(len, made.peers)) // 2,
        "degrees": [min(map(len, made.peers)), max(map(len, made.peers))],
        "diameter": int(pairs.distances.max()),
        "question": asdict(question),
        **lost,
        "names": made.names,
    }
    if epsilon is not None:
        needed = pairs.sigma(epsilon, question.sensitivity, question.delta, question.distance)
        facts["calibrated"] = {"epsilon": epsilon, "sigma": needed, "distance": question.distance}
    if advise and not isinstance(pairs, Bounds):
        with bar("edges", quiet=quiet) as step:
            facts["advice"] = _advice(best_edge(made.peers, question, step), made.names)
    return facts


def _all(made: PeerGraph, question: Question, promise: Promise, step: Callable[..., None]) -> dict[str, Any]:
    """What every pair loses."""
    matrix = promise.matrix(*_noise(question), progress=step)
    require(bool((matrix < math.inf).all()), f"sigma = {question.sigma:g} is too small: no pair has a finite epsilon")
    return {
        "exact": promise.by_classes,
        "by_distance": _by_distance(promise, matrix),
        "worst": _named(asdict(question.worst(promise)), made.names),
        "most_exposed": _most_exposed(made, matrix),
        "matrix": matrix.tolist(),
    }


def _bounded(made: PeerGraph, question: Question, bounds: Bounds, step: Callable[..., None]) -> dict[str, Any]:
    """What the worst pair at every distance loses, at most."""
    worst = bounds.worst(*_noise(question), question.distance, progress=step)
    lines = [
        {"distance": d, "pairs": int((bounds.distances == d).sum()), "most": most}
        for d, most in enumerate(bounds.by_distance(*_noise(question)), 1)
    ]
    return {"exact": False, "by_distance": lines, "worst": _named(asdict(worst), made.names)}


def _noise(question: Question) -> tuple[float, float, float]:
    """As pairs and bounds take it."""
    return question.sigma, question.sensitivity, question.delta


def _colluders(made: PeerGraph, question: Question, together: list[str], quiet: bool) -> dict[str, Any]:
    """What every other user loses to some that pool what they see."""
    for name in together:
        if name not in made.names:
            raise typer.BadParameter(f"--colluders: {name} is no user of this graph")
    import numpy as np

    observers = sorted({made.names.index(name) for name in together})
    with bar("users", quiet=quiet) as step:
        losses = question.promise(made.peers).to_colluders(observers, *_noise(question), progress=step)
    order = [int(u) for u in np.argsort(-losses, kind="stable") if u not in observers]
    return {"together": together, "losses": [{"target": made.names[u], "epsilon": float(losses[u])} for u in order]}


def _by_distance(promise: Promise, matrix: Any) -> list[dict[str, float]]:
    lines = []
    for distance in range(1, int(promise.distances.max()) + 1):
        values = matrix[promise.distances == distance]
        spread = {"least": values.min(), "mean": values.mean(), "most": values.max()}
        lines.append({"distance": distance, "pairs": len(values), **{name: float(x) for name, x in spread.items()}})
    return lines


def _named(pair: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {**pair, "target": names[pair["target"]], "observer": names[pair["observer"]]}


def _most_exposed(made: PeerGraph, matrix: Any) -> list[dict[str, Any]]:
    """The users that lose most, each with whom it loses it to and how many peers it has."""
    order = sorted(range(len(made.names)), key=lambda u: -matrix[u].max())[:SHOWN]
    return [
        {
            "target": made.names[u],
            "observer": made.names[int(matrix[u].argmax())],
            "epsilon": float(matrix[u].max()),
            "peers": len(made.peers[u]),
        }
        for u in order
    ]


def _advice(found: Advice | None, names: Sequence[str]) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "edge": [names[x] for x in found.edge],
        "mean_before": found.mean_before,
        "mean_after": found.mean_after,
        "before": _named(asdict(found.before), names),
        "after": _named(asdict(found.after), names),
    }


def _csv(made: PeerGraph) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["user", "peer"])
    writer.writerows([made.names[x], made.names[y]] for x, row in enumerate(made.peers) for y in row if x < y)
    return text.getvalue()


def _show(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    asked, console = facts["question"], Console()
    fewest, most = facts["degrees"]
    console.print(
        f"{facts['users']} users, {facts['edges']} edges, {fewest} to {most} peers each, connected, "
        f"at most {facts['diameter']} hops apart."
    )
    spread = ("least", "mean", "most")
    table = Table("distance", "pairs", *spread, title=f"epsilon of a pair at delta = {asked['delta']:g}")
    for line in facts["by_distance"]:
        values = (f"{line[key]:.3g}" if key in line else "" for key in spread)
        table.add_row(str(line["distance"]), str(line["pairs"]), *values)
    console.print(table)
    whom = "" if asked["distance"] == 1 else f" at least {asked['distance']} hops apart (nearer ones are trusted)"
    worst = facts["worst"]
    console.print(f"Worst pair{whom}: {worst['target']} loses epsilon = {worst['epsilon']:.3g} to {worst['observer']}.")
    if "most_exposed" in facts:
        exposed = ", ".join(f"{x['target']} ({x['epsilon']:.3g}, {x['peers']} peers)" for x in facts["most_exposed"])
        console.print(f"Most exposed users: {exposed}.")
    else:
        console.print(
            "Of so many users only the worst pairs are bounded: no edge is looked for, and nothing is coloured."
        )
    if "colluders" in facts:
        most = ", ".join(f"{x['target']} ({x['epsilon']:.3g})" for x in facts["colluders"]["losses"][:SHOWN])
        console.print(f"To {', '.join(facts['colluders']['together'])} together lose most: {most}.")
    if "calibrated" in facts:
        found = facts["calibrated"]
        console.print(f"Least sigma for epsilon = {found['epsilon']:g} of every pair{whom}: {found['sigma']:.4g}.")
    if "advice" in facts:
        _show_advice(facts["advice"], console)
    for key in ("edges_file", "drawing"):
        if key in facts:
            console.print(f"Written: {facts[key]}")


def _show_advice(advice: dict[str, Any] | None, console: Any) -> None:
    if advice is None:
        console.print("No edge at the worst pair was found to help.")
        return
    x, y = advice["edge"]
    before, after = advice["before"]["epsilon"], advice["after"]["epsilon"]
    console.print(
        f"Edge to add: {x} - {y}. The worst pair then loses {after:.3g} (now {before:.3g}), and users lose "
        f"{advice['mean_after']:.3g} on average to who sees most of them (now {advice['mean_before']:.3g})."
    )


def _draw(made: PeerGraph, matrix: Sequence[Sequence[float]] | None, question: Question, path: Path) -> None:
    """Users coloured by what they lose to the one that sees most of them."""
    import networkx as nx

    drawn = nx.Graph([(x, y) for x, row in enumerate(made.peers) for y in row])
    places = nx.spring_layout(drawn, seed=1, iterations=100)
    with drawing(path, (7, 6), "drawing", dpi=110) as axes:
        for x, y in drawn.edges():
            axes.plot(*zip(places[x], places[y], strict=True), color="#BBBBBB", lw=0.8, zorder=1)
        across, up = ([float(places[u][axis]) for u in range(len(made.peers))] for axis in (0, 1))
        colours: dict[str, Any] = {"color": "white"}
        if matrix is not None:
            colours = {"c": [max(row) for row in matrix], "cmap": "viridis_r"}
        size = max(20.0, 220.0 - 2 * len(made.peers))
        dots = axes.scatter(across, up, size, **colours, zorder=2, edgecolors="black", lw=0.5)
        if len(made.peers) <= NAMED:
            for name, *place in zip(made.names, across, up, strict=True):
                axes.annotate(
                    name.removeprefix("user-"), (place[0], place[1]), ha="center", va="center", fontsize=6, zorder=3
                )
        if matrix is not None:
            axes.figure.colorbar(dots, label="epsilon to the user that sees most", shrink=0.8)
        axes.set_title(
            f"{question.task}, T = {question.n_steps}, sigma = {question.sigma:g}, delta = {question.delta:g}"
        )
        axes.set_axis_off()
