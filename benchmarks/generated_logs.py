"""A dumb, independent writer of view logs: one walk in one loop, straight from docs/THEORY.md, no code of node or
analyzer.

It can lose a token (the previous holder re-issues it), be refused once, skip dead ring users, and cheat on purpose.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from network_dp import plan_reader, view
from network_dp.plan import HistogramTask, ModelTask, Plan, SgdTask

Payload = list[Any] | None
COARSE = 50  # grid steps

# Parts of plans.
GRID = "grid = 0.0009765625"
SGD = 'kind = "sgd"\nfeatures = 3\nstep_size = 0.5\nradius = 2.0'
HISTOGRAM = 'kind = "histogram"\nbuckets = 4'


@dataclass
class Faults:
    """What goes wrong, or is done wrong, on the way."""

    dead: frozenset[int] = frozenset()  # ring: never reachable
    away: frozenset[int] = frozenset()  # ring: positions whose user is not reachable then
    forget_rounds: bool = False  # ring: who was away gets no more noise than who was not
    lose_at: int | None = None  # the token sent for this step is lost with its receiver; its sender re-issues it
    lose_after: int = 0  # so many hops of the lost branch are walked before it is lost
    unrun_at: int | None = None  # this step's holder does nothing with the token; later it takes up what it received
    refuse_at: int | None = None  # the first receiver drawn for this step refuses
    refused: frozenset[int] = frozenset()  # ring of responses: positions whose holder refuses what it is sent
    noise_scale: Mapping[int, float] = field(default_factory=dict)  # user -> factor on its noise
    more_units: Mapping[int, int] = field(default_factory=dict)  # ring: user -> components beyond its duty
    source: Callable[[int], np.random.Generator] | None = None  # user -> the generator its noise comes from
    bend: Callable[[int, list[Any]], list[Any]] | None = None  # (user, noise drawn) -> noise used
    elements: Callable[[int, int], list[int]] | None = None  # (how many, buckets) -> elements that are not uniform
    gone: Callable[[int, int], bool] | None = None  # complete graph: (user, step) -> it does not answer
    down_steps: int = 40  # complete graph: how long a holder takes for down who did not answer
    choose: Callable[[np.random.Generator, int, int], int] | None = None  # (rng, holder, n) -> next
    count_hops: bool = False  # ring: the paper's counter, one noise in every n - 1 hops walked
    stale_reissue: bool = False  # the re-issuer adds no fresh noise
    ignore_cap: frozenset[int] = frozenset()


def plan_text(
    topology: str = "complete",
    n: int = 5,
    length: int = 40,
    task: str = 'kind = "sum"',
    noise: str = "sigma = 2.0\ngrid = 0.0009765625",
    caps: str = "",
    release: str = "all",
    run_number: int = 1,
) -> str:
    """A small plan; ``length``: rounds on a ring, steps on the complete graph."""
    unit = "rounds" if topology == "ring" else "steps"
    users = "\n".join(f'[[users]]\nname = "user-{i}"\naddress = "127.0.0.1:{5000 + i}"' for i in range(n))
    return (
        f'name = "test"\nrun_number = {run_number}\n'
        f'[walk]\ntopology = "{topology}"\n{unit} = {length}\nrelease = "{release}"\nmin_live = {n}\n'
        f"[task]\n{task}\n[noise]\n{noise}\n[caps]\n{caps}\n{users}\n"
    )


class Walk:
    """The token's state and everybody's log while it walks."""

    def __init__(self, plan: Plan, seed: int, faults: Faults | None = None) -> None:
        self.plan, self.faults = plan, faults or Faults()
        self.rng = np.random.default_rng(seed)
        self.sgd = not plan.task.additive
        self.rr = plan.noise.mechanism == "rr"
        self.ring = plan.walk.topology == "ring"
        self.size = plan.task.buckets if isinstance(plan.task, HistogramTask) else plan.task.dimension
        self.names, self.hash = plan.names, plan.hash
        self.n, self.start = plan.n, plan.index(plan.walk.starter)
        self.data = self._data()
        self.lines: list[list[str]] = [[] for _ in range(plan.n)]
        self.visits, self.given = [0] * plan.n, [0] * plan.n
        self.edges: dict[tuple[int, int], int] = {}
        self.held_down: list[dict[int, int]] = [{} for _ in range(plan.n)]  # per holder: user -> until which step
        self.time = 1000.0
        self.hops = 0
        run_id = plan.run_id
        for user in range(plan.n):
            self.log(
                user,
                "header",
                schema=view.SCHEMA,
                run=run_id,
                plan=self.hash,
                user=self.names[user],
                values=True,
                insecure=True,
            )
            self.log(user, "start", life=1)
        self.epoch = (0, self.start)
        self.token: dict[str, Any] = {
            "payload": [0.0 if self.sgd else 0] * self.size,
            "w": 0,
            "seen": {},
            "count": 0,
            "cover": 0,
        }
        self.final: dict[str, Any] | None = None

    def _data(self) -> list[list[float]]:
        if isinstance(self.plan.task, HistogramTask):
            return [
                [float(i == bucket) for i in range(self.size)] for bucket in self.rng.integers(0, self.size, self.n)
            ]
        if self.sgd:
            rows = self.rng.normal(size=(self.n, self.size))
            return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).tolist()  # type: ignore[no-any-return]
        grid = self.plan.noise.grid
        assert grid is not None
        return (np.round(self.rng.random((self.n, self.size)) / grid) * grid).tolist()  # type: ignore[no-any-return]

    def log(self, writer: int, kind: str, /, **fields: Any) -> None:
        if "time" in view.FIELDS[kind][1]:
            self.time += 0.001
            fields["time"] = round(self.time, 6)
        self.lines[writer].append(view.encode(kind, **fields))

    # ---- one visit --------------------------------------------------------------------------------------------

    def contribution(self, user: int) -> list[Any]:
        if self.sgd:
            row = np.array(self.data[user])
            margin = float(row @ np.array(self.token["payload"]))
            return (-row / (1 + math.exp(margin))).tolist()  # type: ignore[no-any-return]
        if self.rr:
            return [int(x) for x in self.data[user]]
        assert self.plan.noise.grid is not None
        return [round(x / self.plan.noise.grid) for x in self.data[user]]

    def units(self, sender: int, to: int | None) -> int:
        """How many noise components this send carries (THEORY.md#ring-ledger; ``to`` None: the finish)."""
        if not self.ring or self.sgd or self.rr:
            return 1
        full, share, w, seen = self.plan.unit_count, int(self.plan.noise.spread), self.token["w"], self.token["seen"]
        if self.faults.count_hops:
            self.hops += 1
            return int(to is not None and self.hops % (self.n - 1) == 1)
        if to is None and self.plan.walk.release != "all":
            return share
        receivers = [to] if to is not None else [v for v in range(self.n) if v != sender]
        owed = share + max([0] + [full - (w + share - seen.get(v, 0)) for v in receivers])
        return owed + (self.faults.more_units.get(sender, 0) if owed else 0)

    def noise(self, user: int, units: int, contribution: list[Any] | None) -> list[Any]:
        rng = self.faults.source(user) if self.faults.source else self.rng
        if self.rr:
            assert contribution is not None
            gamma, truth = self.plan.noise.gamma, contribution.index(1)
            said = int(rng.integers(self.size)) if rng.random() < (gamma or 0) else truth
            return [int(i == said) - int(i == truth) for i in range(self.size)]
        drawn = self._drawn(rng, units, self.faults.noise_scale.get(user, 1.0))
        return self.faults.bend(user, drawn) if self.faults.bend and units else drawn

    def _drawn(self, rng: np.random.Generator, units: int, factor: float) -> list[Any]:
        """``units`` components; a coarse grid gets the discrete law itself, a fine one the rounded continuous law."""
        noise, shape = self.plan.noise, (units, self.size)
        if self.sgd:
            return rng.normal(0, self.plan.unit_size * factor, shape).sum(axis=0).tolist()  # type: ignore[no-any-return]
        assert noise.grid is not None
        laplace = noise.mechanism == "laplace"
        scale = (noise.scale or 0.0 if laplace else self.plan.unit_size) / noise.grid * factor
        if 0 < scale < COARSE:
            steps = np.arange(-40 * COARSE, 40 * COARSE + 1)
            weight = np.exp(-np.abs(steps) / scale if laplace else -(steps**2) / (2 * scale**2))
            draws = rng.choice(steps, shape, p=weight / weight.sum())
        else:
            draws = np.round(rng.laplace(0, scale, shape) if laplace else rng.normal(0, scale, shape))
        return [int(x) for x in draws.sum(axis=0)]

    def mix(
        self, step: int, noise: list[Any] | None, contribution: list[Any] | None, cover: list[int] | None
    ) -> list[Any]:
        payload = self.token["payload"]
        if not self.sgd:
            parts = [part for part in (noise, contribution, cover) if part is not None]
            return [sum(values) for values in zip(payload, *parts, strict=True)]
        task = self.plan.task
        assert isinstance(task, SgdTask | ModelTask)
        if noise is None:
            return list(payload)
        move = np.array(contribution or [0.0] * self.size) + np.array(noise)
        moved = np.array(payload) - task.eta(step) * move
        if task.radius is not None and np.linalg.norm(moved) > task.radius:
            moved = moved * (task.radius / np.linalg.norm(moved))
        return moved.tolist()  # type: ignore[no-any-return]

    def drawn_cover(self, count: int) -> list[int]:
        if self.faults.elements:
            return self.faults.elements(count, self.size)
        return np.bincount(self.rng.integers(0, self.size, count), minlength=self.size).tolist()  # type: ignore[no-any-return]

    def send(
        self, user: int, step: int, to: int | None, next_step: int, *, drawn: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Compose and log what leaves; ``drawn`` repeats the noise of an earlier send of the same visit."""
        real, drawn = self.may_contribute(user, to), drawn or {}
        forward = not real and self.plan.caps.past == "forward"
        units = 0 if forward else self.units(user, to)
        contribution = drawn.get("contribution") or (self.contribution(user) if real else None)
        noise, cover = None, self.opening_and_closing(step, to)
        if self.rr and not real:
            cover = self.drawn_cover(1)
        elif not forward:
            noise = drawn.get("noise") or self.noise(user, units, contribution)
        given = contribution if real else None
        return self._log_send(user, step, to, next_step, units=units, cover=cover, contribution=given, noise=noise)

    def may_contribute(self, user: int, to: int | None) -> bool:
        """Is neither the user's cap reached nor that of its edge?"""
        cap, edge = self.plan.caps.contributions, self.plan.caps.edge
        capped = cap is not None and self.given[user] >= cap and user not in self.faults.ignore_cap
        full_edge = edge is not None and to not in (None, user) and self.edges.get((user, to or 0), 0) >= edge
        return not capped and not full_edge

    def opening_and_closing(self, step: int, to: int | None) -> list[int] | None:
        """A ring of responses: R1 cover elements at its start, and as many at the end of a run that is released."""
        ends = int(step == 1) + int(to is None and self.plan.walk.release == "all")
        if not self.rr or not self.ring or not ends:
            return None
        return self.drawn_cover(ends * math.ceil((self.plan.noise.gamma or 0) * (self.n - 2)))

    def _log_send(
        self,
        user: int,
        step: int,
        to: int | None,
        next_step: int,
        *,
        units: int = 0,
        cover: list[int] | None = None,
        contribution: list[Any] | None = None,
        noise: list[Any] | None = None,
    ) -> dict[str, Any]:
        """The line of a send, as fields; without contribution, noise and cover the token leaves as it came."""
        fields: dict[str, Any] = {
            "epoch": list(self.epoch),
            "visit": self.visits[user],
            "real": contribution is not None,
            "units": units,
            "cover": cover,
            "contribution": contribution,
            "noise": noise,
            "sent": self.mix(max(step, 1), noise, contribution, cover),
        }
        if to is None:
            self.log(user, "finish", step=step, **fields)
        else:
            fields["tag"] = hashlib.sha256(self.rng.bytes(32)).hexdigest()
            self.log(user, "sent", step=next_step, to=self.names[to], **fields)
        return fields

    def leave(self, user: int, to: int | None, fields: dict[str, Any]) -> dict[str, Any]:
        """The token after a send that counts."""
        if fields["real"]:
            self.given[user] += 1
            if to is not None:
                self.edges[user, to] = self.edges.get((user, to), 0) + 1
        w = self.token["w"] + fields["units"]
        return {
            "payload": fields["sent"],
            "w": w,
            "seen": {**self.token["seen"], user: w} if self.ring else {},
            "count": self.token["count"] + int(fields["real"]),
            "cover": self.token["cover"] + sum(fields["cover"] or [0]),
            "tag": fields.get("tag"),
        }

    def arrive(self, user: int, step: int, cause: str, sender: int | None, base: list[int] | None = None) -> None:
        self.visits[user] += 1
        fields: dict[str, Any] = {"epoch": list(self.epoch), "step": step, "visit": self.visits[user], "cause": cause}
        fields["from"] = None if sender is None else self.names[sender]
        if cause == "handoff":
            fields["tag"] = self.token["tag"]
        if base is not None:
            fields["base"] = base
        self.log(user, "visit", **fields, received=self.token["payload"])

    # ---- the walk ---------------------------------------------------------------------------------------------

    def next_hop(self, user: int, step: int) -> tuple[int | None, int]:
        """(next user or None for the finish, its step)."""
        if not self.ring:
            if step >= self.plan.total_steps:
                return None, step + 1
            return self.draw(user, step), step + 1
        for position in range(step + 1, self.plan.total_steps + 1):
            holder = (self.start + position - 1) % self.n
            if holder not in self.faults.dead and position not in self.faults.away:
                return holder, position
            self.log(user, "peer", peer=self.names[holder], state="down")
            if not self.faults.forget_rounds:
                seen = self.token["seen"]  # who misses a round finds a full noise more when it is back (ADR 13)
                self.token = {**self.token, "seen": {**seen, holder: seen.get(holder, 0) + self.plan.unit_count}}
        return None, self.plan.total_steps + 1

    def draw(self, user: int, step: int) -> int:
        """Complete graph: uniform over the users that ``user`` does not hold to be down; who does not answer is."""
        if self.faults.choose:
            return self.faults.choose(self.rng, user, self.n)
        held, gone = self.held_down[user], self.faults.gone or (lambda other, step: False)
        while True:
            open_to = [v for v in range(self.n) if held.get(v, -1) < step]
            drawn = open_to[int(self.rng.integers(len(open_to)))]
            if drawn == user or not gone(drawn, step):
                break
            self.log(user, "peer", peer=self.names[drawn], state="down")
            held[drawn] = step + self.faults.down_steps
        if drawn in held:
            del held[drawn]
            self.log(user, "peer", peer=self.names[drawn], state="up")
        return drawn

    def run(self) -> Walk:
        user, step = self.start, 1 if self.ring else 0
        self.arrive(user, step, "start", None)
        while True:
            if step == self.faults.unrun_at and self.epoch[0] == 0:
                to, next_step = self.take_up(user, step, [*self.epoch, step])
                assert to is not None
                self.arrive(to, next_step, "handoff", user)
                user, step = to, next_step
            to, next_step = self.next_hop(user, step)
            if step == 0:
                fields = self._log_send(user, step, to, next_step)
            elif next_step == self.faults.refuse_at and to is not None:
                refused = (to + 1) % self.n
                first = self.send(user, step, refused, next_step)
                fields = self.send(user, step, to, next_step, drawn=first)
            elif next_step in self.faults.refused:
                assert self.rr and self.ring  # no ledger: what goes on holds the same noise
                first = self.send(user, step, to, next_step)
                to, next_step = self.next_hop(user, next_step)
                fields = self.send(user, step, to, next_step, drawn=first)
            else:
                fields = self.send(user, step, to, next_step)
            self.token = self.leave(user, to, fields)
            if to is None:
                self.final = self.token
                self.publish()
                return self
            if next_step == self.faults.lose_at:
                to, next_step = self.lose(user, to, next_step)
                if to is None:
                    self.publish()
                    return self
            else:
                self.log(user, "accepted", epoch=list(self.epoch), step=next_step, to=self.names[to])
            self.arrive(to, next_step, "handoff", user)
            user, step = to, next_step

    def lose(self, issuer: int, to: int, step: int) -> tuple[int | None, int]:
        """The branch goes on for a while, is lost, and ``issuer`` takes its last sent token up again."""
        kept, old_epoch, old_step = self.token, self.epoch, step
        holder, sender = to, issuer
        for _ in range(self.faults.lose_after):
            self.arrive(holder, step, "handoff", sender)
            after, next_step = self.next_hop(holder, step)
            assert after is not None
            self.token = self.leave(holder, after, self.send(holder, step, after, next_step))
            self.log(holder, "abandoned", epoch=list(old_epoch), step=step, by=[1, issuer])
            sender, holder, step = holder, after, next_step
        self.token = kept
        return self.take_up(issuer, old_step, [*old_epoch, old_step])

    def take_up(self, issuer: int, old_step: int, base: list[int]) -> tuple[int | None, int]:
        """The token again, in a new epoch, from before ``old_step``, with fresh noise and no contribution."""
        self.epoch = (1, issuer)
        self.arrive(issuer, old_step - 1, "reissue", None, base=base)
        next_to, next_step = self.next_hop(issuer, old_step - 1)
        units = 1 if self.sgd or self.rr else self.plan.unit_count
        if self.faults.stale_reissue:
            units = 0
        noise = None if self.rr else self.noise(issuer, units, None)
        cover = self.drawn_cover(1) if self.rr else None
        fields = self._log_send(issuer, old_step - 1, next_to, next_step, units=units, cover=cover, noise=noise)
        self.token = self.leave(issuer, next_to, fields)
        if next_to is None:
            self.final = self.token
        return next_to, next_step

    def publish(self) -> None:
        assert self.final is not None
        value = self.final["payload"] if self.plan.walk.release == "all" else None
        for user in range(self.n):
            if user not in self.faults.dead:
                self.log(user, "result", epoch=list(self.epoch), value=value, contributions=self.final["count"])


def write_run(folder: Path, text: str, seed: int, faults: Faults | None = None) -> Walk:
    """A run's directory as the launcher makes it: plan.toml and users/NAME/state/view.jsonl."""
    walk = Walk(plan_reader.parse(text), seed, faults).run()
    save(folder, text, walk)
    return walk


def save(folder: Path, text: str, walk: Walk) -> None:
    """The logs of a walk that is over."""
    save_logs(folder, text, dict(zip(walk.plan.names, walk.lines, strict=True)))


def save_logs(folder: Path, text: str, logs: Mapping[str, list[str]]) -> None:
    """The plan, and by user the lines of a log."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.toml").write_text(text)
    for name, lines in logs.items():
        state = folder / "users" / name / "state"
        state.mkdir(parents=True)
        (state / "view.jsonl").write_text("".join(line + "\n" for line in lines))
