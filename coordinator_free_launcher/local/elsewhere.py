"""Which users on other machines answer? Asked now and then while a run stands still, from a thread of its own.

It only connects to the port that the plan (or addresses.toml) names: `network-dp doctor` finds out more.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from coordinator_free_launcher.identity.bundle import user_folder
from network_dp.plan import Plan

ANSWER_S: Final = 2.0
EVERY_S: Final = 5.0
ASKED: Final = 40  # users at most: a screen names fewer


class Elsewhere:
    """``silent`` names those that did not answer when last asked; it asks again by itself while it is read."""

    def __init__(self, run: Path, plan: Plan, here: Sequence[str]) -> None:
        self._names = [name for name in plan.names if name not in set(here)][:ASKED]
        self._run, self._plan, self._here = run, plan, here
        self._silent: tuple[str, ...] | None = None
        self._ask_at = 0.0
        self._asking = threading.Lock()

    def silent(self) -> tuple[str, ...] | None:
        """None: not known yet."""
        if not self._names:
            return ()
        if time.monotonic() >= self._ask_at and self._asking.acquire(blocking=False):
            threading.Thread(target=self._ask, daemon=True).start()
        return self._silent

    def _ask(self) -> None:
        try:
            addresses = self._addresses()
            with ThreadPoolExecutor(max_workers=16) as pool:
                answers = pool.map(lambda name: _answers(addresses[name]), self._names)
                self._silent = tuple(name for name, there in zip(self._names, answers, strict=True) if not there)
        finally:
            self._ask_at = time.monotonic() + EVERY_S
            self._asking.release()

    def _addresses(self) -> dict[str, str]:
        from node.app import moved
        from node.config import read_bundle

        bundle = read_bundle(user_folder(self._run, self._here[0]))
        elsewhere = moved(bundle)
        return {user.name: elsewhere.get(index, user.address) for index, user in enumerate(self._plan.users)}


def _answers(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()
    except OSError:
        return False
    return True
