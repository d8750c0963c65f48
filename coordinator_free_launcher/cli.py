"""``network-dp``: the command line. Commands live in ``cli_*`` modules; what is heavy is imported when it is needed."""

from __future__ import annotations

import typer

from coordinator_free_launcher import (
    cli_analyze,
    cli_bounds,
    cli_chaos,
    cli_deploy,
    cli_identity,
    cli_plan,
    cli_reproduce,
    cli_run,
    cli_simulate,
)
from coordinator_free_launcher.crash import guarded

app = typer.Typer(
    name="network-dp",
    help=(
        "People compute sums, means, histograms and models together, each learning almost nothing about any other, "
        "with no server.\n\nStart here: `network-dp plan new`, then `network-dp run PLAN`."
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

for module in (
    cli_plan,
    cli_run,
    cli_identity,
    cli_analyze,
    cli_bounds,
    cli_chaos,
    cli_deploy,
    cli_simulate,
    cli_reproduce,
):
    module.register(app)


def main() -> None:
    """Entry point of the console script."""
    guarded(app)


if __name__ == "__main__":
    main()
