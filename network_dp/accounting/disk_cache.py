"""What takes seconds to compute, kept between runs in the user's own cache folder.

A file is only believed if it belongs to this user and nobody else may write it; what it says is for its reader to
check. ``NETWORK_DP_CACHE`` names another folder, or ``off``. Where nothing can be written, nothing is kept.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

VARIABLE: Final = "NETWORK_DP_CACHE"
_MOST_FILES: Final = 256  # of a kind


def read(name: str, most_bytes: int) -> bytes | None:
    """The first bytes of a file; None where there is none that can be believed."""
    folder = _folder()
    if folder is None:
        return None
    try:
        handle = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(file.fileno())
            own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
            return file.read(most_bytes + 1) if own else None
    except OSError:
        return None


def write(name: str, content: bytes) -> None:
    """Keep a file for the next time, and of its kind (its suffix) only the newest."""
    folder = _folder()
    if folder is None:
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=folder, prefix=".", suffix=".unfinished")  # 0600
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(unfinished).replace(folder / name)
        kept = sorted(folder.glob(f"*{Path(name).suffix}"), key=lambda path: path.stat().st_mtime)
        for path in kept[:-_MOST_FILES]:
            path.unlink(missing_ok=True)
    except OSError:
        return


def _folder() -> Path | None:
    named = os.environ.get(VARIABLE, "")
    if named == "off":
        return None
    if named:
        return Path(named)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "network-dp" / "laws"
    except RuntimeError:  # a user without a home
        return None


def fingerprint(sources: Iterable[Path]) -> str:
    """Of the code that computes what is kept: another version never finds it."""
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
