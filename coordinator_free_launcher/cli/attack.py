"""``attack``: what a user could reconstruct of the others from its own view."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator_free_launcher.cli.drawing import drawing
from coordinator_free_launcher.cli.options import Json

if TYPE_CHECKING:
    from analyzer.attack import Guess
    from network_dp.plan import Plan
    from network_dp.view import Record

_SHOWN = 40


def attack(
    view: Annotated[Path, typer.Argument(metavar="VIEW", help="A user's bundle, or its view.jsonl with values.")],
    plan_file: Annotated[
        Path | None, typer.Option("--plan", help="The plan, if it does not lie above the log.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw all guesses with their errors into this file.")] = None,
    as_json: Json = False,
) -> None:
    """Attack a run as one of its users: the best linear guess of everybody's value, by least squares on your own view.

    Beside each guess stand its standard error and the share of the uncertainty that the view took away: 0 means that
    the guess is no better than the middle of the public bounds, 1 that the value is known.
    """
    from analyzer.attack import AttackError, guesses
    from network_dp.plan_reader import load

    log = view / "state" / "view.jsonl" if view.is_dir() else view
    above = [folder / "plan.toml" for folder in log.absolute().parents[:3] if (folder / "plan.toml").is_file()]
    if plan_file is None and not above:
        raise AttackError(f"{log}: no plan.toml lies above it; give --plan")
    plan = load(plan_file or above[0])
    found = guesses(plan, _records(log, plan))
    if plot is not None:
        _draw(plan, found, plot)
    if as_json:
        typer.echo(json.dumps([{**asdict(guess), "learned": guess.learned} for guess in found], indent=1))
    else:
        _print(log, found)


def _records(log: Path, plan: Plan) -> Iterator[Record]:
    """The lines of one view of this plan; a line that cannot be read is named by its number."""
    from analyzer.errors import InputError
    from network_dp.view import ViewError, decode

    with log.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                record = decode(line)
            except ViewError as error:
                raise InputError(log, number, str(error)) from None
            if (number == 1) != (record.kind == "header"):
                raise InputError(log, number, "a view begins with its header, and has one")
            if number == 1 and (record.fields["plan"] != plan.hash or record.fields["user"] not in plan.names):
                raise InputError(log, number, "a view of another plan; give --plan")
            if number == 1 and not record.fields["values"]:
                raise InputError(log, number, "a view without values: nothing to attack")
            yield record


def _print(log: Path, found: Sequence[Guess]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("user", "guess", "standard error", "before", "learned", title=f"From {log}")
    for guess in sorted(found, key=lambda one: -one.learned)[:_SHOWN]:
        numbers = (f"{value:.4g}" for value in (guess.value, guess.error, guess.before))
        table.add_row(guess.user, *numbers, f"{100 * guess.learned:.2f} %")
    Console().print(table)


def _draw(plan: Plan, found: Sequence[Guess], path: Path) -> None:
    from analyzer.attack import prior

    middle, spread = prior(plan)
    places = range(len(found))
    values, errors = [guess.value for guess in found], [guess.error for guess in found]
    with drawing(path, (7, 4)) as axes:
        axes.errorbar(places, values, yerr=errors, fmt="o", capsize=3)
        for edge in (spread, -spread):
            axes.axhline(middle + edge, linestyle=":", color="grey")
        axes.set(ylabel="best linear guess, one standard error", title="What one view says (dotted: known before)")
        axes.set_xticks(list(places), labels=[guess.user for guess in found], rotation=90, fontsize=7)
