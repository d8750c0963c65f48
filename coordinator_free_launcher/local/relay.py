"""What users on this machine warn of in their process logs, for the screen of whoever started them.

A process log holds no value of anybody's data (node/logs.py). The same sentence of many users is told once, and again
only after a while; what does not fit on a screen is counted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from coordinator_free_launcher.identity.bundle import user_folder
from coordinator_free_launcher.tail import Tail

AGAIN_S: Final = 30.0  # before a sentence is told again
LOOK_EVERY_S: Final = 0.5
LINES: Final = 5  # per look
NAMES: Final = 3
_LINE: Final = re.compile(rb"time=\S+ \S+ user=\S+ level=(?:WARNING|ERROR|CRITICAL) from=\S+ (.+)")


class Relay:
    """``news`` at any time; it looks at the logs every half second at most."""

    def __init__(self, run: Path, names: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._tails = {name: Tail(user_folder(run, name) / "state" / "node.log", from_end=True) for name in names}
        self._clock, self._look_at = clock, clock()
        self._told: dict[str, float] = {}

    def news(self) -> list[str]:
        """Sentences since the last look, each with the users that say it."""
        now = self._clock()
        if now < self._look_at:
            return []
        self._look_at = now + LOOK_EVERY_S
        said: dict[str, list[str]] = {}
        for name, tail in self._tails.items():
            for line in tail.lines():
                if found := _LINE.fullmatch(line.strip()):
                    said.setdefault(found[1].decode(errors="replace"), []).append(name)
        self._told = {text: at for text, at in self._told.items() if now - at < AGAIN_S}
        fresh = [(text, list(dict.fromkeys(names))) for text, names in said.items() if text not in self._told]
        shown = fresh[:LINES]
        self._told.update({text: now for text, _ in shown})
        more = len(fresh) - len(shown)
        lines = [f"{_users(names)}: {text}" for text, names in shown]
        return [*lines, f"... and {more} more, in the users' node.log"] if more > 0 else lines


def _users(names: Sequence[str]) -> str:
    return f"{', '.join(names[:NAMES])} and {len(names) - NAMES} more" if len(names) > NAMES else ", ".join(names)
