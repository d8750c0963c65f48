"""``budget show``, ``set`` and ``check``: what all runs of a user cost together, and the most they may."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from coordinator_free_launcher.budget import DEFAULT_DELTA, set_budget, spent
from coordinator_free_launcher.cli.options import Json, finite
from network_dp import ledger
from network_dp.ledger import Budget, Ledger, LedgerError
from network_dp.untrusted import shortened

budgets = typer.Typer(
    help=(
        "What all your runs cost together, and the most they may. Every run is charged its plan's promise before it "
        "starts; a run that would overspend does not start."
    ),
    no_args_is_help=True,
)

User = Annotated[str | None, typer.Option("--user", help="Whose ledger, where there are several.")]
File = Annotated[Path | None, typer.Option("--ledger", help="The ledger itself, if it lies elsewhere.")]
Ledgers = Annotated[
    str | None,
    typer.Option(
        help="Folder outside the run in which each user keeps NAME/ledger.json; `off`: none. "
        "Default: your state folder (see `network-dp budget`), nothing for made-up data."
    ),
]


def ledgers_folder(named: str | None, *, real_data: bool) -> Path | None:
    """Where the users of a run keep their ledgers; None: nowhere."""
    if named is not None:
        return None if named == "off" else Path(named)
    return ledger.default_root() if real_data else None


def own_ledger(named: str | None, name: str) -> Path | None:
    """The ledger of one user on its own machine."""
    folder = ledgers_folder(named, real_data=True)
    return None if folder is None else folder.absolute() / name / ledger.FILE


@budgets.command("show")
def show(
    user: User = None,
    file: File = None,
    delta: Annotated[float | None, typer.Option(help="delta of the total, if no budget is set.")] = None,
    as_json: Json = False,
) -> None:
    """Every run that was charged, what its path really showed, and what all of them come to.

    The total composes the promises: Gaussian runs by adding mu^2, others by privacy-loss distributions. What a path
    really showed stands beside it and is never credited; a run that showed more than it was charged (OVERSPENT) counts
    with what it showed.
    """
    path = _ledger(user, file)
    book = ledger.read(path)
    found = _summary(book, delta)
    if as_json:
        typer.echo(json.dumps({"ledger": str(path), **found}, indent=1))
    else:
        _print(path, found)


@budgets.command("set")
def set_command(
    epsilon: Annotated[float, typer.Option(min=0.0, callback=finite, help="The most all runs together may cost.")],
    delta: Annotated[float, typer.Option(callback=finite, help="delta of that epsilon.")] = DEFAULT_DELTA,
    user: User = None,
    file: File = None,
) -> None:
    """Set your budget. A plan that would overspend it makes your node refuse to start.

    Example: network-dp budget set --epsilon 3 --delta 1e-6 --user ann
    """
    if not 0 < delta < 1:
        raise LedgerError(f"--delta {delta:g}: must lie strictly between 0 and 1")
    path = _ledger(user, file, new=True)
    set_budget(path, Budget(epsilon, delta))
    typer.echo(f"{path}: budget epsilon {epsilon:g} at delta = {delta:g}")


@budgets.command("check")
def check(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan you are asked to take part in.")],
    user: User = None,
    file: File = None,
    as_json: Json = False,
) -> None:
    """Would this plan fit? Exit code 1 if it would overspend; nothing is charged."""
    from coordinator_free_launcher.cli.accounting import read_final
    from network_dp.accounting.guarantee import charge_of

    book = ledger.read(_ledger(user, file, new=True))
    plan = read_final(plan_file)
    charge = charge_of(plan)
    delta = plan.noise.delta if book.budget is None else book.budget.delta
    now, after = spent(book, delta), spent(book.plus(charge), delta)
    fits = book.budget is None or after <= book.budget.epsilon
    limit = None if book.budget is None else book.budget.epsilon
    if as_json:
        known = {"now": _plain(now), "after": _plain(after), "delta": delta, "budget": limit, "fits": fits}
        typer.echo(json.dumps(known, indent=1))
    else:
        of = "no budget is set" if limit is None else f"of a budget of {limit:g}"
        text = f"epsilon {now:.4g} now, {after:.4g} with this run, at delta = {delta:g}; {of}"
        typer.echo(text if fits else f"{text}: it would not start")
    if not fits:
        raise typer.Exit(1)


def _ledger(user: str | None, file: Path | None, *, new: bool = False) -> Path:
    """The ledger that is meant: named, or the only one there is."""
    if file is not None:
        return file
    from network_dp.plan_reader import NAME

    if user is not None and not NAME.fullmatch(user):
        raise LedgerError(f"--user {shortened(user)!r}: a user's name is lower-case letters, digits and dashes")
    root = ledger.default_root()
    found = sorted(path.parent.name for path in root.glob(f"*/{ledger.FILE}"))
    if user is None and len(found) != 1:
        those = f"there are {', '.join(found[:10])}" if found else "there is none yet"
        raise LedgerError(f"{root}: {those}; say whose with --user NAME, or give --ledger FILE")
    path = root / (user or found[0]) / ledger.FILE
    if not new and not path.exists():
        raise LedgerError(f"{path}: no ledger yet; it begins with the first run, or with `network-dp budget set`")
    return path


def _summary(book: Ledger, delta: float | None) -> dict[str, Any]:
    from network_dp.accounting.guarantee import composed_epsilon, of_charge, of_run

    budget = book.budget
    at = delta or (DEFAULT_DELTA if budget is None else budget.delta)
    total = spent(book, at)
    rows = []
    for charge in book.charges:
        walked = book.walked(charge.run)
        rows.append(
            {
                "name": charge.name,
                "run": charge.run,
                "plan": charge.plan,
                "bound": charge.bound,
                "mu2": charge.mu2,
                "charged_epsilon": _plain(of_charge(charge).epsilon(at)),
                "walked_epsilon": None if walked is None else walked.epsilon,
                "walked_delta": None if walked is None else walked.delta,
                "counted_epsilon": _plain(composed_epsilon([of_run(charge, walked)], at)),
            }
        )
    left = None if budget is None or not math.isfinite(total) else max(budget.epsilon - total, 0.0)
    return {
        "runs": rows,
        "delta": at,
        "total_epsilon": _plain(total),
        "budget": None if budget is None else {"epsilon": budget.epsilon, "delta": budget.delta},
        "left_epsilon": left,
    }


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else "infinity"


def _print(path: Path, found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    def text(value: Any) -> str:
        return "-" if value is None else value if isinstance(value, str) else f"{value:.4g}"

    table = Table(
        "run", "plan", "charged", "its path showed", "counts", "by", title=f"{path} at delta = {found['delta']:g}"
    )
    for row in found["runs"]:
        walked = text(row["walked_epsilon"])
        charged, counted = text(row["charged_epsilon"]), text(row["counted_epsilon"])
        table.add_row(row["name"], row["plan"][:12], charged, walked, counted, row["bound"])
    console = Console()
    console.print(table)
    budget = found["budget"]
    of = "no budget is set (network-dp budget set)" if budget is None else f"of a budget of {budget['epsilon']:g}"
    console.print(f"together: epsilon {text(found['total_epsilon'])} at delta = {found['delta']:g}; {of}")
