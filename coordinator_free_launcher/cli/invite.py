"""``invite`` and ``join``: enrol machines of one network with a short code instead of files."""

from __future__ import annotations

import socket
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from coordinator_free_launcher.cli.budget import own_ledger
from coordinator_free_launcher.cli.lan import Root, take_part
from coordinator_free_launcher.cli.options import finite
from coordinator_free_launcher.cli.provision import read_plan
from network_dp.errors import UserError

WaitS = Annotated[
    float, typer.Option("--wait", min=1.0, max=86400.0, callback=finite, help="Seconds to wait for the others.")
]


def _check_extra() -> None:
    for module in ("spake2", "zeroconf"):
        if find_spec(module) is None:
            raise UserError(f"{module} is missing: install network-dp[lan]")


def invite_command(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan; whoever joins brings its address.")],
    out: Annotated[Path, typer.Option(help="New folder for the signed plan and the signer's key.")],
    host: Annotated[str, typer.Option(help="IP address to listen at.")] = "0.0.0.0",  # noqa: S104 - that is its purpose
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at.")] = 7090,
    announce: Annotated[
        bool,
        typer.Option(
            " /--no-announce", show_default=False, help="Do not let the others find this machine by multicast DNS."
        ),
    ] = True,
    wait_s: WaitS = 1800.0,
) -> None:
    """Show a code; when every user of the plan has joined with it, sign the plan and send it to all of them.

    Join from this machine too if you take part. Keys stay where they are made; nothing runs after this.
    """
    _check_extra()
    from coordinator_free_launcher.identity.channel import new_code
    from coordinator_free_launcher.identity.discover import announced
    from coordinator_free_launcher.identity.invite import invite

    plan = read_plan(plan_file)
    if (out / "public").exists():
        raise UserError(f"{out / 'public'} exists; give a new folder")
    out.mkdir(parents=True, exist_ok=True)  # now: after everybody has joined it would be too late to refuse
    code = new_code()
    with socket.create_server((host, port)) as listener:
        port, here = listener.getsockname()[1], _own_addresses(host)
        with announced(plan.name, here, port) if announce else nullcontext():
            typer.echo(
                f"code {code}\nEverybody types: network-dp join {code} --name NAME --data FILE --dir {plan.name}"
            )
            typer.echo(f"and, if they do not find this machine: --at {here[0]}:{port}")
            public = invite(plan, code, out, listener, wait_s=wait_s, say=typer.echo)
    typer.echo(f"everybody has the plan; it is in {public}. Keep {out / 'ca'} to yourself")


def _own_addresses(host: str) -> list[str]:
    """The addresses of this machine at which others can reach it."""
    if host != "0.0.0.0":  # noqa: S104
        return [host]
    import ifaddr

    found = [str(ip.ip) for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4]
    return [ip for ip in found if not ip.startswith("127.")] or ["127.0.0.1"]


def join_command(
    code: Annotated[str, typer.Argument(help="The code that the inviting machine shows.")],
    name: Annotated[str, typer.Option(help="Your name in the plan.")],
    folder: Root = Path(),
    data: Annotated[Path | None, typer.Option(help="Your data: .csv, .npy or .jsonl. It stays where it is.")] = None,
    at: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="The inviting machine (default: look).")] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port at which the others reach you.")] = 7000,
    wait_s: WaitS = 1800.0,
) -> None:
    """Make your key, here, join by a code, and receive the signed plan once everybody has joined."""
    _check_extra()
    from coordinator_free_launcher.identity.bundle import user_folder
    from coordinator_free_launcher.identity.discover import find
    from coordinator_free_launcher.identity.enrol import check_own, keygen
    from coordinator_free_launcher.identity.invite import Joining

    check_own(name, data)
    folder.mkdir(parents=True, exist_ok=True)  # here, not after everybody has waited
    joining = Joining(find() if at is None else _place(at), code)
    try:
        card = folder / f"{name}.card"
        begun = user_folder(folder, name)
        if not card.exists() or not begun.exists() or (begun / "plan.toml").exists():  # else: an earlier try
            card = keygen(name, f"{joining.address}:{port}", folder, f"0.0.0.0:{port}", data, own_ledger(None, name))
        joining.send_card(card)
        typer.echo("joined; waiting for the others")
        joining.receive_public(folder / "public", wait_s)
    finally:
        joining.close()
    take_part(folder / "public", folder)


def _place(at: str) -> tuple[str, int]:
    host, _, port = at.rpartition(":")
    if not host or not port.isdecimal():
        raise UserError(f'--at "{at}": must be HOST:PORT')
    return host, int(port)
