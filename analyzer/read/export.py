"""A log as it may be handed to others: steps, neighbours and tags; no values, contributions, noise, times or keys."""

from __future__ import annotations

import gzip
from pathlib import Path

from analyzer.errors import InputError
from analyzer.read.load import read_header, records
from network_dp import view


def export(source: Path, target: Path, *, replace: bool = False) -> int:
    """Write the exported form of ``source`` (gzip if the target's name ends in .gz); the number of lines kept.

    The log itself is never written to, under whatever name; another file that is there only if ``replace``.
    """
    read_header(source)
    if target.exists() and target.samefile(source):
        raise InputError(target, None, "is the log itself: give another file, or its values are lost")
    lines = []
    for _, record in records(source, []):
        line = view.exported(record)
        if line is not None:
            lines.append(line)
    text = "".join(line + "\n" for line in lines).encode()
    if target.suffix == ".gz":
        text = gzip.compress(text, mtime=0)  # no time of writing either
    try:
        with target.open("wb" if replace else "xb") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(target, None, "exists: give another name, or --replace") from None
    except OSError as error:
        raise InputError(target, None, f"cannot be written: {error.strerror}") from None
    return len(lines)
