"""Start the users of a run that live on this machine, watch, and report; never in the way of the token.

Users are processes of their own. The launcher starts the starter last, when everybody else here is serving, so that
nobody is offered a token before it can take one. After that it only listens.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordinator_free_launcher.bundle import user_folder
from coordinator_free_launcher.nursery import News, Nursery
from network_dp.plan import Plan
from network_dp.plan_reader import load
from network_dp.untrusted import FormatError, json_table, read_text
from node.protocol import exits
from node.result_file import shared

LAST_LINES = 15


class LaunchError(RuntimeError):
    """The run cannot be started, or a user failed; the message says who and why."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a launch stands, for a progress bar."""

    serving: int
    users: int
    step: int
    total: int


@dataclass(slots=True)
class Outcome:
    """How a launch ended: exit code of every user, and the result where one is final."""

    codes: dict[str, int] = field(default_factory=dict)
    result: dict[str, Any] | None = None
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        return bool(self.codes) and all(code == exits.DONE for code in self.codes.values())


def read_run(run: Path) -> Plan:
    try:
        return load(run / "plan.toml")
    except FileNotFoundError:
        raise LaunchError(f"{run} has no plan.toml: give a folder made by `network-dp provision`") from None
    except OSError as error:
        raise LaunchError(f"{run / 'plan.toml'}: {error.strerror}") from None


def local_users(run: Path, plan: Plan, only: list[str] | None) -> list[str]:
    """Users of the plan whose bundles are here, in plan order."""
    here = [name for name in plan.names if user_folder(run, name).is_dir()]
    for name in only or []:
        if name not in here:
            raise LaunchError(f"{name}: no bundle of that name in {run / 'users'}")
    chosen = [name for name in here if not only or name in only]
    if not chosen:
        raise LaunchError(f"{run / 'users'}: no bundle of a user of this plan")
    return chosen


def results(run: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """result.json of every user that has one."""
    paths = {name: user_folder(run, name) / "state" / "result.json" for name in names}
    return {name: read_result(path) for name, path in paths.items() if path.exists()}


def read_result(path: Path) -> dict[str, Any]:
    try:
        return json_table(read_text(path))
    except FormatError as error:
        raise LaunchError(f"{path}: {error}") from None


def best_result(found: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """The result with its value, where somebody here has it."""
    best = max(found.values(), key=lambda result: result.get("value") is not None, default=None)
    return None if best is None else shared(best)


def finished(run: Path, names: list[str]) -> bool:
    return len(results(run, names)) == len(names)


def last_lines(run: Path, name: str) -> str:
    path = user_folder(run, name) / "state" / "node.log"
    lines = path.read_text(errors="replace").splitlines()[-LAST_LINES:] if path.exists() else []
    return "\n".join(f"    {line}" for line in lines)


class Launch:
    """One launch of some users of a run."""

    def __init__(self, run: Path, names: list[str], *, detach: bool, rejoin: bool = False) -> None:
        self.run = run
        self.plan = read_run(run)
        self.names = names
        self.outcome = Outcome()
        self.ready: set[str] = set()
        self.step = 0
        self._rejoin = rejoin
        self.nursery = Nursery(run, detach=detach)

    def start(self, name: str, **options: str | bool) -> None:
        self.ready.discard(name)
        self.outcome.codes.pop(name, None)
        if self._rejoin:
            options["rejoin"] = True
        self.nursery.start(user_folder(self.run, name), **options)

    def listen(self, timeout_s: float) -> list[News]:
        """Take in what happened; the caller may look at it too."""
        heard = list(self.nursery.news(timeout_s))
        for news in heard:
            match news.kind:
                case "ready":
                    self.ready.add(news.name)
                case "step":
                    self.step = max(self.step, news.value)
                case "exit":
                    self.ready.discard(news.name)
                    self.outcome.codes[news.name] = news.value
                case "error" | "gone":
                    text = news.name or f"the parent of the users ended with {news.value}"
                    raise LaunchError(f"{text}\nSee {self.run / 'launcher.log'}")
        return heard

    @property
    def progress(self) -> Progress:
        return Progress(len(self.ready), len(self.names), self.step, self.plan.total_steps)

    def start_all(self, show: Callable[[Progress], None]) -> None:
        """Everybody, the starter last; a bounded wait that names who is missing."""
        first = [name for name in self.names if name != self.plan.walk.starter]
        rest = [name for name in self.names if name == self.plan.walk.starter]
        for group in (first, rest):
            for name in group:
                self.start(name)
            self._wait_ready(group, show)

    def _wait_ready(self, group: list[str], show: Callable[[Progress], None]) -> None:
        patience_s = self.plan.timing.start_timeout_s + 0.1 * len(group)
        deadline = time.monotonic() + patience_s
        while missing := [n for n in group if n not in self.ready and self.outcome.codes.get(n) != exits.DONE]:
            self.listen(0.2)
            show(self.progress)
            self._fail_if_any_failed()
            if time.monotonic() > deadline:
                raise LaunchError(f"not serving after {patience_s:.0f} s: {', '.join(missing[:10])}")

    def _fail_if_any_failed(self) -> None:
        for name, code in self.outcome.codes.items():
            if code not in (exits.DONE, exits.STOPPED):
                raise LaunchError(f"{name} ended with code {code}. Its last lines:\n{last_lines(self.run, name)}")

    def wait(self, show: Callable[[Progress], None]) -> Outcome:
        """Until all users here have ended."""
        while len(self.outcome.codes) < len(self.names):
            self.listen(0.2)
            show(self.progress)
        found = results(self.run, self.names)
        self.outcome.result = best_result(found)
        return self.outcome


def launch(
    run: Path,
    *,
    only: list[str] | None = None,
    rejoin: bool = False,
    show: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Start, wait for the end, and return how it ended. Ctrl-C stops all users and leaves a resumable state."""
    names = local_users(run, read_run(run), only)
    attempt = Launch(run, names, detach=False, rejoin=rejoin)
    try:
        attempt.start_all(show)
        return attempt.wait(show)
    except KeyboardInterrupt:
        attempt.outcome.interrupted = True
        return attempt.outcome
    finally:
        attempt.nursery.close()


def launch_detached(
    run: Path, *, only: list[str] | None = None, rejoin: bool = False, show: Callable[[Progress], None]
) -> dict[str, int]:
    """Start, wait until everybody serves, and leave; returns the process ids."""
    names = local_users(run, read_run(run), only)
    attempt = Launch(run, names, detach=True, rejoin=rejoin)
    try:
        attempt.start_all(show)
    except BaseException:
        attempt.nursery.close()
        raise
    pids = dict(attempt.nursery.pids)
    attempt.nursery.release()
    return pids
