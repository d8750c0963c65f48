"""``plan new`` and ``plan check``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator_free_launcher.cli.options import Json, finite, numbers, split
from coordinator_free_launcher.cli.provision import read_plan
from coordinator_free_launcher.cli.rows import Row
from coordinator_free_launcher.cli.say import bar, say
from network_dp.in_words import way
from network_dp.plan import Plan, PlanError

if TYPE_CHECKING:
    from coordinator_free_launcher.local.tables import Folder

HASH_SHOWN = 16  # of its 64 digits, as `accept` shows it
plans = typer.Typer(help="Write a plan, and see what it promises before anything runs.", no_args_is_help=True)

TopologyOption = Annotated[
    str | None, typer.Option(help="ring, complete or graph (default: ring; sgd complete; graph with --graph).")
]
GraphOption = Annotated[
    str | None,
    typer.Option(
        help="Peers of every user: hypercube, star, path, grid, torus, ring-lattice, random-regular, erdos-renyi, "
        "geometric, small-world, or a file of edges (.csv, .graphml)."
    ),
]
SeedOption = Annotated[int, typer.Option(min=0, help="Another random graph.")]
PathOption = Annotated[
    str, typer.Option(help="known, or hidden: anonymous rounds hide who holds the token (complete graph).")
]
ProtocolOption = Annotated[
    str, typer.Option(help="walk, or masked_sum: one anonymous round, against colluders (not for a model).")
]


@plans.command("new")
def new(
    task: Annotated[str, typer.Option(help="sum, mean, histogram or sgd (a linear model).")] = "mean",
    data: Annotated[
        Path | None, typer.Option(help="Folder with one table per user: names, number of users and columns from it.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column to use, by name (several: a,b).")] = None,
    lower: Annotated[float | None, typer.Option(callback=finite, help="Least value, known beforehand.")] = None,
    upper: Annotated[float | None, typer.Option(callback=finite, help="Largest value, known beforehand.")] = None,
    categories: Annotated[str | None, typer.Option(help="Histogram of texts: a,b,c.")] = None,
    edges: Annotated[str | None, typer.Option(help="Histogram of numbers: ends of ranges, 0,18,65,120.")] = None,
    buckets: Annotated[int | None, typer.Option(help="Histogram of whole numbers 0 .. buckets-1.")] = None,
    features: Annotated[str | None, typer.Option(help="Model: columns to predict from, a,b,c.")] = None,
    label: Annotated[str | None, typer.Option(help="Model: column to predict.")] = None,
    labels: Annotated[str | None, typer.Option(help="Model: the two texts of the label, no,yes.")] = None,
    ranges: Annotated[str | None, typer.Option(help="Model: public range of each feature, 18:90,0:1e6.")] = None,
    users: Annotated[
        int | None, typer.Option(min=2, max=40_000, help="How many users (default: as DATA has, else 100; sgd 200).")
    ] = None,
    topology: TopologyOption = None,
    graph: GraphOption = None,
    graph_seed: SeedOption = 0,
    rounds: Annotated[int | None, typer.Option(help="Ring: how often everybody contributes (default 10).")] = None,
    steps: Annotated[int | None, typer.Option(help="Drawn walks: visits in all (default 30 per user).")] = None,
    mechanism: Annotated[str | None, typer.Option(help="gaussian, laplace (ring sums) or rr (histograms).")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Target epsilon of network DP (default 1; sgd 3).")] = None,
    delta: Annotated[float, typer.Option(help="Target delta.")] = 1e-6,
    path: PathOption = "known",
    protocol: ProtocolOption = "walk",
    name: Annotated[str, typer.Option(help="Name of the run.")] = "my-run",
    port: Annotated[int, typer.Option(min=1, max=65535, help="First port; every user gets one.")] = 20000,
    out: Annotated[Path | None, typer.Option(help="File to write (default: standard output).")] = None,
) -> None:
    """Write a commented plan to start from, for made-up data or for your own tables.

    Bounds, categories and edges are public: take them from what is known beforehand, not from the data.
    """
    from coordinator_free_launcher.cli.own_data import column_names, user_names
    from coordinator_free_launcher.cli.plan_template import Shape, Wish, write_plan
    from coordinator_free_launcher.local.tables import survey

    found = None if data is None else survey(data)
    shape = Shape(
        columns=column_names(column, features, label, found),
        label=label,
        labels=split(labels),
        ranges=tuple(numbers("--ranges", part.replace(":", ",")) for part in split(ranges)),
        categories=split(categories),
        edges=numbers("--edges", edges),
        buckets=buckets,
        lower=lower,
        upper=upper,
    )
    names, peers = with_peers(graph, user_names(users, found), graph_seed)
    topology = topology or (None if graph is None else "graph")
    wish = Wish(
        name,
        task,
        delta,
        topology,
        names,
        {"rounds": rounds, "steps": steps},
        mechanism,
        epsilon,
        port=port,
        path=path,
        protocol=protocol,
        shape=shape,
        peers=peers,
    )
    _write(write_plan(wish), found, out)


def _write(text: str, found: Folder | None, out: Path | None) -> None:
    from coordinator_free_launcher.cli.own_data import checked
    from coordinator_free_launcher.cli.worth import worth
    from network_dp.plan_reader import parse

    plan = parse(text)
    if found is not None:
        checked(plan, found)
    if out is None:
        typer.echo(text, nl=False)
        return
    with out.open("x") as file:
        file.write(text)
    first = f"{out} written. {worth(plan)}".rstrip()
    say(f"{first}\nNext: network-dp plan check {out}")


def with_peers(
    graph: str | None, names: Sequence[str] | None, seed: int
) -> tuple[Sequence[str] | None, Sequence[Sequence[int]]]:
    """The users and their peers: made by name, or read from a file of edges, which may also say who the users are."""
    if graph is None:
        return names, ()
    from network_dp.graphs.generators import GENERATORS, Options, generate, read_edges

    if graph not in GENERATORS and Path(graph).suffix:
        read = read_edges(Path(graph), names)
        return read.names, read.peers
    if names is None:
        raise PlanError(f"--graph {graph}: give --users too, or --data")
    return names, generate(graph, len(names), Options(seed=seed))


@plans.command("check")
def check(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan to check.")],
    colluders: Annotated[int, typer.Option(min=1, help="Also show what this many users together may learn.")] = 1,
    as_json: Json = False,
) -> None:
    """Validate a plan and print what will happen, what it promises, and whether its answer will be worth having."""
    from coordinator_free_launcher.cli.accounting import WORK, prepare
    from coordinator_free_launcher.cli.rows import print_rows
    from coordinator_free_launcher.cli.worth import as_plain, show_worth
    from coordinator_free_launcher.identity.finalise import finalise

    wish = read_plan(plan_file)
    if colluders >= wish.n:
        raise PlanError(f"--colluders {colluders}: of {wish.n} users at least one must be left to protect")
    prepare(wish, colluders)
    with bar(WORK):
        plan = finalise(wish)
        facts, rows = describe(plan), comparison(plan, colluders)
    if as_json:
        values = {key: value for key, (value, _) in facts.items()}
        typer.echo(json.dumps({**values, **{row.key: row.plain for row in rows}, **as_plain(plan)}, indent=1))
        return
    show_facts(plan, facts)
    title = f"{plan.task.kind} {way(plan)}, delta = {plan.noise.delta:g}"
    print_rows(title, [row for row in rows if _decides(row, plan)])
    show_worth(plan)


def _decides(row: Row, plan: Plan) -> bool:
    """Does this number help to decide? The rest is in the JSON; `bounds` explains what the paper printed."""
    if row.key == "expected_std" and plan.task.classifies:  # a bound far above any loss: the sentence below predicts
        return False
    return row.value is not None and row.key not in ("printed_epsilon", "noises")


def describe(plan: Plan) -> dict[str, tuple[Any, str]]:
    """What a plan means: key -> (value, why or how)."""
    walk, noise = plan.walk, plan.noise
    facts: dict[str, tuple[Any, str]] = {
        "task": (plan.task.kind, f"{walk.topology}, {plan.n} users, {plan.total_steps} steps"),
        **_rows(plan),
        "release": (walk.release, "who gets the result"),
        plan.mechanism.size_key: (
            noise.size,
            f"{noise.mechanism} noise, sensitivity {plan.sensitivity:g}, grid {noise.grid:g}",
        ),
        **_graph(plan),
        "min_live": (walk.min_live, "promises hold while at least this many users are alive"),
        "reissues": (noise.reissues, "promises hold while the token is lost and taken up again at most so often"),
        "plan_hash": (plan.hash, "in every message"),
    }
    if plan.insecure_seed is not None:
        facts["INSECURE"] = (plan.insecure_seed, "noise and routing are seeded: for tests only")
    return facts


def _graph(plan: Plan) -> dict[str, tuple[Any, str]]:
    """Who meets whom, and between whom the promise holds."""
    walk, distance = plan.walk, plan.noise.distance
    if distance is None:
        return {}
    edges = sum(len(user.peers or ()) for user in plan.users) // 2
    far = f"{distance} hops apart or more; users nearer are trusted" if distance > 1 else "of any two users"
    return {
        "graph": (edges, f"edges between peers, drawn by {walk.weights} weights"),
        "control": (walk.control, "how users that are no peers ask and vote: relay by peers, or direct connections"),
        "distance": (distance, f"the promise is for pairs {far}, all users alive"),
    }


def _rows(plan: Plan) -> dict[str, tuple[Any, str]]:
    """What several rows of one user mean; a task of the user's own decides that itself."""
    rule = plan.task.rows_in_words(not plan.mechanism.additive, plan.most_contributions)
    return {} if rule is None else {"rows": rule}


def comparison(plan: Plan, colluders: int = 1) -> list[Row]:
    """The table of ``network-dp bounds`` for a plan: what it promises, and beside it what the paper printed."""
    from coordinator_free_launcher.cli.promise import promises
    from network_dp.printed import theorem_of

    rows, theorem = promises(plan, colluders), theorem_of(plan)
    if plan.walk.anonymous:  # of anonymous rounds the paper says nothing
        return rows
    if theorem is None:
        printed = Row("printed_epsilon", "as printed", None, "the paper has no theorem for this")
    else:
        label, value = f"as printed ({theorem.name})", theorem.epsilon(plan.mechanism.size)
        printed = Row("printed_epsilon", label, value, "the paper's formula: for comparison only")
    after = [row.key for row in rows].index("local_epsilon") + 1
    return [*rows[:after], printed, *rows[after:]]


def show_facts(plan: Plan, facts: dict[str, tuple[Any, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Plan {plan.name}: valid")
    for column in ("what", "value", "meaning"):
        table.add_column(column, overflow="fold")
    for key, (value, meaning) in facts.items():
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        text = text[:HASH_SHOWN] if key == "plan_hash" else text
        table.add_row(key, text, meaning)
    Console().print(table)
