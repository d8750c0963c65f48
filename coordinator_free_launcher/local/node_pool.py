"""A handle on the forking parent (``python -m node.many.zygote``): start users, hear what becomes of them.

The parent routes nothing and knows nothing of the walk beyond the furthest step its children mention.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.environment import ONE_POLLER

PARENT = "node.many.zygote"
LEAN_ENVIRONMENT = {
    **ONE_POLLER,
    "GRPC_ENABLE_FORK_SUPPORT": "0",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "GRPC_VERBOSITY": "NONE",
}


@dataclass(frozen=True, slots=True)
class PoolEvent:
    """One line from the parent: ``kind`` is ready, started, step, exit or error."""

    kind: str
    name: str
    value: int


class NodePool:
    """Started users are processes of their own; closing this handle ends them unless it is detached."""

    def __init__(self, run: Path, *, detach: bool = False, parent: str = PARENT) -> None:
        """``parent``: the module that forks; another one may do something to this machine before it does."""
        command = [sys.executable, "-m", parent, str(run.absolute())] + (["--detach"] if detach else [])
        log = (run / "launcher.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **LEAN_ENVIRONMENT},
                start_new_session=True,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        for end in (self._in, self._out):
            os.set_blocking(end.fileno(), False)
        self._news, self._either = selectors.DefaultSelector(), selectors.DefaultSelector()
        self._news.register(self._out, selectors.EVENT_READ)
        self._either.register(self._out, selectors.EVENT_READ)
        self._either.register(self._in, selectors.EVENT_WRITE)
        self._rest = b""
        self.pids: dict[str, int] = {}

    def start(self, bundle: Path, **options: str | bool) -> None:
        self._say(json.dumps({"start": str(bundle.absolute()), **options}).encode() + b"\n")

    def _say(self, left: bytes) -> None:
        """Write and listen: with thousands of users both pipes fill up, and each end would wait for the other."""
        while left:
            ready = {key.fileobj for key, _ in self._either.select()}
            if self._out in ready and not self._hear():
                return  # the parent is gone: ``news`` will say so
            if self._in in ready:
                left = left[os.write(self._in.fileno(), left) :]

    def _hear(self) -> bool:
        """Take in what the parent has written. False: it is gone."""
        data = self._out.read()
        self._rest += data or b""
        return data != b""

    def news(self, timeout_s: float) -> Iterator[PoolEvent]:
        """What happened until ``timeout_s`` has passed or something did; ends at once when the parent is gone."""
        if b"\n" not in self._rest:
            if not self._news.select(timeout_s):
                return
            if not self._hear():
                yield PoolEvent("gone", "", self._process.wait(5.0))
                return
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            yield from self._parse(json.loads(line))

    def _parse(self, values: dict[str, Any]) -> Iterator[PoolEvent]:
        if "pid" in values and ("started" in values or "ready" in values):
            self.pids[values.get("started") or values["ready"]] = values["pid"]
        for kind in ("ready", "started", "exit", "error"):
            if kind in values:
                if kind == "exit" and self.pids.get(values[kind]) == values["pid"]:
                    del self.pids[values[kind]]
                yield PoolEvent(kind, str(values[kind]), int(values.get("code", 0)))
        if "step" in values:
            yield PoolEvent("step", "", int(values["step"]))

    def close(self, patience_s: float = 15.0) -> None:
        """Close the parent's input: not detached, it asks every user to stop; wait until all have.

        A parent that was killed can ask nobody: then the users it started are asked from here.
        """
        if self._process.poll() is not None:
            self._stop_orphans()
        with contextlib.suppress(BrokenPipeError):
            self._in.close()
        deadline = time.monotonic() + patience_s
        while self._process.poll() is None and time.monotonic() < deadline:
            for _ in self.news(0.2):
                pass
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(5.0)
        self.release()

    def _stop_orphans(self) -> None:
        for pid in self.pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def release(self) -> None:
        """Let go without a word (the users of a detached parent go on)."""
        if not self._in.closed:
            self._in.close()
        self._news.close()
        self._either.close()
        self._out.close()
