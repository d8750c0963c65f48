"""What every user will do, done before any of them exists: forked users share the memory it warmed.

A walk of three users without network or disk, and without data: nobody contributes. Whatever is drawn comes from the
OS and is thrown away.
"""

from __future__ import annotations

from collections.abc import Iterator

from network_dp.plan import Plan
from node import records
from node.config import context
from node.dice import SystemDice
from node.noise import SystemSource
from node.protocol import issue
from node.protocol.effects import Answered, Effect, Persist, Received, Reply, Send, Tick
from node.protocol.machine import step
from node.protocol.messages import Answer
from node.protocol.state import Context, Durable, Inputs, State
from node.tasks import LocalData, Task
from node.transport.codec import Frame, hop_answer_in, hop_answer_out
from node.worker import BoundTask

CAST = 3
MESSAGES = 150


class Rehearsal:
    """The first three users of a plan, in memory, on a complete graph."""

    def __init__(self, plan: Plan, task: Task) -> None:
        worker = BoundTask(task, LocalData(task.initial(SystemSource())[None], None, 0), plan.unit_count, 1)
        source = SystemSource()
        self._inputs = Inputs(0.0, SystemDice(), lambda: worker.supplies(source)[0])
        self._frame = Frame(plan.run_id, plan.hash)
        self._cast = [_silent(context(plan, me, worker, noise_every_visit=True)) for me in range(CAST)]
        self._states = [State(durable=Durable(promised=(0, 0)), checked=True) for _ in range(CAST)]

    def play(self) -> None:
        """Messages and their answers, one at a time, until the interpreter knows them."""
        ctx, state = self._cast[0], self._states[0]
        self._states[0], effects = issue.start_walk(ctx, state, (0, 0), self._inputs)
        mail = [(0, send) for send in _sends(effects)]
        for _ in range(MESSAGES):
            if mail:
                mail += self._deliver(*mail.pop(0))
            else:  # a hop to oneself waits for its turn
                mail = [(user, send) for user in range(CAST) for send in _sends(self._feed(user, Tick()))]

    def _deliver(self, sender: int, send: Send) -> list[tuple[int, Send]]:
        caused = self._feed(send.peer, Received(sender, 0, send.request))
        answer = self._over_the_wire(next(effect.answer for effect in caused if isinstance(effect, Reply)))
        more = self._feed(sender, Answered(send.peer, send.attempt, send.request, answer))
        return [(send.peer, next_send) for next_send in _sends(caused)] + [(sender, again) for again in _sends(more)]

    def _feed(self, user: int, event: Received | Answered | Tick) -> list[Effect]:
        self._states[user], effects = step(self._cast[user], self._states[user], event, self._inputs)
        for effect in effects:
            if isinstance(effect, Persist):
                records.encode(effect.changes)
        return effects

    def _over_the_wire(self, answer: Answer) -> Answer:
        message = hop_answer_out(self._frame, self._states[0].durable.mark, 1, answer)  # type: ignore[arg-type]
        return hop_answer_in(type(message).FromString(message.SerializeToString()))


def _silent(ctx: Context) -> Context:
    """A cap of nothing: noise only."""
    return ctx._replace(names=ctx.names[:CAST], ring=False, ledger=False, start=0, total=1 << 40, min_live=1, cap=0)


def _sends(effects: list[Effect]) -> Iterator[Send]:
    return (effect for effect in effects if isinstance(effect, Send))
