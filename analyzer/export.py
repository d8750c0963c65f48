"""A log as it may be handed to others: steps, neighbours and tags; no values, contributions, noise, times or keys."""

from __future__ import annotations

import gzip
from pathlib import Path

from analyzer.load import read_header, records
from network_dp import view


def export(source: Path, target: Path) -> int:
    """Write the exported form of ``source`` (gzip if the target's name ends in .gz); the number of lines kept."""
    read_header(source)
    lines = []
    for _, record in records(source, []):
        line = view.exported(record)
        if line is not None:
            lines.append(line)
    text = "".join(line + "\n" for line in lines).encode()
    if target.suffix == ".gz":
        text = gzip.compress(text, mtime=0)  # no time of writing either
    target.write_bytes(text)
    return len(lines)
