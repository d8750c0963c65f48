"""A run of real processes with a hand on every switch: start, kill, freeze, thaw, crash at an effect, look at logs.

Nothing here waits blindly: every wait is for something to be seen in a log or said by the parent of the users, and
ends with a failure that shows the last lines of everybody's log.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from coordinator_free_launcher.identity.bundle import user_folder
from coordinator_free_launcher.identity.provision import provision
from coordinator_free_launcher.local.launch import last_lines, read_run
from coordinator_free_launcher.local.node_pool import NodePool
from coordinator_free_launcher.local.ports import with_free_ports
from network_dp.plan import HistogramTask, Plan, SgdTask
from network_dp.plan_reader import from_dict
from network_dp.view import Record, decode

DEADLINE_S = 90.0  # many things share the machine; only a run that will never get there waits this long
LOOK_EVERY_S = 0.02
FINE_GRID = 2.0**-30  # on the coarsest grid allowed, two of a thousand honest noises are equal in one run of twenty

Rows = Mapping[str, Sequence[Sequence[float]]]

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
#: On a busy machine a slow answer must not look like a dead user.
PATIENT = {
    "preset": "lan",
    "offer_timeout_s": 30.0,
    "handoff_timeout_s": 30.0,
    "retry_base_s": 0.05,
    "locate_timeout_s": 20.0,
    "lease_s": 90.0,
    "start_timeout_s": 90.0,
    "linger_s": 20.0,
}
#: For runs in which nothing may be taken for dead: an overloaded machine must not look like a lost user.
CALM = {"lease_s": 60.0, "offer_timeout_s": 5.0, "handoff_timeout_s": 5.0, "locate_timeout_s": 5.0}


def make_plan(
    n: int,
    *,
    timing: Mapping[str, Any] | None = None,
    task: Mapping[str, Any] | None = None,
    noise: Mapping[str, Any] | None = None,
    caps: Mapping[str, Any] | None = None,
    anonymous: Mapping[str, Any] | None = None,
    seed: int | None = 7,
    spread: bool = False,
    peers: Sequence[Sequence[int]] | None = None,
    **walk: Any,
) -> Plan:
    """A small sum (or another task) over ``n`` users at free ports, seeded (INSECURE) unless ``seed`` is None.

    Waits are short; ``timing`` changes single ones, or all of them if it names a preset. ``peers`` of every user make
    a graph of it, ``anonymous`` is the table of anonymous rounds.
    """
    timing = timing or {}
    users: list[dict[str, Any]] = [{"name": f"user-{i}", "address": f"127.0.0.1:{7000 + i}"} for i in range(n)]
    for user, others in zip(users, peers or (), strict=False):
        user["peers"] = [f"user-{other}" for other in others]
    values = {
        "name": "test",
        **({} if seed is None else {"insecure_seed": seed}),
        **({} if caps is None else {"caps": caps}),
        **({} if anonymous is None else {"rounds": anonymous}),
        "walk": {"durability": "process", **({} if anonymous else {"min_live": 3}), **walk},
        "task": task or {"kind": "sum", "dimension": 2, "lower": 0.0, "upper": 1.0},
        "noise": noise or {"mechanism": "gaussian", "sigma": 2.0, "spread": spread, "grid": FINE_GRID},
        "timing": timing if "preset" in timing else {**QUICK, **timing},
        "users": users,
    }
    return with_free_ports(from_dict(values))


def slow_task(seconds: float) -> dict[str, Any]:
    """A sum whose contributions take a while to compute, for a plan's ``task``."""
    return {
        "kind": "custom",
        "factory": "tests.system.faults.slow_task:slow_sum",
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


def bundles(plan: Plan, folder: Path, rows: Rows, valid_days: float = 1.0) -> Path:
    """Provision ``plan`` into folder/run with these rows as the users' data."""
    source = folder / "data"
    source.mkdir(parents=True)
    files = {}
    for name, table in rows.items():
        files[name] = source / f"{name}.csv"
        files[name].write_text("".join(",".join(repr(float(cell)) for cell in row) + "\n" for row in table))
    return provision(plan, folder / "run", files, valid_days=valid_days)


class Harness:
    """The users of one plan, as processes of this machine."""

    def __init__(self, folder: Path, plan: Plan, valid_days: float = 1.0, parent: str = "node.many.zygote") -> None:
        rows = {name: [row_of(plan, index)] for index, name in enumerate(plan.names)}
        self.folder = bundles(plan, folder, rows, valid_days)
        self.plan = read_run(self.folder)
        self.names = self.plan.names
        self.codes: dict[str, int] = {}
        self.ready: set[str] = set()
        self._parent = parent
        self._pool: NodePool | None = None

    # ---- switches ---------------------------------------------------------------------------------------------

    @property
    def pool(self) -> NodePool:
        if self._pool is None:
            self._pool = NodePool(self.folder, parent=self._parent)
        return self._pool

    def bundle(self, name: str) -> Path:
        return user_folder(self.folder, name)

    def state(self, name: str) -> Path:
        return self.bundle(name) / "state"

    def start(self, *names: str, **options: str | bool) -> None:
        for name in names:
            self.ready.discard(name)
            self.codes.pop(name, None)
            self.pool.start(self.bundle(name), **options)
        self.until(f"{names} serve", lambda: all(name in self.ready or name in self.codes for name in names))

    def start_all(self, *, crash: Mapping[str, str] | None = None) -> None:
        """Everybody, the starter last."""
        order = [*(name for name in self.names if name != self.plan.walk.starter), self.plan.walk.starter]
        for name in order[:-1]:
            options = {"crash_at": crash[name]} if crash and name in crash else {}
            self.codes.pop(name, None)
            self.pool.start(self.bundle(name), **options)
        self.until("all but the starter serve", lambda: all(n in self.ready or n in self.codes for n in order[:-1]))
        self.start(order[-1], **({"crash_at": crash[order[-1]]} if crash and order[-1] in crash else {}))

    def signal(self, number: signal.Signals, *names: str) -> None:
        for name in names:
            with suppress(ProcessLookupError):  # it ended by itself just now
                os.kill(self.pool.pids[name], number)

    def kill(self, *names: str) -> None:
        alive = [name for name in names if name in self.pool.pids]
        self.signal(signal.SIGKILL, *alive)
        self.until(f"{alive} are gone", lambda: all(name in self.codes for name in alive))

    def freeze(self, *names: str) -> None:
        """Stopped, and seen to be stopped."""
        running = [name for name in names or self.names if name in self.pool.pids]
        self.signal(signal.SIGSTOP, *running)
        pids = [self.pool.pids[name] for name in running]
        self.until("stopped", lambda: all(_is_stopped(pid) for pid in pids))

    def thaw(self, *names: str) -> None:
        self.signal(signal.SIGCONT, *(name for name in names or self.names if name in self.pool.pids))

    def close(self) -> None:
        """End whatever still runs; only children of our own parent process."""
        if self._pool is None:
            return
        self.listen(0.0)
        for pid in list(self._pool.pids.values()):
            with suppress(ProcessLookupError):  # it ended by itself just now
                os.kill(pid, signal.SIGKILL)
        self._pool.close()
        self._pool = None
        self.ready.clear()

    # ---- waiting ----------------------------------------------------------------------------------------------

    def listen(self, timeout_s: float = LOOK_EVERY_S) -> None:
        for news in self.pool.news(timeout_s):
            if news.kind == "ready":
                self.ready.add(news.name)
            elif news.kind == "exit":
                self.ready.discard(news.name)
                self.codes[news.name] = news.value
            elif news.kind in ("error", "gone"):
                raise AssertionError(f"the users' parent: {news}")

    def until(self, what: str, condition: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
        end = time.monotonic() + deadline_s
        while True:
            self.listen()
            if value := condition():
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not within {deadline_s:g} s: {what}\n{self.describe()}")

    def pass_time(self, seconds: float) -> None:
        """For a fault whose length is the point."""
        end = time.monotonic() + seconds
        self.until(f"{seconds} s have passed", lambda: time.monotonic() >= end)

    def last_step(self) -> int:
        """The furthest step in the last lines of anybody's log."""
        return max(_last_step(self.state(name)) for name in self.names)

    def wait_step(self, step: int, deadline_s: float = DEADLINE_S) -> None:
        self.until(f"step {step}", lambda: self.last_step() >= step, deadline_s)

    def wait_code(self, name: str, deadline_s: float = DEADLINE_S) -> int:
        self.until(f"{name} ends", lambda: name in self.codes, deadline_s)
        return self.codes[name]

    def wait_all(self, *names: str, deadline_s: float = DEADLINE_S) -> None:
        """Everybody (or these) ends well."""
        wanted = names or self.names
        self.until("all end", lambda: all(name in self.codes for name in wanted), deadline_s)
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
