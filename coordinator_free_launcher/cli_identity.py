"""``provision``: keys, certificates and bundles for one machine. For many machines see ``cli_lan``."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from network_dp.plan import Plan, PlanError

BAD_INPUT = 2


def fail(error: Exception) -> typer.Exit:
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(BAD_INPUT)


def read_plan(path: Path) -> Plan:
    """The plan in a file; paths of data in it are meant relative to the file."""
    from network_dp.plan_reader import load

    try:
        plan = load(path)
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror}") from None
    here = path.absolute().parent
    users = tuple(user if user.data is None else replace(user, data=str(here / user.data)) for user in plan.users)
    return replace(plan, users=users)


def data_folder(plan: Plan, folder: Path) -> dict[str, Path]:
    from coordinator_free_launcher.bundle import DATA_SUFFIXES

    files = {}
    for name in plan.names:
        found = [folder / f"{name}{suffix}" for suffix in DATA_SUFFIXES if (folder / f"{name}{suffix}").is_file()]
        if len(found) != 1:
            raise PlanError(f"{folder}: {len(found)} data files for {name}, not one (NAME.csv, NAME.npy or NAME.jsonl)")
        files[name] = found[0]
    return files


AllowClipping = Annotated[bool, typer.Option(help="Go on although most of the data lies outside the public bounds.")]


def warn(text: str) -> None:
    typer.echo(f"warning: {text}", err=True)


def provision_command(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, as `plan new` writes it.")],
    out: Annotated[Path, typer.Option(help="New folder for the bundles.")],
    data: Annotated[Path | None, typer.Option(help="Folder with one file per user: NAME.csv, .npy or .jsonl.")] = None,
    demo_data: Annotated[bool, typer.Option(help="Make up data, and write the truth to OUT/truth.json.")] = False,
    if_needed: Annotated[bool, typer.Option(help="Do nothing when OUT already holds this plan's bundles.")] = False,
    allow_clipping: AllowClipping = False,
    valid_days: Annotated[float, typer.Option(help="Life of the certificates.")] = 365.0,
    deliver_to: Annotated[
        Path | None, typer.Option("--deliver", help="Move each bundle to the disk mounted at DIR/users/NAME.")
    ] = None,
    owner: Annotated[int | None, typer.Option(help="With --deliver, as root: user id the bundles belong to.")] = None,
) -> None:
    """Make keys, certificates and one bundle per user: everything a run on one machine needs."""
    from coordinator_free_launcher.deliver import deliver
    from coordinator_free_launcher.identity import IdentityError
    from coordinator_free_launcher.provision import ProvisionError, already_provisioned, provision

    try:
        plan = read_plan(plan_file)
        if if_needed and already_provisioned(plan, out):
            typer.echo(f"{out} is provisioned already: nothing done")
        elif demo_data:
            provision_demo(plan, out, valid_days)
        else:
            files = None if data is None else data_folder(plan, data)
            provision(plan, out, files, valid_days, allow_clipping=allow_clipping, say=warn)
        if deliver_to is not None:
            deliver(out, deliver_to, owner)
    except (PlanError, ProvisionError, IdentityError) as error:
        raise fail(error) from None
    if deliver_to is None:
        typer.echo(f"{plan.n} bundles in {out / 'users'}; start them with: network-dp launch {out}")
    else:
        typer.echo(f"{plan.n} bundles, each on its user's own disk in {deliver_to / 'users'}")


def provision_demo(plan: Plan, out: Path, valid_days: float = 365.0, seed: int = 1) -> Path:
    """Provision with made-up data; the truth goes to OUT/truth.json, outside every bundle."""
    from coordinator_free_launcher.demo_data import demo_data
    from coordinator_free_launcher.provision import provision

    made = demo_data(plan, seed)
    with tempfile.TemporaryDirectory(prefix="network-dp-data-") as folder:
        provision(plan, out, made.write(plan, Path(folder)), valid_days)
    made.truth.write(out / "truth.json")
    return out


def register(app: typer.Typer) -> None:
    """Add all commands about keys, certificates and bundles to the command line."""
    from coordinator_free_launcher import cli_lan

    app.command("provision")(provision_command)
    cli_lan.register(app)
