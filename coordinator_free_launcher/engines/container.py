"""The process of a container: one user's node, then what this user hands over.

``python -m coordinator_free_launcher.engines.container BUNDLE [--from DIR ...] [--handover DIR [--with-values]]
[--first-life] [--stay]``

``--from``: copy the files there to the bundle first, readable by this user alone (an engine's mounts are not).
``--handover``: after a finished run, the user's exported view (no values, see network_dp.view) and its result go there.
``--with-values``: hand over the whole view, values and noise too: for made-up data, to let the analyzer recompute all.
``--first-life``: the state disk may be new. Engines like Swarm and Kubernetes hand out empty disks and cannot be asked
whether one was lost; there, a second life is caught by the peers, who remember more than an empty journal.
``--stay``: when the run is over, stay up until asked to end, for engines that restart whatever ends.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
from pathlib import Path

from coordinator_free_launcher.budget import charge_aside
from coordinator_free_launcher.identity.bundle import make_born, read_node_file
from node import environment
from node.storage import result_file


def hand_over(bundle: Path, target: Path, *, with_values: bool) -> None:
    """Copy what this user shows to the analyzer: its view, and the result if it has one."""
    view = bundle / "state" / "view.jsonl"
    if with_values:
        shutil.copyfile(view, target / "view.jsonl")
    else:
        from analyzer.read.export import export  # only now: a node's memory has no room for the analyzer

        export(view, target / "view.jsonl", replace=True)
    result = bundle / "state" / "result.json"
    if result.exists():
        result_file.write(target / "result.json", result_file.shared(json.loads(result.read_text())))


def take_over(source: Path, bundle: Path) -> None:
    """Copy the files of a mount to the bundle, with mode 0600."""
    for path in source.iterdir():
        if path.is_file():  # an engine keeps its book-keeping in folders beside the files
            target = bundle / path.name
            target.touch(mode=0o600)
            shutil.copyfile(path, target)


def main(arguments: list[str] | None = None) -> int:
    environment.set_up()
    from node.app import run  # not before: it loads gRPC

    parser = argparse.ArgumentParser(prog="container")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--from", dest="sources", type=Path, action="append", default=[])
    parser.add_argument("--handover", type=Path)
    parser.add_argument("--with-values", action="store_true")
    parser.add_argument("--first-life", action="store_true")
    parser.add_argument("--stay", action="store_true")
    options = parser.parse_args(arguments)

    bundle: Path = options.bundle
    for source in options.sources:
        take_over(source, bundle)
    if options.first_life:
        make_born(bundle / "state", read_node_file(bundle).name)
    code = charge_aside(bundle) or run(bundle)
    if code == 0 and options.handover is not None:
        hand_over(bundle, options.handover, with_values=options.with_values)
    if code == 0 and options.stay:
        ends = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        signal.sigwait(ends)
    return code


if __name__ == "__main__":
    sys.exit(main())
