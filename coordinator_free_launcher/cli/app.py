"""``network-dp``: the command line. One file per group of commands; heavy imports wait."""

from __future__ import annotations

from typing import Annotated

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


def main() -> None:
    """Entry point of the console script."""
    guarded(app)


if __name__ == "__main__":
    main()
