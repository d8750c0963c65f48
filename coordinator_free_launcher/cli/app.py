"""``network-dp``: the command line. One file per group of commands; heavy imports wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer

from coordinator_free_launcher.cli import (
    analyze,
    attack,
    audit,
    bounds,
    budget,
    chaos,
    deploy,
    graph,
    interchange,
    invite,
    lan,
    plan,
    provision,
    reproduce,
    run,
    simulate,
    watch,
)
from coordinator_free_launcher.cli.crash import guarded
from coordinator_free_launcher.cli.errors import Commands
from network_dp import __version__

app = typer.Typer(
    name="network-dp",
    cls=Commands,
    help=(
        "People compute sums, means, histograms and models together, each learning almost nothing about any other, "
        "with no server.\n\nStart here: `network-dp plan new`, then `network-dp run PLAN`."
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

#: Help's panels, each with its commands in the order in which somebody needs them.
PANELS: Final[Mapping[str, Mapping[str, Callable[..., None] | typer.Typer]]] = {
    "Start here": {"demo": run.demo_command, "plan": plan.plans, "run": run.run_command},
    "A run, step by step": {
        "provision": provision.provision_command,
        "launch": run.launch_command,
        "status": run.status_command,
        "watch": watch.watch_command,
        "chaos": chaos.chaos_command,
        "node": run.node_command,
    },
    "Several machines": {
        "invite": invite.invite_command,
        "join": invite.join_command,
        "keygen": lan.keygen_command,
        "sign": lan.sign_command,
        "accept": lan.accept_command,
        "doctor": lan.doctor_command,
        "compose": deploy.compose_command,
        "stack": deploy.stack_command,
        "health": deploy.health_command,
    },
    "What happened, and what could be learned": {
        "analyze": analyze.analyze,
        "export": analyze.export,
        "attack": attack.attack,
        "audit": audit.audit,
    },
    "Numbers before a run, and for others": {
        "bounds": bounds.bounds,
        "calibrate": bounds.calibrate,
        "graph": graph.graph,
        "budget": budget.budgets,
        "guarantee": interchange.guarantee_command,
        "statement": interchange.statement_command,
    },
    "Experiments": {"reproduce": reproduce.reproduce, "simulate": simulate.simulations, "data": reproduce.data},
}


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"network-dp {__version__}")
        raise typer.Exit


@app.callback()
def network_dp(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


for panel, commands in PANELS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(command)


def main() -> None:
    """Entry point of the console script."""
    guarded(app)


if __name__ == "__main__":
    main()
