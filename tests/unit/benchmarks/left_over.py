"""Who is left when a benchmark has ended."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def commands_in(folder: Path) -> list[str]:
    """Of processes that work in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_text(errors="replace"))
    return [command for command in found if str(folder) in command]
