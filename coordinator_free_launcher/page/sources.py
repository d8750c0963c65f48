"""Where a page's picture comes from: one user's own bundle, or all bundles of a run on this machine."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from coordinator_free_launcher.budget import DEFAULT_DELTA, ledger_of, spent
from coordinator_free_launcher.identity.bundle import read_node_file, user_folder
from coordinator_free_launcher.local.launch import LaunchError, best_result, local_users, read_result, read_run, results
from coordinator_free_launcher.local.run import Judgement
from coordinator_free_launcher.local.status import is_running
from coordinator_free_launcher.page.costs import Costs, costs_of, error_at, seen_by_all
from coordinator_free_launcher.page.mine import NUMBERS, Mine
from coordinator_free_launcher.page.own_walk import REST, Range, ranges
from coordinator_free_launcher.page.room import Estimate, Room
from coordinator_free_launcher.tail import Tail
from network_dp import ledger
from network_dp.errors import UserError
from network_dp.plan import Plan
from network_dp.untrusted import FormatError


class Source(Protocol):
    """What a page shows."""

    def poll(self, now: float) -> dict[str, Any]:
        """Read what is new and return the whole picture; ``now`` in seconds of any one clock."""
        ...

    @property
    def report(self) -> Path | None:
        """The analyzer's report, once there is one."""
        ...


class MineSource:
    """One user: opens nothing but files of its own bundle."""

    report = None

    def __init__(self, bundle: Path, *, values: bool = False) -> None:
        self._bundle, self._values = bundle, values
        self._plan = read_run(bundle)
        self._mine = Mine(self._plan, read_node_file(bundle).name, values=values)
        self._tail = Tail(bundle / "state" / "view.jsonl")
        self._costs: Costs | None = None
        self._budget: dict[str, float | None] | None = None
        self._ledger_time: int | None = None
        self._all: tuple[int, float | None] = (0, 0.0)
        self._ranges: Mapping[str, Range] | None = None
        threading.Thread(target=self._count_costs, daemon=True).start()

    def _count_costs(self) -> None:
        self._costs = costs_of(self._plan)

    def _watch_budget(self) -> None:
        """Read the ledger again when a charge was written to it; composing runs takes a moment, so in a thread."""
        changed = ledger_time(self._bundle)
        if changed != self._ledger_time:
            self._ledger_time = changed
            threading.Thread(target=self._read_budget, daemon=True).start()

    def _read_budget(self) -> None:
        self._budget = budget_of(self._bundle)

    def poll(self, now: float) -> dict[str, Any]:
        gained = self._tail.records()
        for record in gained:
            self._mine.take(record)
        if gained:
            self._ranges = ranges(self._plan, self._mine.walk, self._mine.met)
        self._watch_budget()
        if self._all[0] != self._mine.contributions:
            self._all = (self._mine.contributions, seen_by_all(self._plan, self._mine.contributions))
        costs, mine = self._costs, self._mine
        spoke = mine.contributions or self._plan.walk.anonymous
        return {
            **mine.picture(),
            "ranges": self._ranges,
            "anybody": None if self._ranges is None else self._ranges[REST],
            "running": is_running(self._bundle / "state"),
            "epsilon": None if costs is None else costs.at(mine.step if spoke else 0),
            "promise": None if costs is None else costs.promise,
            "growth": [] if costs is None else list(zip(costs.steps, costs.epsilons, strict=True)),
            "costed": costs is not None,
            "seen_by_all": self._all[1],
            "budget": self._budget,
            "delta": self._plan.noise.delta,
            "result": self._result() if self._values and mine.final else None,
        }

    def _result(self) -> Any:
        path = self._bundle / "state" / "result.json"
        value = read_result(path).get("value") if path.exists() else None
        return None if value is None else value[:NUMBERS]


def ledger_time(bundle: Path) -> int | None:
    """When this user's ledger was last written; None: there is none, or it cannot be read here."""
    try:
        path = ledger_of(bundle)
        return None if path is None else path.stat().st_mtime_ns
    except (UserError, OSError, KeyError, TypeError):
        return None


def budget_of(bundle: Path) -> dict[str, float | None] | None:
    """What all runs of this user have been charged, this one included, and the most they may; None: no ledger here."""
    try:
        path = ledger_of(bundle)
        if path is None or not path.exists():
            return None
        book = ledger.read(path)
        delta = DEFAULT_DELTA if book.budget is None else book.budget.delta
        total = spent(book, delta)
    except (UserError, OSError, KeyError, TypeError):
        return None
    limit = None if book.budget is None else book.budget.epsilon
    return {"spent": total if math.isfinite(total) else None, "limit": limit, "delta": delta, "runs": len(book.charges)}


class RoomSource:
    """All users of a run whose bundles are here; the verdict comes from whoever runs them, or from ``judge``."""

    def __init__(
        self,
        run: Path,
        *,
        statuses: Callable[[], Mapping[str, str]] | None = None,
        judge: Callable[[Path], Judgement] | None = None,
    ) -> None:
        """``statuses``: what whoever started the users knows of them; else their locks are looked at."""
        self._run, self._plan = run, read_run(run)
        self._names = local_users(run, self._plan, None)
        self._states = {name: user_folder(run, name) / "state" for name in self._names}
        self._tails = {name: Tail(state / "view.jsonl") for name, state in self._states.items()}
        self._room = Room(self._plan, estimate_of(self._plan))
        self._statuses, self._judge = statuses or self._locks, judge
        self._truth = truth_of(self._plan, run)
        self._found: list[float] | None = None
        self.judgement: Judgement | None = None

    @property
    def report(self) -> Path | None:
        path = self._run / "report.html"
        return path if self.judgement is not None and path.is_file() else None

    def poll(self, now: float) -> dict[str, Any]:
        gained = [(name, record) for name, tail in self._tails.items() for record in tail.records()]
        self._room.read(gained, now)
        if self._judge is not None and not gained and len(self._room.final) == len(self._names):
            judge, self._judge = self._judge, None
            threading.Thread(target=self._let_judge, args=(judge,), daemon=True).start()
        statuses = self._statuses()
        return {
            **self._room.picture(),
            "statuses": [statuses.get(name, "elsewhere") for name in self._plan.names],
            "here": len(self._names),
            "truth": self._truth,
            "verdict": None if self.judgement is None else self.judgement.verdict,
            "headline": None if self.judgement is None else self.judgement.headline,
            "report": self.report is not None,
            "std": error_at(self._plan, self._plan.total_steps),
            "result": self._result(),
        }

    def _let_judge(self, judge: Callable[[Path], Judgement]) -> None:
        self.judgement = judge(self._run)

    def _result(self) -> list[float] | None:
        """Once everybody here has it."""
        if self._found is None and len(self._room.final) == len(self._names):
            best = best_result(results(self._run, self._names)) or {}
            self._found = (best.get("value") or [])[:NUMBERS]
        return self._found or None

    def _locks(self) -> dict[str, str]:
        return {name: self._status(name, state) for name, state in self._states.items()}

    def _status(self, name: str, state: Path) -> str:
        if is_running(state):
            return "up"
        if name in self._room.final:
            return "ended"
        return "down" if (state / "view.jsonl").exists() else "waiting"


def estimate_of(plan: Plan) -> Estimate | None:
    """The first number of the estimate, of a token on its way; None for tasks whose error nobody knows in advance."""
    if error_at(plan, plan.total_steps) is None:
        return None
    import numpy as np

    from node.tasks import make_task
    from node.tasks.base import Tally

    task = make_task(plan)

    def estimate(payload: Sequence[float], contributions: int, cover: int) -> float | None:
        value = task.finish(np.array(payload, dtype=task.dtype), Tally(contributions, cover))["value"]
        return None if value is None else float(value[0])

    return estimate


def truth_of(plan: Plan, run: Path) -> float | None:
    """In a demo with made-up data: what the first number of the estimate should be."""
    from coordinator_free_launcher.local.demo_data import DemoTruth

    try:
        truth = DemoTruth.of(run)
    except FormatError:
        return None
    return None if truth is None else truth.first(plan)


def source_of(folder: Path, only: str | None, *, values: bool, judge: Callable[[Path], Judgement]) -> Source:
    """The page meant by a folder: of one bundle, or of a run; a run with one bundle here is that user's."""
    if (folder / "node.toml").exists():
        return MineSource(folder, values=values)
    names = local_users(folder, read_run(folder), None if only is None else [only])
    if len(names) == 1:
        return MineSource(user_folder(folder, names[0]), values=values)
    if values:
        raise LaunchError("--values is for the page of one user: give its bundle, or --only NAME")
    return RoomSource(folder, judge=judge)
