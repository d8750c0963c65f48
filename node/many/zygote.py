"""The lean parent of many users on one machine: imports once, then forks a process per user.

A fresh exec that never makes a gRPC call and keeps nothing random that its children would repeat. Each child shares the
parent's pages, so a user costs a few MiB. Commands come as JSON lines on standard input ({"start": BUNDLE}), news
leaves as JSON lines on standard output ({"ready": NAME}, {"step": S}, {"exit": NAME, "code": C}). It routes nothing:
once users run, killing it stops none of them when it was started with --detach.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import selectors
import signal
import struct
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from cryptography import x509

from network_dp.plan import PlanError
from node.app import Options, run
from node.config import Public, read_public
from node.errors import NodeError
from node.logs import described
from node.many.immortal import make_immortal
from node.noise import SystemSource
from node.pins import pin_of
from node.protocols import exits
from node.tasks import Task, TaskError, load_table, make_task

_NEWS = struct.Struct("<iq")  # pid, step; step -1: ready
_NEWS_EVERY_S = 0.1
WARM_DIMENSION_MAX = 1 << 12
MANY, LONG_WALK = 10, 10_000  # users, hops: from here on the time it takes to share memory for ever is well spent


@dataclass(slots=True)
class Children:
    """Children of this process, and the pipe on which they report."""

    public: Public
    task: Task | None
    news_out: int
    news_in: int
    names: dict[int, str] = field(default_factory=dict)
    step: int = -1

    def start(self, folder: Path, options: dict[str, str | bool]) -> int:
        # A child that is asked to stop before it has handlers of its own must not run this process's instead.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        pid = os.fork()
        if pid == 0:
            self._child(folder, options)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        self.names[pid] = folder.name
        return pid

    def _child(self, folder: Path, options: dict[str, str | bool]) -> None:
        code = exits.INTERNAL
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            os.setpgid(0, 0)
            _redirect(folder)
            pid = os.getpid()
            code = run(
                folder,
                Options(
                    rejoin=bool(options.get("rejoin")),
                    crash_at=str(options["crash_at"]) if options.get("crash_at") else None,
                    warm_channels=int(options["warm_channels"]) if "warm_channels" in options else None,
                    pause_s=1.0 / float(options["pace"]) if "pace" in options else 0.0,
                    on_ready=lambda: self._report(pid, -1),
                    on_progress=lambda step: self._report(pid, step),
                ),
                self.public,
                self.task,
            )
        except BaseException as error:
            print(f"ended by {described(error)}", file=sys.stderr)  # its text may hold a value
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _report(self, pid: int, step: int) -> None:
        try:
            os.write(self.news_out, _NEWS.pack(pid, step))
        except OSError:
            return  # nobody listens, or the pipe is full: news is not worth waiting for

    def read_news(self) -> None:
        data = os.read(self.news_in, _NEWS.size * 4096)
        for pid, step in _NEWS.iter_unpack(data[: len(data) // _NEWS.size * _NEWS.size]):
            if step < 0:
                say(ready=self.names.get(pid, "?"), pid=pid)
            self.step = max(self.step, step)

    def reap(self) -> None:
        while self.names:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            say(exit=self.names.pop(pid, "?"), code=code, pid=pid)

    def stop_all(self) -> None:
        for pid in self.names:
            os.kill(pid, signal.SIGTERM)


def say(**news: object) -> None:
    try:
        print(json.dumps(news), flush=True)
    except OSError:
        # The launcher is gone; with --detach the users go on without it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _redirect(folder: Path) -> None:
    """Process logs of a child go to its own state folder."""
    (folder / "state").mkdir(mode=0o700, exist_ok=True)
    file = os.open(folder / "state" / "node.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    os.close(null)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m node.many.zygote")
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--detach", action="store_true", help="users outlive this process's input")
    arguments = parser.parse_args()
    try:
        public = read_public(arguments.run)
    except NodeError as error:
        say(error=str(error))
        return error.exit_code
    news_in, news_out = os.pipe()
    os.set_blocking(news_out, False)
    try:
        task = make_task(public.plan)
    except (TaskError, PlanError) as error:
        say(error=str(error))
        return exits.BAD_INPUT
    # A task of the user's own may keep what it drew, against its contract: it is made anew in every child.
    shared = None if public.plan.task.own_code else task
    children = Children(public, shared, news_out, news_in)
    _warm_up(public, task)
    gc.collect()
    if public.plan.n >= MANY or public.plan.total_steps >= LONG_WALK:
        make_immortal()
    gc.freeze()
    return _loop(children, detach=arguments.detach)


def _warm_up(public: Public, task: Task) -> None:
    """Walk the paths every user will walk, so that what they touch for the first time is shared by all of them."""
    source = SystemSource()
    if task.dimension > WARM_DIMENSION_MAX:
        return  # a long token's own memory outweighs what could be shared
    for _ in range(16):
        task.draw_many(source, 4)
        pin_of(x509.load_pem_x509_certificate(public.certificates[0]))
        asyncio.new_event_loop().close()
    public.plan.index(public.plan.names[0])
    with tempfile.TemporaryDirectory() as folder:
        _read_tables(Path(folder))


def _read_tables(folder: Path) -> None:
    """Nobody's data, in every format there is."""
    np.save(folder / "table.npy", np.zeros((2, 2)))
    (folder / "table.csv").write_text("0,0\n0,0\n")
    (folder / "table.jsonl").write_text("[0, 0]\n[0, 0]\n")
    for path in (*folder.iterdir(), *folder.iterdir()):
        load_table(path)


def _loop(children: Children, *, detach: bool) -> int:
    wake_in, wake_out = os.pipe()
    for end in (wake_in, wake_out):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher decides; it closes our input
    signal.signal(signal.SIGTERM, lambda number, frame: children.stop_all())
    selector = selectors.DefaultSelector()
    for end in (0, children.news_in, wake_in):
        selector.register(end, selectors.EVENT_READ)
    pending, said, said_at, open_input = b"", -1, 0.0, True
    say(zygote=os.getpid())
    while open_input or children.names:
        ready = selector.select(_NEWS_EVERY_S if children.step != said else None)
        ends = {key.fd for key, _ in ready}
        if children.news_in in ends:
            children.read_news()
        if wake_in in ends:
            os.read(wake_in, 4096)
            children.reap()
        if 0 in ends:
            data = os.read(0, 1 << 16)
            if not data:
                open_input = False
                selector.unregister(0)
                if not detach:
                    children.stop_all()
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                command = json.loads(line)
                pid = children.start(Path(command["start"]), command)
                say(started=Path(command["start"]).name, pid=pid)
        if children.step != said and time.monotonic() - said_at >= _NEWS_EVERY_S:
            said, said_at = children.step, time.monotonic()
            say(step=said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
