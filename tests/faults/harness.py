"""A run of real processes with a hand on every switch: start, kill, freeze, thaw, crash at an effect, look at logs.

Nothing here waits blindly: every wait is for something to be seen in a log or said by the parent of the users, and
ends with a failure that shows the last lines of everybody's log.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from coordinator_free_launcher.bundle import user_folder
from coordinator_free_launcher.launch import last_lines, read_run
from coordinator_free_launcher.nursery import Nursery
from coordinator_free_launcher.ports import with_free_ports
from coordinator_free_launcher.provision import provision
from network_dp.plan import HistogramTask, Plan, SgdTask
from network_dp.plan_reader import from_dict
from network_dp.view import Record, decode

PATIENCE_S = 90.0  # many things share the machine; only a run that will never get there waits this long
LOOK_EVERY_S = 0.02

QUICK = {
    "offer_timeout_s": 0.7,
    "handoff_timeout_s": 0.7,
    "retry_base_s": 0.02,
    "retry_max_s": 0.2,
    "down_ttl_s": 0.5,
    "grant_ttl_s": 10.0,
    "lease_s": 1.5,
    "locate_timeout_s": 0.7,
    "start_timeout_s": 10.0,
    "stall_timeout_s": 60.0,
    "linger_s": 3.0,
}
#: For runs in which nothing may be taken for dead: an overloaded machine must not look like a lost user.
CALM = {"lease_s": 60.0, "offer_timeout_s": 5.0, "handoff_timeout_s": 5.0, "locate_timeout_s": 5.0}


def make_plan(
    n: int,
    *,
    timing: Mapping[str, float] | None = None,
    task: Mapping[str, Any] | None = None,
    noise: Mapping[str, Any] | None = None,
    seed: int = 7,
    spread: bool = False,
    **walk: Any,
) -> Plan:
    """A small sum (or another task) over ``n`` users at free ports, seeded (INSECURE), with short waits."""
    walk = {"durability": "process", "min_live": 3, **walk}
    values = {
        "name": "faults",
        "insecure_seed": seed,
        "walk": walk,
        "task": task or {"kind": "sum", "dimension": 2, "lower": 0.0, "upper": 1.0},
        "noise": noise or {"mechanism": "gaussian", "sigma": 2.0, "spread": spread},
        "timing": {**QUICK, **(timing or {})},
        "users": [{"name": f"user-{i}", "address": f"127.0.0.1:{7000 + i}"} for i in range(n)],
    }
    return with_free_ports(from_dict(values))


def slow_task(seconds: float) -> dict[str, Any]:
    """A sum whose contributions take a while to compute, for a plan's ``task``."""
    return {
        "kind": "custom",
        "factory": "tests.faults.slow_task:slow_sum",
        "dimension": 2,
        "sensitivity": 1.5,
        "options": {"seconds": seconds},
    }


def row_of(plan: Plan, index: int) -> list[float]:
    """The data of one user, as its task wants it."""
    if isinstance(plan.task, HistogramTask):
        return [index % plan.task.buckets]
    if isinstance(plan.task, SgdTask):
        return [*((index + d) % 3 - 0.5 for d in range(plan.task.features)), 1.0 if index % 2 else -1.0]
    return [(index + 1) / (plan.n + d + 1) for d in range(plan.task.dimension)]


def records(path: Path) -> list[Record]:
    """A view log as it is now: a last line still being written is left for the next look."""
    if not path.exists():
        return []
    *lines, _ = path.read_text().split("\n")
    return [decode(line) for line in lines]


class Town:
    """The users of one plan, as processes of this machine."""

    def __init__(self, folder: Path, plan: Plan, valid_days: float = 1.0, parent: str = "node.zygote") -> None:
        self.folder = folder / "run"
        data = folder / "data"
        data.mkdir()
        files = {}
        for index, name in enumerate(plan.names):
            files[name] = data / f"{name}.csv"
            files[name].write_text(",".join(map(str, row_of(plan, index))) + "\n")
        provision(plan, self.folder, files, valid_days=valid_days)
        self.plan = read_run(self.folder)
        self.names = self.plan.names
        self.codes: dict[str, int] = {}
        self.ready: set[str] = set()
        self._parent = parent
        self._nursery: Nursery | None = None

    # ---- switches ---------------------------------------------------------------------------------------------

    @property
    def nursery(self) -> Nursery:
        if self._nursery is None:
            self._nursery = Nursery(self.folder, parent=self._parent)
        return self._nursery

    def bundle(self, name: str) -> Path:
        return user_folder(self.folder, name)

    def state(self, name: str) -> Path:
        return self.bundle(name) / "state"

    def start(self, *names: str, **options: str | bool) -> None:
        for name in names:
            self.ready.discard(name)
            self.codes.pop(name, None)
            self.nursery.start(self.bundle(name), **options)
        self.until(f"{names} serve", lambda: all(name in self.ready or name in self.codes for name in names))

    def start_all(self, *, crash: Mapping[str, str] | None = None) -> None:
        """Everybody, the starter last."""
        order = [*(name for name in self.names if name != self.plan.walk.starter), self.plan.walk.starter]
        for name in order[:-1]:
            options = {"crash_at": crash[name]} if crash and name in crash else {}
            self.codes.pop(name, None)
            self.nursery.start(self.bundle(name), **options)
        self.until("all but the starter serve", lambda: all(n in self.ready or n in self.codes for n in order[:-1]))
        self.start(order[-1], **({"crash_at": crash[order[-1]]} if crash and order[-1] in crash else {}))

    def signal(self, number: signal.Signals, *names: str) -> None:
        for name in names:
            with suppress(ProcessLookupError):  # it ended by itself just now
                os.kill(self.nursery.pids[name], number)

    def kill(self, *names: str) -> None:
        alive = [name for name in names if name in self.nursery.pids]
        self.signal(signal.SIGKILL, *alive)
        self.until(f"{alive} are gone", lambda: all(name in self.codes for name in alive))

    def freeze(self, *names: str) -> None:
        """Stopped, and seen to be stopped."""
        running = [name for name in names or self.names if name in self.nursery.pids]
        self.signal(signal.SIGSTOP, *running)
        pids = [self.nursery.pids[name] for name in running]
        self.until("stopped", lambda: all(_is_stopped(pid) for pid in pids))

    def thaw(self, *names: str) -> None:
        self.signal(signal.SIGCONT, *(name for name in names or self.names if name in self.nursery.pids))

    def close(self) -> None:
        """End whatever still runs; only children of our own parent process."""
        if self._nursery is None:
            return
        self.listen(0.0)
        for pid in list(self._nursery.pids.values()):
            with suppress(ProcessLookupError):  # it ended by itself just now
                os.kill(pid, signal.SIGKILL)
        self._nursery.close()
        self._nursery = None
        self.ready.clear()

    # ---- waiting ----------------------------------------------------------------------------------------------

    def listen(self, timeout_s: float = LOOK_EVERY_S) -> None:
        for news in self.nursery.news(timeout_s):
            if news.kind == "ready":
                self.ready.add(news.name)
            elif news.kind == "exit":
                self.ready.discard(news.name)
                self.codes[news.name] = news.value
            elif news.kind in ("error", "gone"):
                raise AssertionError(f"the users' parent: {news}")

    def until(self, what: str, condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
        deadline = time.monotonic() + patience_s
        while True:
            self.listen()
            if value := condition():
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {patience_s:g} s: {what}\n{self.describe()}")

    def pass_time(self, seconds: float) -> None:
        """For a fault whose length is the point."""
        end = time.monotonic() + seconds
        self.until(f"{seconds} s have passed", lambda: time.monotonic() >= end)

    def last_step(self) -> int:
        """The furthest step in the last lines of anybody's log."""
        return max(_last_step(self.state(name)) for name in self.names)

    def wait_step(self, step: int, patience_s: float = PATIENCE_S) -> None:
        self.until(f"step {step}", lambda: self.last_step() >= step, patience_s)

    def wait_code(self, name: str, patience_s: float = PATIENCE_S) -> int:
        self.until(f"{name} ends", lambda: name in self.codes, patience_s)
        return self.codes[name]

    def wait_all(self, *names: str, patience_s: float = PATIENCE_S) -> None:
        """Everybody (or these) ends well."""
        wanted = names or self.names
        self.until("all end", lambda: all(name in self.codes for name in wanted), patience_s)
        assert {self.codes[name] for name in wanted} == {0}, f"{self.codes}\n{self.describe()}"

    # ---- looking ----------------------------------------------------------------------------------------------

    def view(self, name: str) -> list[Record]:
        return records(self.state(name) / "view.jsonl")

    def of_kind(self, name: str, kind: str) -> list[Record]:
        return [record for record in self.view(name) if record.kind == kind]

    def furthest(self) -> int:
        steps = (record.step for name in self.names for record in self.of_kind(name, "visit"))
        return max(steps, default=-1)

    def roles(self) -> tuple[str, str]:
        """(holder, the user it had the token from), while nobody moves: the last visit anybody logged."""
        visits = [(r.epoch, r.step, name, r) for name in self.names for r in self.of_kind(name, "visit")]
        _, _, holder, record = max(visits, key=lambda visit: visit[:2])
        return holder, record.fields["from"] or holder

    def holders(self) -> set[str]:
        """While nobody moves: the last holder anybody logged, and whoever it may have handed the token to since."""
        holder, _ = self.roles()
        last = self.of_kind(holder, "visit")[-1].fields["visit"]
        return {holder, *(r.fields["to"] for r in self.of_kind(holder, "sent") if r.fields["visit"] == last)}

    def reissues(self) -> list[Record]:
        return [r for name in self.names for r in self.of_kind(name, "visit") if r.fields["cause"] == "reissue"]

    def log(self, name: str) -> str:
        path = self.state(name) / "node.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def describe(self, names: Iterable[str] | None = None) -> str:
        parts = [f"codes {self.codes}, furthest step {self.furthest()} of {self.plan.total_steps}"]
        parts += [f"{name}:\n{last_lines(self.folder, name)}" for name in names or self.names[:8]]
        return "\n".join(parts)


def _last_step(state: Path) -> int:
    """The step of the last whole lines of a log, without reading all of it: a walk is faster than a full look."""
    path = state / "view.jsonl"
    if not path.exists():
        return -1
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 8192))
        lines = file.read().decode(errors="replace").split("\n")[1:-1]
    return max((decode(line).step for line in lines if line.startswith('{"kind":"visit"')), default=-1)


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TZ"
    except FileNotFoundError:
        return True
