"""Where the command line begins. It imports nothing before it can answer Ctrl-C in one line."""

from __future__ import annotations

import sys
from typing import Final

INTERRUPTED: Final = 130  # as a shell counts it: 128 + SIGINT


def main() -> None:
    """Entry point of the console script."""
    try:
        from coordinator_free_launcher.cli.app import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        raise SystemExit(INTERRUPTED) from None
