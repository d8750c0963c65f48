"""``provision``: keys, certificates and bundles for one machine. For many machines see ``lan``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from coordinator_free_launcher.cli.budget import Ledgers, ledgers_folder
from coordinator_free_launcher.cli.options import ValidDays, refuse_idle
from coordinator_free_launcher.cli.say import say
from network_dp.plan import Plan, PlanError


def read_plan(path: Path) -> Plan:
    """The plan in a file; paths of data in it are meant relative to the file."""
    from network_dp.plan_reader import load

    if path.is_dir():
        raise PlanError(f"{path}: is a folder; give a plan, or go on with a run by: network-dp launch {path}")
    plan = load(path)
    here = path.absolute().parent
    users = tuple(user if user.data is None else replace(user, data=str(here / user.data)) for user in plan.users)
    return replace(plan, users=users)


AllowClipping = Annotated[
    bool, typer.Option("--allow-clipping", help="Go on although most of the data lies outside the public bounds.")
]


def warn(text: str) -> None:
    say(f"warning: {text}", err=True)


def provision_command(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, as `plan new` writes it.")],
    out: Annotated[Path, typer.Option(help="New folder for the bundles.")],
    data: Annotated[Path | None, typer.Option(help="Folder with one file per user: NAME.csv, .npy or .jsonl.")] = None,
    demo_data: Annotated[
        bool, typer.Option("--demo-data", help="Make up data, and write the truth to OUT/truth.json.")
    ] = False,
    if_needed: Annotated[
        bool, typer.Option("--if-needed", help="Do nothing when OUT already holds this plan's bundles.")
    ] = False,
    allow_clipping: AllowClipping = False,
    ledgers: Ledgers = None,
    valid_days: ValidDays = 365.0,
    deliver_to: Annotated[
        Path | None, typer.Option("--deliver", help="Move each bundle to the disk mounted at DIR/users/NAME.")
    ] = None,
    owner: Annotated[
        int | None, typer.Option(min=0, max=2**31, help="With --deliver, as root: user id the bundles belong to.")
    ] = None,
) -> None:
    """Make keys, certificates and one bundle per user: everything a run on one machine needs."""
    from coordinator_free_launcher.cli.accounting import prepare
    from coordinator_free_launcher.identity.bundle import data_folder
    from coordinator_free_launcher.identity.deliver import deliver
    from coordinator_free_launcher.identity.provision import already_provisioned, provision
    from coordinator_free_launcher.local.demo_data import provision_demo

    plan = read_plan(plan_file)
    if demo_data:
        refuse_idle({"--data": data}, "own data: give it, or --demo-data")
    if deliver_to is None:
        refuse_idle({"--owner": owner}, "bundles on other disks: give --deliver")
    prepare(plan)
    if if_needed and already_provisioned(plan, out):
        typer.echo(f"{out} is provisioned already: nothing done")
    elif demo_data:
        provision_demo(plan, out, valid_days, ledgers=ledgers_folder(ledgers, real_data=False))
    else:
        if data is None and any(user.data is None for user in plan.users):
            raise PlanError("the users have no data: give --data DIR, or --demo-data to make some up")
        files = None if data is None else data_folder(plan, data)
        books = ledgers_folder(ledgers, real_data=True)
        provision(plan, out, files, valid_days, allow_clipping=allow_clipping, ledgers=books, say=warn)
    if deliver_to is not None:
        deliver(out, deliver_to, owner)
    if deliver_to is None:
        typer.echo(f"{plan.n} bundles in {out / 'users'}; start them with: network-dp launch {out}")
    else:
        typer.echo(f"{plan.n} bundles, each on its user's own disk in {deliver_to / 'users'}")
