"""Start the users of a run that live on this machine, watch, and report; never in the way of the token.

Users are processes of their own. The launcher starts the starter last, when everybody else here is serving, so that
nobody is offered a token before it can take one. After that it only listens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordinator_free_launcher.budget import charge_all
from coordinator_free_launcher.identity.bundle import user_folder
from coordinator_free_launcher.local.elsewhere import Elsewhere
from coordinator_free_launcher.local.node_pool import PARENT, NodePool, PoolEvent
from coordinator_free_launcher.local.relay import Relay
from network_dp.errors import UserError
from network_dp.plan import Plan
from network_dp.plan_reader import load
from network_dp.untrusted import FormatError, json_table, read_text
from node.protocols import exits
from node.storage.result_file import shared

LAST_LINES = 15
STILL_S = 3.0  # without a step: say for whom it waits
NAMES = 5
CROWD_S = 0.1  # more patience for every user: a crowd on one machine is slow


class LaunchError(UserError, RuntimeError):
    """The run cannot be started, or a user failed; the message says who and why."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a launch is, for a progress bar."""

    serving: int
    users: int
    step: int
    total: int
    still_s: float = 0.0  # since the last step, or since somebody began to serve
    waiting: str = ""  # for whom, in words, once it has stood still for a while
    told: tuple[str, ...] = ()  # what users have warned of since the last time
    phase: str = ""  # what is done after the walk


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
    if run.is_file():
        raise LaunchError(f"{run} is a file, not the folder of a run; to run a plan here: network-dp run {run}")
    try:
        return load(run / "plan.toml")
    except FileNotFoundError:
        raise LaunchError(f"{run} has no plan.toml: give a folder made by `network-dp provision`") from None


def local_users(run: Path, plan: Plan, only: Sequence[str] | None) -> list[str]:
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

    def __init__(
        self,
        run: Path,
        only: Sequence[str] | None = None,
        *,
        detach: bool,
        rejoin: bool = False,
        pace: float | None = None,
        plan: Plan | None = None,
        parent: str = PARENT,
    ) -> None:
        """``pace``: at most so many hops per second, for an audience. ``plan``: the run's, if it was read already.
        ``parent``: see ``NodePool``."""
        self.run = run
        self.plan = plan or read_run(run)
        self.names = names = local_users(run, self.plan, only)
        charge_all(self.plan, {name: user_folder(run, name) for name in names})
        self.outcome = Outcome()
        self.ready: set[str] = set()
        self.step = 0
        self._options: dict[str, str | bool] = {"rejoin": True} if rejoin else {}
        if pace and self.plan.walk.anonymous:
            raise LaunchError("--pace: anonymous rounds keep their own beat; set rounds.beat_ms in the plan instead")
        if pace:
            self._options["pace"] = str(pace)
        self._relay, self._elsewhere = Relay(run, names), Elsewhere(run, self.plan, names)
        self._moved_at = time.monotonic()
        self.pool = NodePool(run, detach=detach, parent=parent)

    def start(self, name: str, **options: str | bool) -> None:
        self.ready.discard(name)
        self.outcome.codes.pop(name, None)
        self.pool.start(user_folder(self.run, name), **self._options, **options)

    def listen(self, timeout_s: float) -> list[PoolEvent]:
        """Take in what happened; the caller may look at it too."""
        heard = list(self.pool.news(timeout_s))
        for news in heard:
            match news.kind:
                case "ready":
                    self.ready.add(news.name)
                    self._moved_at = time.monotonic()
                case "step":
                    if news.value > self.step:
                        self.step, self._moved_at = news.value, time.monotonic()
                case "exit":
                    self.ready.discard(news.name)
                    self.outcome.codes[news.name] = news.value
                case "error" | "gone":
                    text = news.name or f"the parent of the users ended with {news.value}"
                    raise LaunchError(f"{text}\nSee {self.run / 'launcher.log'}")
        return heard

    @property
    def progress(self) -> Progress:
        still_s = time.monotonic() - self._moved_at
        waiting = self.waiting(still_s) if still_s >= STILL_S else ""
        total = self.plan.total_steps
        return Progress(len(self.ready), len(self.names), self.step, total, still_s, waiting, tuple(self._relay.news()))

    def warnings(self) -> list[str]:
        """What users here have warned of since the last time."""
        return self._relay.news()

    def waiting(self, still_s: float) -> str:
        """For whom a run that stands still waits: users here that do not serve, and users elsewhere that are silent."""
        ended = {name for name, code in self.outcome.codes.items() if code == exits.DONE}
        if len(ended) == len(self.names):
            return ""
        if starting := [name for name in self.names if name not in self.ready and name not in self.outcome.codes]:
            return f"still starting: {_some(starting)}"
        silent = self._elsewhere.silent()
        missing = [*(name for name in self.names if name not in self.ready and name not in ended), *(silent or ())]
        if missing:
            what = f"waiting for {_some(missing)} ({self.plan.walk.min_live} of {self.plan.n} users are needed)"
        elif silent is None:
            what = "waiting for users on other machines"
        else:
            what = slow(self.plan, self.step, still_s)
        return f"{what}; try: network-dp doctor {self.run}" if what else ""

    def start_all(self, show: Callable[[Progress], None]) -> None:
        """Everybody, the starter of a walk last; a bounded wait that names who is missing."""
        last = None if self.plan.walk.anonymous else self.plan.walk.starter
        first = [name for name in self.names if name != last]
        rest = [name for name in self.names if name == last]
        for group in (first, rest):
            for name in group:
                self.start(name)
            self._wait_ready(group, show)

    def _wait_ready(self, group: list[str], show: Callable[[Progress], None]) -> None:
        patience_s = self.plan.timing.start_timeout_s + CROWD_S * len(group)
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


def slow(plan: Plan, step: int, still_s: float) -> str:
    """What to say when everybody answers: nothing, until users themselves would take the token for lost."""
    if still_s < plan.timing.lease_s + CROWD_S * plan.n:
        return ""
    if step >= plan.total_steps:
        return "all steps are done; waiting until everybody has the result"
    return f"no step for {still_s:.0f} s, though everybody answers; users look for a lost token by themselves"


def _some(names: list[str]) -> str:
    """Of many names the first."""
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{', '.join(names[:NAMES])}{more}"


def launch(
    run: Path,
    *,
    only: Sequence[str] | None = None,
    rejoin: bool = False,
    pace: float | None = None,
    plan: Plan | None = None,
    show: Callable[[Progress], None] = lambda progress: None,
    parent: str = PARENT,
) -> Outcome:
    """Start, wait for the end, and return how it ended. Ctrl-C stops all users and leaves a resumable state."""
    attempt = Launch(run, only, detach=False, rejoin=rejoin, pace=pace, plan=plan, parent=parent)
    try:
        attempt.start_all(show)
        return attempt.wait(show)
    except KeyboardInterrupt:
        attempt.outcome.interrupted = True
        return attempt.outcome
    finally:
        attempt.pool.close()


def launch_detached(
    run: Path, plan: Plan, *, only: Sequence[str] | None = None, rejoin: bool = False, show: Callable[[Progress], None]
) -> dict[str, int]:
    """Start, wait until everybody serves, and leave; returns the process ids."""
    attempt = Launch(run, only, detach=True, rejoin=rejoin, plan=plan)
    try:
        attempt.start_all(show)
    except BaseException:
        attempt.pool.close()
        raise
    pids = dict(attempt.pool.pids)
    attempt.pool.release()
    return pids
