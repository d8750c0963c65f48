"""``python -m node BUNDLE``: one user, one process."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from node import environment


def main() -> int:
    environment.set_up()
    from node.app import Options, run  # not before: it loads gRPC

    parser = argparse.ArgumentParser(prog="python -m node", description="Take part in a run as one user.")
    parser.add_argument("bundle", type=Path, help="the user's folder (made by `network-dp provision` or `sign`)")
    parser.add_argument("--rejoin", action="store_true", help="come back after a lost or old disk, as receiver only")
    parser.add_argument("--crash-at", metavar="EFFECT[:N]", help="fault injection, insecure runs only")
    parser.add_argument("--warm-channels", type=int, help="connections kept open (default: by the size of the run)")
    arguments = parser.parse_args()
    options = Options(rejoin=arguments.rejoin, crash_at=arguments.crash_at, warm_channels=arguments.warm_channels)
    return run(arguments.bundle, options)


if __name__ == "__main__":
    sys.exit(main())
