"""What ``plan new`` takes from a folder of tables, and its look at them before anything else is made."""

from __future__ import annotations

import typer

from coordinator_free_launcher.cli.options import split
from coordinator_free_launcher.local.tables import Folder
from network_dp.plan import Plan, PlanError

_SHOWN = 12  # column names in one sentence


def column_names(column: str | None, features: str | None, label: str | None, found: Folder | None) -> tuple[str, ...]:
    """The columns a user asked for; of a table with one column only, that one. Another name is refused here."""
    if column is not None and features is not None:
        raise PlanError("--column and --features: give one of them; --features and --label are for a model")
    wanted = split(column or features)
    if found is None or not found.columns:
        return wanted
    have = ", ".join(found.columns[:_SHOWN]) + (" ..." if len(found.columns) > _SHOWN else "")
    for name in (*wanted, *([] if label is None else [label])):
        if name not in found.columns:
            raise PlanError(f'{found.path}: has no column "{name}"; it has {have}')
    if not wanted and len(found.columns) > 1:
        raise PlanError(f"{found.path}: has the columns {have}; choose with --column, or --features and --label")
    return wanted or found.columns


def user_names(count: int | None, found: Folder | None) -> tuple[str, ...] | None:
    """Those of the folder, or so many made-up ones; None: as many as is usual."""
    if found is None:
        return None if count is None else tuple(f"user-{i}" for i in range(count))
    if count is not None and count != len(found.names):
        raise PlanError(
            f"--users {count}: {found.path} holds the tables of {len(found.names)} users; leave --users out"
        )
    return found.names


def checked(plan: Plan, found: Folder) -> None:
    """Every table of the folder fits the plan, or an error that names it; what is clipped is said."""
    from coordinator_free_launcher.cli.provision import warn
    from coordinator_free_launcher.identity.bundle import ProvisionError, data_folder
    from coordinator_free_launcher.identity.finalise import finalise
    from coordinator_free_launcher.identity.look import look

    try:
        for text in look(finalise(plan), data_folder(plan, found.path)):
            warn(text)
    except ProvisionError as error:
        hint = "; give --lower and --upper as they are known beforehand" if "--allow-clipping" in str(error) else ""
        raise ProvisionError(f"{error}{hint}") from None
    typer.echo(f"{len(found.names)} tables read: all fit the plan", err=True)
