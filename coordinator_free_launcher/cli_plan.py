"""``plan new`` and ``plan check``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from coordinator_free_launcher.cli_identity import fail, read_plan
from coordinator_free_launcher.rows import Row
from network_dp.plan import HistogramTask, Plan, PlanError, SgdTask, SumTask

plans = typer.Typer(help="Write a plan, and see what it promises before anything runs.", no_args_is_help=True)


@plans.command("new")
def new(
    topology: Annotated[str, typer.Option(help="ring or complete.")] = "complete",
    task: Annotated[str, typer.Option(help="sum, mean, histogram or sgd.")] = "mean",
    users: Annotated[int, typer.Option(min=2, help="How many users.")] = 10,
    rounds: Annotated[int, typer.Option(help="Ring: how often everybody contributes.")] = 5,
    steps: Annotated[int | None, typer.Option(help="Complete graph: visits in all (default 10 per user).")] = None,
    mechanism: Annotated[str | None, typer.Option(help="gaussian, laplace (ring sums) or rr (histograms).")] = None,
    epsilon: Annotated[float, typer.Option(help="Target epsilon of network DP.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Target delta.")] = 1e-6,
    name: Annotated[str, typer.Option(help="Name of the run.")] = "my-run",
    port: Annotated[int, typer.Option(help="First port; every user gets one.")] = 20000,
    out: Annotated[Path | None, typer.Option(help="File to write (default: standard output).")] = None,
) -> None:
    """Write a commented plan to start from."""
    from coordinator_free_launcher.plan_template import Wish, write_plan
    from network_dp.plan_reader import parse

    length = rounds if topology == "ring" else (steps or 10 * users)
    chosen = mechanism or ("rr" if task == "histogram" else "gaussian")
    try:
        text = write_plan(Wish(name, topology, task, users, length, chosen, epsilon, delta, port=port))
        parse(text)
        if out is None:
            typer.echo(text, nl=False)
            return
        with out.open("x") as file:
            file.write(text)
    except FileExistsError:
        raise fail(PlanError(f"{out} exists: give another name, nothing was written")) from None
    except PlanError as error:
        raise fail(error) from None
    typer.echo(f"{out} written. Next: network-dp plan check {out}")


@plans.command("check")
def check(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan to check.")],
    colluders: Annotated[int, typer.Option(min=1, help="Also show what this many users together may learn.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Validate a plan and print what will happen and what it promises."""
    from coordinator_free_launcher.provision import finalise
    from coordinator_free_launcher.rows import print_rows

    try:
        plan = finalise(read_plan(plan_file))
        facts, rows = describe(plan), comparison(plan, colluders)
    except PlanError as error:
        raise fail(error) from None
    if as_json:
        values = {key: value for key, (value, _) in facts.items()}
        typer.echo(json.dumps({**values, **{row.key: row.plain for row in rows}}, indent=1))
        return
    show_facts(plan, facts)
    print_rows(f"{plan.task.kind} on {plan.topology.title}, delta = {plan.noise.delta:g}", rows)


def describe(plan: Plan) -> dict[str, tuple[Any, str]]:
    """What a plan means: key -> (value, why or how)."""
    walk, noise = plan.walk, plan.noise
    size = {"gaussian": noise.sigma, "laplace": noise.scale, "rr": noise.gamma}[noise.mechanism]
    label = {"gaussian": "sigma", "laplace": "scale", "rr": "gamma"}[noise.mechanism]
    facts: dict[str, tuple[Any, str]] = {
        "task": (plan.task.kind, f"{walk.topology}, {plan.n} users, {plan.total_steps} steps"),
        **_rows(plan),
        "release": (walk.release, "who gets the result"),
        label: (size, f"{noise.mechanism} noise, sensitivity {plan.sensitivity:g}, grid {noise.grid:g}"),
        "min_live": (walk.min_live, "promises hold while at least this many users are alive"),
        "reissues": (noise.reissues, "promises hold while the token is lost and taken up again at most so often"),
        "plan_hash": (plan.hash, "in every message"),
    }
    if plan.insecure_seed is not None:
        facts["INSECURE"] = (plan.insecure_seed, "noise and routing are seeded: for tests only")
    return facts


def _rows(plan: Plan) -> dict[str, tuple[Any, str]]:
    """What several rows of one user mean; a task of the user's own decides that itself."""
    match plan.task:
        case SumTask(rows="average"):
            return {"rows": ("average", "a user's value is the average of its rows, each clipped to the bounds first")}
        case HistogramTask(rows="average"):
            meaning = "takes one row per user" if plan.noise.mechanism == "rr" else "the shares of a user's rows"
            return {"rows": ("average", meaning)}
        case SumTask() | HistogramTask():
            most = f"at most {plan.most_contributions} rows per user"
            return {"rows": ("per_visit", f"visit k contributes row k, after the last row the first again; {most}")}
        case SgdTask():
            return {"rows": ("average", "a contribution is the average gradient of all rows of a user")}
        case _:
            return {}


def comparison(plan: Plan, colluders: int = 1) -> list[Row]:
    """The table of ``network-dp bounds`` for a plan: what it promises, and beside it what the paper printed."""
    from analyzer.report.as_printed import as_printed, theorem_of
    from coordinator_free_launcher.promise import promises

    label = f"as printed ({theorem_of(plan)})" if theorem_of(plan) else "as printed"
    note = "the paper's formula: for comparison only" if theorem_of(plan) else "the paper has no theorem for this"
    rows = promises(plan, colluders)
    after = [row.key for row in rows].index("local_epsilon") + 1
    return [*rows[:after], Row("printed_epsilon", label, as_printed(plan), note), *rows[after:]]


def show_facts(plan: Plan, facts: dict[str, tuple[Any, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Plan {plan.name}: valid")
    for column in ("what", "value", "meaning"):
        table.add_column(column, overflow="fold")
    for key, (value, meaning) in facts.items():
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        table.add_row(key, text, meaning)
    Console().print(table)


def register(app: typer.Typer) -> None:
    app.add_typer(plans, name="plan")
