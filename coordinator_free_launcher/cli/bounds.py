"""``bounds`` and ``calibrate``: the accountant on the command line. What is heavy is imported late."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator_free_launcher.cli.drawing import drawing
from coordinator_free_launcher.cli.options import Json, finite, refuse_idle

if TYPE_CHECKING:
    from coordinator_free_launcher.cli.bounds_kinds import BoundsQuery
    from coordinator_free_launcher.cli.rows import Row

TaskOption = Annotated[str, typer.Option(help="sum, mean, histogram or sgd.")]
TopologyOption = Annotated[str, typer.Option(help="ring or complete (next holder uniform over all users).")]
UsersOption = Annotated[int, typer.Option(help="Users; on the complete graph the least number alive.")]
StepsOption = Annotated[
    int | None, typer.Option(max=1_000_000_000, help="Complete graph: steps of the walk, over all users.")
]
RoundsOption = Annotated[int | None, typer.Option(help="Ring: rounds.")]
DeltaOption = Annotated[float, typer.Option(help="delta of (epsilon, delta)-DP; well below 1/users.")]
SensitivityOption = Annotated[float, typer.Option(help="How far one contribution can move: upper - lower bound.")]
LipschitzOption = Annotated[float | None, typer.Option(callback=finite, help="sgd: Lipschitz constant of the loss.")]
BucketsOption = Annotated[int | None, typer.Option(min=2, help="histogram by randomised response: number of buckets.")]
ColludersOption = Annotated[int, typer.Option(min=1, help="Users that share what they see.")]
ReleasedOption = Annotated[bool, typer.Option("--released", help="Everybody gets the result, not just its holder.")]
CapOption = Annotated[int | None, typer.Option(help="Most contributions of one user; later visits add noise only.")]
ReissuesOption = Annotated[
    int | None,
    typer.Option(help="Ring: how often the token may be lost and taken up again (default 1; randomised response 0)."),
]


def bounds(
    task: TaskOption = "sum",
    topology: TopologyOption = "complete",
    users: UsersOption = 100,
    steps: StepsOption = None,
    rounds: RoundsOption = None,
    sigma: Annotated[float | None, typer.Option(help="Standard deviation of one full noise.")] = None,
    gamma: Annotated[float | None, typer.Option(help="histogram: probability of a uniform answer.")] = None,
    delta: DeltaOption = 1e-6,
    sensitivity: SensitivityOption = 1.0,
    lipschitz: LipschitzOption = None,
    buckets: BucketsOption = None,
    colluders: ColludersOption = 1,
    released: ReleasedOption = False,
    cap: CapOption = None,
    reissues: ReissuesOption = None,
    as_json: Json = False,
    plot: Annotated[Path | None, typer.Option(help="Also draw epsilon against one quantity into this file.")] = None,
    against: Annotated[
        str | None, typer.Option(help="What the plot varies: n (as usual), T (ring: rounds) or sigma (or gamma).")
    ] = None,
) -> None:
    """How private is this? Epsilon of network DP, next to local DP and to what the paper printed.

    Network DP: what one user sees (its own messages) says little about any other user. Smaller epsilon is better; below
    1 is strong, above 10 is weak.

    Example: network-dp bounds --task sgd --users 2000 --steps 20000 --sigma 8.5 --lipschitz 1
    """
    from coordinator_free_launcher.cli import bounds_tables as tables

    query = _query(
        task,
        topology,
        users,
        steps,
        rounds,
        delta=delta,
        sensitivity=sensitivity,
        lipschitz=lipschitz,
        buckets=buckets,
        sigma=sigma,
        gamma=gamma,
        colluders=colluders,
        released=released,
        cap=cap,
        reissues=reissues,
    )
    rows = tables.bounds_rows(query)
    if plot is None:
        refuse_idle({"--against": against}, "a plot: give --plot")
    else:
        _draw(query, against or "n", plot)
    _show(f"{task} on a {topology} graph, delta = {delta:g}", rows, as_json)


def calibrate(
    epsilon: Annotated[float, typer.Option(help="Target epsilon.")],
    task: TaskOption = "sum",
    topology: TopologyOption = "complete",
    users: UsersOption = 100,
    steps: StepsOption = None,
    rounds: RoundsOption = None,
    delta: DeltaOption = 1e-6,
    sensitivity: SensitivityOption = 1.0,
    lipschitz: LipschitzOption = None,
    buckets: BucketsOption = None,
    colluders: ColludersOption = 1,
    released: ReleasedOption = False,
    cap: CapOption = None,
    reissues: ReissuesOption = None,
    as_json: Json = False,
) -> None:
    """How much noise is needed? The least that meets a target, for network and for local DP.

    Example: network-dp calibrate --epsilon 1 --task sgd --users 2000 --steps 20000 --lipschitz 1
    """
    from coordinator_free_launcher.cli import bounds_tables as tables

    query = _query(
        task,
        topology,
        users,
        steps,
        rounds,
        delta=delta,
        sensitivity=sensitivity,
        lipschitz=lipschitz,
        buckets=buckets,
        sigma=1.0 if buckets is None else None,  # any: calibration replaces it
        colluders=colluders,
        released=released,
        cap=cap,
        reissues=reissues,
    )
    rows = tables.calibrate_rows(query, epsilon)
    _show(f"least noise for epsilon = {epsilon:g}, delta = {delta:g}", rows, as_json)


def _query(
    task: str, topology: str, users: int, steps: int | None, rounds: int | None, reissues: int | None, **more: Any
) -> BoundsQuery:
    from coordinator_free_launcher.cli.bounds_kinds import KINDS, BoundsQuery
    from coordinator_free_launcher.cli.bounds_tasks import TASKS
    from network_dp.errors import AccountingError, require

    require(topology in KINDS, f"--topology must be {' or '.join(KINDS)}")
    kind = KINDS[topology]
    lengths = {"--rounds": rounds, "--steps": steps}
    length = lengths.pop(kind.option)
    if any(other is not None for other in lengths.values()):
        raise AccountingError(kind.foreign_length)
    if length is None:
        raise AccountingError(kind.needs_length)
    answers = task in TASKS and TASKS[task].responds and more["sigma"] is None
    reserved = kind.reissues * (not answers) if reissues is None else reissues  # as a plan does (docs/adr/0019)
    return BoundsQuery(task, topology, users, length, reissues=reserved, **more)


def _show(title: str, rows: Sequence[Row], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({row.key: {**asdict(row), "value": row.plain} for row in rows}, indent=1))
        return
    from coordinator_free_launcher.cli.rows import print_rows

    print_rows(title, rows)


def _draw(query: BoundsQuery, against: str, path: Path) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    from coordinator_free_launcher.cli import bounds_tables as tables
    from network_dp.errors import require

    require(against in tables.AXES, f"--against must be one of {', '.join(tables.AXES)}, got {against}")
    axis = tables.AXES[against]
    points = [(x, y) for x, y in tables.curve(query, axis) if math.isfinite(y) and y > 0]
    require(bool(points), "nothing to plot: no epsilon in this range is positive and finite")
    with drawing(path, (6.4, 4)) as axes:
        axes.loglog([x for x, _ in points], [y for _, y in points], marker="o")
        axes.set(xlabel=tables.axis_label(query, axis), ylabel=f"network epsilon at delta = {query.delta:g}")
        axes.set_title(f"{query.task} on a {query.topology} graph, path known")
        axes.set_xticks([x for x, _ in points], labels=[f"{float(f'{x:.3g}'):g}" for x, _ in points])
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        for one in (axes.xaxis, axes.yaxis):
            one.set_minor_formatter(NullFormatter())
        axes.grid(visible=True, alpha=0.3)
