"""One user of the protocol core in a test's hands: feed events, look at effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from node.protocols.effects import Answered, Begin, Persist, PersistFailed, Received, Reply, Send
from node.protocols.walk import machine
from node.protocols.walk.effects import Effect, Event
from node.protocols.walk.messages import NOWHERE, Answer, Granted, Handoff, Locate, Located, Offer, Request
from node.protocols.walk.state import Context, Durable, Inputs, State
from node.protocols.walk.values import Hop, Token
from node.worker import NoiseDraw
from simulator.faults.dice import ScheduleDice, seeded
from simulator.faults.scenario import STAGES, cast

E = TypeVar("E")


class User:
    """Runs ``machine.step`` as the runtime does; ``effects`` are those of the last event."""

    def __init__(self, ctx: Context, pool: tuple[NoiseDraw, ...], durable: Durable | None = None) -> None:
        self.ctx = ctx
        self.now = 100.0
        self.state = State(durable=durable or Durable(promised=(0, ctx.start)))
        self.effects: list[Effect] = []
        self._pool = iter(pool)
        self._dice = ScheduleDice(seeded("test", 1))
        self.taken = 0  # noises so far

    def feed(self, event: Event) -> list[Effect]:
        inputs = Inputs(self.now, self._dice, self._take, 0.0)
        self.state, self.effects = machine.step(self.ctx, self.state, event, inputs)
        places = [i for i, effect in enumerate(self.effects) if isinstance(effect, Persist)]
        assert places in ([], [0])
        return self.effects

    def _take(self) -> NoiseDraw:
        self.taken += 1
        return next(self._pool)

    def ask(self, peer: int, request: Request) -> Answer:
        """A peer's request, and what this user replies."""
        return next(effect.answer for effect in self.feed(Received(peer, 1, request)) if isinstance(effect, Reply))

    def ask_in_vain(self, peer: int, request: Request) -> Answer:
        """The same, with a disk that takes nothing."""
        before, event = self.state, Received(peer, 1, request)
        self.feed(event)
        assert any(isinstance(effect, Persist) for effect in self.effects)
        self.state = before
        return next(effect.answer for effect in self.feed(PersistFailed(event)) if isinstance(effect, Reply))

    def answer(self, send: Send, answer: Answer | None) -> list[Effect]:
        return self.feed(Answered(send.peer, send.attempt, send.request, answer))

    def checked(self) -> User:
        """As if a majority had answered after the start."""
        self.state = self.state._replace(checked=True)
        return self

    def sends(self, kind: type[E]) -> list[Send]:
        return [effect for effect in self.effects if isinstance(effect, Send) and isinstance(effect.request, kind)]

    def all(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def take(self, peer: int, hop: Hop, token: bytes) -> Answer:
        """Offer and hand over."""
        granted = self.ask(peer, Offer(hop))
        assert isinstance(granted, Granted)
        return self.ask(peer, Handoff(hop, granted.grant, b"k" * 32, token))

    def located(self, answer: Located = NOWHERE) -> None:
        """Answer every open question about the token."""
        for send in self.sends(Locate):
            self.answer(send, answer)

    def restarted(self) -> User:
        """The same journal in a new process."""
        other = User(self.ctx, tuple(self._pool), self.state.durable)
        other.feed(Begin(again=True))
        return other


@pytest.fixture
def user() -> Callable[..., User]:
    def make(stage: str, me: int, **changes: Any) -> User:
        index = next(i for i, scenario in enumerate(STAGES) if scenario.name == stage)
        there = cast(index)
        return User(there.contexts[me]._replace(**changes), there.pool)

    return make


@pytest.fixture
def blank() -> Callable[[Context], bytes]:
    """The bytes of a token nobody has added to."""

    def make(ctx: Context) -> bytes:
        import numpy as np

        ledger = ctx.rule.blank_ledger(ctx.n)
        return Token(np.zeros(ctx.worker.dimension, ctx.worker.dtype), 0, 0, 0, ledger).encode()

    return make
