"""``network-dp``: the command line. One file per group of commands; heavy imports wait."""

from __future__ import annotations

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
PANELS: Final = {
    "Start here": "demo plan run",
    "A run, step by step": "provision launch status watch chaos node",
    "Several machines": "invite join keygen sign accept doctor compose stack health",
    "What happened, and what could be learned": "analyze export attack audit",
    "Numbers before a run, and for others": "bounds calibrate graph budget guarantee statement",
    "Experiments": "reproduce simulate data",
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


for module in (
    plan,
    run,
    watch,
    provision,
    analyze,
    attack,
    audit,
    bounds,
    budget,
    interchange,
    chaos,
    deploy,
    graph,
    simulate,
    reproduce,
):
    module.register(app)

_PANEL: Final = {name: panel for panel, names in PANELS.items() for name in names.split()}
app.registered_commands.sort(key=lambda command: list(_PANEL).index(str(command.name)))
for command in app.registered_commands:
    command.rich_help_panel = _PANEL[str(command.name)]
for group in app.registered_groups:
    group.rich_help_panel = _PANEL[str(group.name)]


def main() -> None:
    """Entry point of the console script."""
    guarded(app)


if __name__ == "__main__":
    main()
