"""What others on this machine can see of a user's process: its title, and how its last run ended."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from setproctitle import setproctitle

from network_dp.untrusted import FormatError, read_text

EXIT_FILE: Final = "exit"  # in the state folder: the code of a process that ended by itself; a killed one leaves none


def name_process(bundle: Path) -> None:
    """So that `ps` and `top` tell users apart; the run's folder stays in it."""
    setproctitle(f"network-dp {bundle.name} {bundle.absolute().parent.parent}")


def begins(state: Path) -> None:
    with suppress(OSError):
        (state / EXIT_FILE).unlink(missing_ok=True)


def ends(state: Path, code: int) -> None:
    """A full disk takes no number: the user then counts as killed, which is no worse."""
    if state.is_dir():
        with suppress(OSError):
            (state / EXIT_FILE).write_text(f"{code}\n")


def last_exit(state: Path) -> int | None:
    """How the last process of this user ended; None: it runs, was killed or never started."""
    try:
        return int(read_text(state / EXIT_FILE))
    except (OSError, ValueError, FormatError):
        return None
