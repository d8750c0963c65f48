"""No bytes of a peer raise out of ``step``, and no number of a peer leaves this user without a word that others read.

The states are real ones, from simulated disasters; on each of them peers say whatever the wire lets through.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any, NamedTuple

import pytest

from node.protocols.effects import Answered, Persist, Received, Send, Tick
from node.protocols.rounds import lists, machine
from node.protocols.rounds.effects import Computed, Event, Turn
from node.protocols.rounds.hearing import MAX_JUMP, hear, promise
from node.protocols.rounds.messages import Answer, Batch, Block, Call, Outcome, Request, Shuffle, Taken, Want
from node.protocols.rounds.seal import OVERHEAD_BYTES
from node.protocols.rounds.speech import Kind, Speech, decoded, encoded, size_of
from node.protocols.rounds.state import COUNT_SHIFT, Context, Inputs, State, new_epoch
from node.transport.codec import Frame
from node.transport.rounds_codec import RoundsCodec, Sizes
from simulator.faults.dice import ScheduleDice
from simulator.rounds.scene import Counter
from simulator.rounds.world import World

SEEDS = (*range(24), 144, 146)  # of the last two somebody comes back without its disk
NUMBERS = (0, 1, 2, 3, 7, 2**40, 2**41 + 1, 2**62, 2**63 - 1)  # the wire lets no higher ones pass
SAID = (*NUMBERS, 2**63, 2**64 - 2**40, 2**64 - 1)  # a message in a sum has 64 bits for its epoch


class Moment(NamedTuple):
    """A user as it was in the middle of something."""

    ctx: Context
    state: State
    now: float


class _Collector(World):
    """Keeps the first state of every kind that a user of a run is in."""

    found: dict[tuple[Any, ...], Moment]

    def feed(self, user: int, event: Event) -> None:
        state = self.states[user]
        if state is not None and state.life:  # begun
            durable, adding = state.durable, state.adding
            kind = (
                self._in_one_round,
                state.call is not None,
                bool(state.opened),
                state.computing,
                state.bid > 0,
                state.won,
                durable.final,
                durable.rejoined,
                bool(durable.out),
                durable.accepted > 0,
                adding.call is not None,
                bool(adding.waiting),
                state.adder == user,
            )
            self.found.setdefault(kind, Moment(self._contexts[user], state, self.now))
        super().feed(user, event)


@cache
def moments() -> tuple[Moment, ...]:
    found: dict[tuple[Any, ...], Moment] = {}
    for seed in SEEDS:
        world = _Collector(seed, in_one_round=seed % 4 == 3)
        world.found = found
        world.run()
    return tuple(found.values())


def test_everything_a_user_can_be_in_is_looked_at() -> None:
    states = [moment.state for moment in moments()]
    assert any(state.opened and state.computing for state in states) and any(state.won for state in states)
    assert any(state.bid for state in states) and any(state.durable.rejoined for state in states)
    assert any(state.durable.final for state in states) and any(state.adding.waiting for state in states)


class Words:
    """What a peer says to a user in this state."""

    def __init__(self, chance: random.Random, ctx: Context, state: State) -> None:
        self.chance, self.ctx, self.state = chance, ctx, state

    def one_of(self, *choices: Any) -> Any:
        return self.chance.choice(choices)

    def number(self, numbers: tuple[int, ...] = NUMBERS) -> int:
        state = self.state
        known = (state.durable.promised, state.durable.promised + 1, state.heard[0], state.adding.counter + 1)
        return int(self.one_of(*(number for number in known if number <= max(numbers)), *numbers))

    def user(self) -> int:
        return self.chance.randrange(self.ctx.n)

    def speech(self) -> bytes:
        ctx, chance = self.ctx, self.chance
        kind, size = self.one_of(None, *Kind), size_of(ctx.token_bytes)
        if kind is None:
            return bytes(self.one_of(b"", bytes(8 * size), chance.randbytes(8 * size), self.state.news))
        step = ctx.total_steps + 1 if kind is Kind.RESULT else self.one_of(1, ctx.total_steps)
        body = {Kind.TOKEN: ctx.token_bytes + OVERHEAD_BYTES, Kind.RESULT: ctx.token_bytes}.get(kind, 0)
        return encoded(Speech(kind, self.number(SAID), step, chance.randbytes(body)), ctx.run_id, size)

    def life(self) -> bytes:
        return bytes(self.one_of(self.state.life, bytes(16), b"\xff" * 16, self.chance.randbytes(16)))

    def users(self) -> tuple[int, ...]:
        here = () if self.state.call is None else tuple(sorted(self.state.call.roll))
        return self.one_of(here, tuple(range(self.ctx.n)), tuple(sorted({self.user() for _ in range(4)})))

    def call(self) -> Call:
        state, me = self.state, self.ctx.me
        roll = {user: state.life if user == me else self.life() for user in self.users()}
        known = [] if state.call is None else [state.call.roll]
        return Call(self.user(), self.number(), self.one_of(roll, *known))

    def batch(self) -> Batch:
        state, crowd = self.state, self.users()
        one = self.one_of(bytes(32), (9).to_bytes(32, "little"), self.chance.randbytes(32)) * (len(crowd) + 1)
        made = Batch(
            self.one_of(state.base[0], self.number()),
            self.one_of(0, self.number()),
            crowd,
            self.one_of(0, self.number()),
            self.one_of(0, 1, self.ctx.shufflers, self.number()),
            (one,) * self.one_of(0, 1, 6, 8),
        )
        return self.one_of(made, *state.batches.values())

    def outcome(self) -> Outcome:
        counts = self.number(), self.number(), self.number(), self.number()
        call, batch = self.one_of(None, self.call()), self.one_of(None, self.batch())
        final, old = self.one_of(False, True), self.one_of(False, False, True)
        return Outcome(self.speech(), call, self.user(), self.speech(), *counts, final, old, batch)

    def block(self) -> Block:
        ctx, call = self.ctx, self.state.adding.call
        votes = self.number(), self.number()
        if call is None or self.one_of(False, True):
            met = self.one_of(b"", self.chance.randbytes(16 * ctx.n))
            return Block(self.life(), 0, *votes, b"", self.speech(), met, self.chance.randbytes(32))
        life = self.one_of(self.life(), *call.roll.values())
        return Block(life, self.one_of(call.counter, 2**63 - 1), *votes, self.chance.randbytes(ctx.block_bytes), b"")

    def event(self) -> Event:
        state, peer = self.state, self.user()
        words = Want(self.number(), self.number())
        requests: tuple[Request, ...] = (self.block(), Shuffle(self.batch()), words)
        answers: tuple[Answer | None, ...] = (None, self.outcome(), Taken())
        told: Event = Answered(peer, state.attempt, Block(b"", 1, 0, 0, b"", b""), self.one_of(*answers))
        labels: Event = Answered(peer, 0, words, self.one_of(None, Taken(), Shuffle(self.batch())))
        heard: tuple[Event, ...] = tuple(Received(peer, 1, request) for request in requests)
        computed = Computed(Counter().contribute(None, 1), state.computation)  # type: ignore[arg-type]
        return self.one_of(told, told, labels, Tick(), computed, *heard)


def can_be_read(ctx: Context, request: Request) -> bool:
    wire = RoundsCodec(Frame("ab" * 32, "cd" * 32), Sizes(ctx.n, ctx.block_bytes))
    return wire.request_in(wire.request_out(1, request)) == (1, request)


@pytest.mark.parametrize("seed", range(0, 4000, 500))
def test_nothing_a_peer_says_raises_or_poisons_anybody(seed: int) -> None:
    for number in range(seed, seed + 500):
        _listen(random.Random(number))


def _listen(chance: random.Random) -> None:
    ctx, state, now = chance.choice(moments())
    dice = ScheduleDice(chance)
    for _ in range(chance.randint(1, 6)):
        event = Words(chance, ctx, state).event()
        now = max(now, state.wake_at or now) if isinstance(event, Tick) else now
        reach = (
            (max(state.durable.promised, state.heard[0]) >> COUNT_SHIFT) + 3 * MAX_JUMP + 1
        )  # an answer has three words
        state, effects = machine.step(ctx, state, event, Inputs(now, dice, lambda: dice.below(2**40)))
        assert [isinstance(effect, Persist) for effect in effects[1:]].count(True) == 0
        assert max(state.durable.promised, state.heard[0], state.bid) >> COUNT_SHIFT <= reach
        for effect in effects:
            assert not isinstance(effect, Send) or can_be_read(ctx, effect.request)
            if isinstance(effect, Turn):
                lists.turned(effect.batch, dice.secret, dice.below)


def _told(state: State, **said: Any) -> Event:
    told = Outcome(b"", None, 0, b"", 0, 0, 0, 0, False, False)._replace(**said)
    return Answered(0, state.attempt, Block(b"", 1, 0, 0, b"", b""), told)


@pytest.mark.parametrize("epoch", [2**64 - 1, 2**63, 2**62])
def test_one_absurd_epoch_does_not_end_the_run(epoch: int) -> None:
    """Said in a sum, as news, by the adder, in a block or as the number of a call for shares: no vote could top it."""
    dice = ScheduleDice(random.Random(1))
    inputs = Inputs(1.0, dice, lambda: 1)
    for ctx, state, _ in moments():
        said = encoded(Speech(Kind.PREPARE, epoch, 1), ctx.run_id, size_of(ctx.token_bytes))
        counter = min(epoch, 2**63 - 1)
        roll = {user: state.life if user == ctx.me else b"l" * 16 for user in range(ctx.n)}
        after = state
        for words in (
            _told(state, total=said),
            _told(state, news=said),
            _told(state, promised=counter, promises=4),
            _told(state, call=Call(0, counter, roll)),
            Received(1, 1, Block(b"l" * 16, 0, counter, counter, b"", said)),
            Tick(),
            Tick(),
        ):
            words = words._replace(attempt=after.attempt) if isinstance(words, Answered) else words
            after, _ = machine.step(ctx, after, words, inputs._replace(now=max(1.0, after.wake_at or 1.0)))
            votes = [max(one.promised, one.accepted) for one in after.adding.waiting.values()]
            assert max(after.durable.promised, after.heard[0], *votes) < counter
        assert new_epoch(after, inputs) < 2**62


def test_who_is_far_behind_climbs_word_by_word_and_asks_for_a_higher_epoch_in_the_end() -> None:
    ctx, state, _ = moments()[0]
    epoch = max(state.durable.promised, state.heard[0]) + (5 * MAX_JUMP // 2 << COUNT_SHIFT)
    word = encoded(Speech(Kind.PREPARE, epoch, 1), ctx.run_id, size_of(ctx.token_bytes))
    promised = []
    for _ in range(3):
        state = hear(ctx, state, word)
        promised.append(state.durable.promised)
    assert promised == sorted(set(promised)) and promised[1] < promised[2] == epoch
    assert new_epoch(state, Inputs(1.0, ScheduleDice(random.Random(1)), lambda: 1)) > epoch


def test_no_number_of_lies_leaves_an_epoch_that_cannot_be_told() -> None:
    ctx, state, _ = moments()[0]
    while (after := promise(state, 2**64 - 1)) is not state:
        state = after
    state = state._replace(bid=new_epoch(state, Inputs(1.0, ScheduleDice(random.Random(1)), lambda: 1)))
    block = Block(state.life, 0, state.durable.promised, state.bid, b"", b"")
    assert can_be_read(ctx, block)
    said = encoded(Speech(Kind.PREPARE, state.bid, 1), ctx.run_id, size_of(ctx.token_bytes))
    assert decoded(said, ctx.run_id, ctx.total_steps, ctx.token_bytes) is not None


def test_who_lost_its_memory_stays_away_up_to_the_highest_epoch_that_is_told() -> None:
    """Else a token that it answered before its disk was lost could be played to it again, and get other noise."""
    inputs = Inputs(1.0, ScheduleDice(random.Random(1)), lambda: 1)
    epoch = 3 * MAX_JUMP << COUNT_SHIFT
    for ctx, state, _ in moments():
        state = state._replace(durable=state.durable._replace(rejoined=True, barrier=0, final=False))
        after, _ = machine.step(ctx, state, _told(state, promised=epoch, news=b"x"), inputs)
        assert after.durable.barrier >= epoch or after.attempt != state.attempt
