"""A whole run over anonymous rounds in one process, without faults or with users that are lost for good: real tasks,
real noise, real logs."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from network_dp import view
from network_dp.plan import Plan
from network_dp.plan_reader import dump
from node.dice import SystemDice
from node.noise import SystemSource
from node.protocols.effects import Answered, Begin, Finished, Log, Received, Reply, Send, Tick
from node.protocols.rounds import lists, machine
from node.protocols.rounds.effects import Compute, Computed, Turn
from node.protocols.rounds.pads import Pads
from node.protocols.rounds.speech import size_of
from node.protocols.rounds.state import COUNT_BYTES, Context, Durable, Inputs, State
from node.tasks import make_task, table_of
from node.worker import BoundTask


class HiddenRun:
    """Everybody of a plan, and the lines of their logs."""

    def __init__(self, plan: Plan, rows: list[list[float]]) -> None:
        self.plan, self.dice, self.source = plan, SystemDice(), SystemSource()
        task = make_task(plan)
        data = [task.prepare(table_of([row])) for row in rows]
        self.workers = [BoundTask(task, one, plan.unit_count, 1) for one in data]
        privates = [os.urandom(32) for _ in rows]
        publics = tuple(X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw() for key in privates)
        self.contexts = [self._context(me, privates[me], publics) for me in range(plan.n)]
        self.states = [State(Durable()) for _ in rows]
        self.lines: list[list[str]] = [[self._header(name), view.encode("start", life=1)] for name in plan.names]
        self.now, self.serial = 0.0, 0
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.calls: dict[int, tuple[int, Send[Any]]] = {}
        self.results: list[bytes] = []

    def _context(self, me: int, private: bytes, publics: tuple[bytes, ...]) -> Context:
        plan, worker = self.plan, self.workers[me]
        assert plan.rounds is not None
        size = size_of(8 * worker.dimension + (COUNT_BYTES if plan.in_one_round else 0))
        return Context(
            me=me,
            names=plan.names,
            run_id=plan.run_id,
            publics=publics,
            private=private,
            pads=Pads(me, private, publics, plan.run_id, size),
            quorum=max(plan.majority, plan.walk.min_live),
            total_steps=plan.total_steps,
            starter=0,
            shufflers=plan.rounds.shufflers,
            beat_s=0.01,
            block_s=1.0,
            answer_s=3.0,
            retry_s=1.0,
            linger_s=10.0,
            stall_s=100.0,
            lease=50,
            incarnation=1,
            log_values=True,
            worker=worker,
            in_one_round=plan.in_one_round,
            attempts=plan.rounds.attempts,
        )

    def _header(self, name: str) -> str:
        plan = self.plan
        return view.encode(
            "header",
            schema=view.SCHEMA,
            run=plan.run_id,
            plan=plan.hash,
            user=name,
            values=True,
            insecure=False,
        )

    def run(self) -> None:
        for user in range(self.plan.n):
            self.feed(user, Begin())
        while len(self.results) < self.plan.n:
            self.now, _, action = heapq.heappop(self.queue)
            action()

    def at(self, when: float, action: Callable[[], None]) -> None:
        self.serial += 1
        heapq.heappush(self.queue, (when, self.serial, action))

    def feed(self, user: int, event: Any) -> None:
        worker = self.workers[user]
        inputs = Inputs(self.now, self.dice, lambda: worker.supply(self.source), self.now)
        self.states[user], effects = machine.step(self.contexts[user], self.states[user], event, inputs)
        for effect in effects:
            self._carry_out(user, effect)
        if (wake := self.states[user].wake_at) is not None:
            self.at(max(wake, self.now) + 1e-6, lambda: self._tick(user))

    def _tick(self, user: int) -> None:
        wake = self.states[user].wake_at
        if wake is not None and wake <= self.now:
            self.feed(user, Tick())

    def _carry_out(self, user: int, effect: Any) -> None:
        match effect:
            case Log(line):
                self.lines[user].append(line)
            case Send(peer, _, request):
                self.serial += 1
                ticket = self.serial
                self.calls[ticket] = (user, effect)
                self.at(self.now + 1e-4, lambda: self.feed(peer, Received(user, ticket, request)))
            case Reply(ticket, answer):
                asker, sent = self.calls.pop(ticket)
                told: Any = Answered(user, sent.attempt, sent.request, answer)
                self.at(self.now + 1e-4, lambda: self.feed(asker, told))
            case Compute(payload, index, visit):
                found = self.workers[user].contribute(payload, index)
                self.at(self.now, lambda: self.feed(user, Computed(found, visit)))
            case Turn(batch):
                done = lists.turned(batch, self.dice.secret, self.dice.below)
                self.at(self.now, lambda: self.feed(user, done))
            case Finished(_, token):
                self.results.append(token)

    def write(self, folder: Path) -> Path:
        """As the launcher leaves a run."""
        (folder / "plan.toml").write_text(dump(self.plan))
        for name, lines in zip(self.plan.names, self.lines, strict=True):
            state = folder / "users" / name / "state"
            state.mkdir(parents=True)
            (state / "view.jsonl").write_text("\n".join(lines) + "\n")
        return folder


class LossyRun(HiddenRun):
    """The first holder of a step from ``at_step`` on that was not its own sender is lost before it says anything; with
    it, if asked, the sender."""

    def __init__(self, plan: Plan, rows: list[list[float]], at_step: int, *, and_speaker: bool = False) -> None:
        super().__init__(plan, rows)
        self.at_step, self.and_speaker = at_step, and_speaker
        self.lost: tuple[int, ...] = ()

    def run(self) -> None:
        for user in range(self.plan.n):
            self.feed(user, Begin())
        while len(self.results) < self.plan.n - max(1, len(self.lost)):
            self.now, _, action = heapq.heappop(self.queue)
            action()

    def feed(self, user: int, event: Any) -> None:
        if user in self.lost:
            return
        super().feed(user, event)
        state = self.states[user]
        if self.lost or not state.opened or state.heard[1] < self.at_step:
            return
        (speaker,) = (other for other in range(self.plan.n) if self.states[other].mine == state.heard)
        if speaker != user:
            self.lost = (user, speaker) if self.and_speaker else (user,)

    def _carry_out(self, user: int, effect: Any) -> None:
        if isinstance(effect, Reply) and effect.ticket not in self.calls:
            return
        super()._carry_out(user, effect)
        if isinstance(effect, Send):
            ticket = self.serial - 1  # the call took the number before that of its event
            self.at(self.now + self.contexts[user].answer_s, lambda: self._unanswered(user, ticket, effect))

    def _unanswered(self, user: int, ticket: int, sent: Send[Any]) -> None:
        if self.calls.pop(ticket, None) is not None:
            self.feed(user, Answered(sent.peer, sent.attempt, sent.request, None))


def values(n: int, columns: int = 1, seed: int = 1) -> list[list[float]]:
    return np.random.default_rng(seed).random((n, columns)).tolist()
