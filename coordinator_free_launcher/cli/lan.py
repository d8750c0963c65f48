"""Commands for users on machines of their own: ``keygen``, ``sign``, ``accept``, ``doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coordinator_free_launcher.cli.budget import Ledgers, own_ledger
from coordinator_free_launcher.cli.options import ValidDays, finite
from coordinator_free_launcher.cli.provision import read_plan, warn
from coordinator_free_launcher.cli.say import say

Root = Annotated[Path, typer.Option("--dir", help="Folder of this machine's share of the run.")]


def keygen_command(
    name: Annotated[str, typer.Argument(help="Your name in the plan.")],
    address: Annotated[str, typer.Option(help="HOST:PORT at which the others reach you.")],
    folder: Root = Path(),
    bind: Annotated[str | None, typer.Option(help="HOST:PORT to listen at, if not the same.")] = None,
    data: Annotated[Path | None, typer.Option(help="Your data: .csv, .npy or .jsonl. It stays where it is.")] = None,
    ledgers: Ledgers = None,
) -> None:
    """Make your key, here, and a card to give to the person who signs. The key never leaves this machine."""
    from coordinator_free_launcher.identity.enrol import keygen

    card = keygen(name, address, folder, bind, data, own_ledger(ledgers, name))
    say(f"key made. Send {card} to the person who signs; it holds nothing secret")


def sign_command(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan; cards bring the addresses.")],
    cards: Annotated[list[Path], typer.Argument(metavar="CARD...", help="One card of every user.")],
    out: Annotated[Path, typer.Option(help="Folder for the result.")],
    valid_days: ValidDays = 365.0,
) -> None:
    """Sign the cards of all users and finish the plan. Needs no network."""
    from coordinator_free_launcher.identity.enrol import Card, sign

    public = sign(read_plan(plan_file), [Card.read(path) for path in cards], out, valid_days)
    say(f"signed. Send the folder {public} to every user; keep {out / 'ca'} to yourself")


def accept_command(
    public: Annotated[Path, typer.Argument(metavar="PUBLIC", help="The folder that `sign` wrote.")],
    folder: Root = Path(),
    replace: Annotated[
        bool, typer.Option("--replace", help="Give up another plan that was accepted here before.")
    ] = False,
) -> None:
    """Take the signed plan and certificates, check that they name your key, and complete your bundle.

    Shows what the plan asks of you; what it promises is computed here, from its noise."""
    take_part(public, folder, replace=replace)


def take_part(public: Path, folder: Path, *, replace: bool = False) -> None:
    """Show the terms of a signed plan, accept it, and say how to start."""
    from coordinator_free_launcher.identity.enrol import accept, own_data, read_signed
    from coordinator_free_launcher.identity.look import look
    from coordinator_free_launcher.identity.terms import terms

    plan = read_signed(public)
    for what, text in terms(plan).items():
        typer.echo(f"{what:<9} {text}")
    remarks = look(plan, own_data(plan, folder), allow_clipping=True)
    names = accept(public, folder, replace=replace)
    for remark in remarks:
        warn(remark)
    for name in names:
        say(f"ready. Start with: network-dp launch {folder} --only {name}")


def doctor_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of this machine's share of the run.")] = Path(),
    only: Annotated[str | None, typer.Option(help="Which user of the folder to ask as.")] = None,
    answer_s: Annotated[
        float, typer.Option("--timeout", min=0.1, max=600.0, callback=finite, help="Seconds to wait for each answer.")
    ] = 5.0,
) -> None:
    """Check names, ports, certificates, plans and clocks of all users from here, and say what to fix."""
    from coordinator_free_launcher.doctor import examine

    bundle = _bundle(folder, only)
    if (bundle / "state" / "result.json").exists():
        typer.echo(f"{bundle.name} has the final result: the run is over, and users that have it stop serving")
        return
    findings = examine(bundle, answer_s)
    for finding in findings:
        say(f"{'ok ' if finding.fine else 'BAD'} {finding.user}: {finding.check}: {finding.found}")
        if finding.remedy:
            say(f"    {finding.remedy}")
    ill = {finding.user for finding in findings if not finding.fine}
    typer.echo(f"{len(ill)} of {len({f.user for f in findings})} users need attention" if ill else "all is well")
    raise typer.Exit(1 if ill else 0)


def _bundle(folder: Path, only: str | None) -> Path:
    """The bundle meant by a folder: itself, or the one in its users/."""
    if (folder / "node.toml").exists():
        return folder
    if only is not None:
        return folder / "users" / only
    found = sorted(path.parent for path in folder.glob("users/*/node.toml"))
    if not found:
        from node.errors import BundleError

        raise BundleError(f"{folder}: neither a bundle nor a folder with users/NAME")
    return found[0]
