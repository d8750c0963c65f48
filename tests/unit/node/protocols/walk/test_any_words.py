"""No bytes of a peer raise out of ``step``: any message and any answer, with any numbers, in every phase.

The states are real ones, from simulated disasters; on each of them peers say whatever the wire lets through.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from node.protocols.effects import Answered, Begin, Persist, Received, Reply, Tick
from node.protocols.walk import machine, trust
from node.protocols.walk.digests import digest
from node.protocols.walk.effects import Event
from node.protocols.walk.messages import (
    Accepted,
    Already,
    Answer,
    Declined,
    Fence,
    Granted,
    Handoff,
    Locate,
    Located,
    Offer,
    Promise,
    Publish,
    Published,
    Refused,
    Request,
    Result,
    Why,
)
from node.protocols.walk.state import Context, Durable, Inputs, Phase, State, Watch
from node.protocols.walk.values import Hop, Token
from node.storage.walk_records import WALK
from node.worker import NoiseDraw
from simulator.faults.dice import ScheduleDice, seeded
from simulator.faults.schedule import draw
from simulator.faults.world import World

SEEDS = range(160)
NUMBERS = (-1, 0, 1, 2, 3, 5, 2**20, 2**20 + 1, 2**31, 2**61, 2**62 - 1)  # the wire lets no others pass
COUNTS = (0, 1, 3, 2**60, 2**62, 2**63, 2**64 - 1)
PAYLOADS = (0, 1, -1, 2**61, 2**62, -(2**62), 2**63 - 1, -(2**63))


class Moment(NamedTuple):
    """A user as it was in the middle of something."""

    ctx: Context
    state: State
    now: float
    pool: tuple[NoiseDraw, ...]


class _Collector(World):
    """Keeps the first state of every kind that a user of a run is in."""

    found: dict[tuple[Any, ...], Moment]

    def feed(self, user: int, event: Event) -> None:
        process = self.users[user]
        state = process.state
        if state is not None:
            custody = state.durable.custody
            kind = (
                self.cast.scenario.name,
                state.phase,
                state.watch,
                bool(state.asked),
                state.checked,
                state.durable.rejoined,
                custody is not None,
                state.durable.result is not None,
            )
            moment = Moment(process.ctx, state, self.now + process.offset_s, self.cast.pool)
            self.found.setdefault(kind, moment)
        super().feed(user, event)


@cache
def moments() -> tuple[Moment, ...]:
    found: dict[tuple[Any, ...], Moment] = {}
    for seed in SEEDS:
        world = _Collector(draw(seed))
        world.found = found
        world.run()
    return tuple(found.values())


def test_every_phase_and_every_watch_is_looked_at() -> None:
    at_rest = set(Phase) - machine.PROGRESS.keys()
    assert {moment.state.phase for moment in moments()} == at_rest
    assert {moment.state.watch for moment in moments()} == set(Watch)
    assert any(moment.state.durable.rejoined for moment in moments())


_numbers = st.sampled_from(NUMBERS)
_whys = st.sampled_from(Why)


def _epochs(state: State) -> st.SearchStrategy[Any]:
    near = st.tuples(st.integers(0, 2).map(lambda more: state.durable.promised[0] + more), st.integers(0, 5))
    return near | st.tuples(_numbers, _numbers)


def _hops(ctx: Context, state: State) -> st.SearchStrategy[Hop]:
    known = [state.durable.high_water, *([state.durable.custody.out_hop] if state.durable.custody else [])]
    steps = st.integers(1, ctx.total + 1) | _numbers
    return st.sampled_from(known) | st.builds(Hop, _epochs(state), steps)


@st.composite
def _tokens(draw: st.DrawFn, ctx: Context) -> bytes:
    if draw(st.booleans()):
        return draw(st.sampled_from((b"", b"x", b"NDP2" + bytes(40), bytes(97), b"\xff" * 97)))
    counts = st.sampled_from(COUNTS)
    if ctx.worker.dtype == "int64":
        payload = np.full(ctx.worker.dimension, draw(st.sampled_from(PAYLOADS)), np.int64)
    else:
        payload = np.full(ctx.worker.dimension, draw(st.floats(width=64)), np.float64)
    ledger = tuple(draw(counts) for _ in range(ctx.n)) if ctx.rule.by_ledger else ()
    return Token(payload, draw(counts), draw(counts), draw(counts), ledger).encode()


@st.composite
def _results(draw: st.DrawFn, ctx: Context, state: State) -> Result:
    if state.durable.result is not None and draw(st.booleans()):
        return state.durable.result
    token = draw(_tokens(ctx)) if draw(st.booleans()) else b""
    end = digest(token)[:16] if draw(st.booleans()) else b"e" * 16
    return Result(draw(_epochs(state)), end, token)


def _requests(ctx: Context, state: State, peer: int) -> st.SearchStrategy[Request]:
    hops = _hops(ctx, state)
    grant = state.grants.get(peer)
    secrets = st.sampled_from((b"g" * 16, b"" if grant is None else grant.secret))
    if grant is not None and grant.hop is not None:
        hops = st.just(grant.hop) | hops
    return st.one_of(
        st.builds(Offer, hops),
        st.builds(Handoff, hops, secrets, st.just(b"k" * 32), _tokens(ctx)),
        st.just(Locate()),
        st.builds(Fence, _epochs(state) | _numbers.map(lambda counter: (counter, peer))),
        st.builds(Publish, _results(ctx, state), st.booleans(), st.booleans()),
    )


def _answers(ctx: Context, state: State, request: Request) -> st.SearchStrategy[Answer | None]:
    epochs, hops = _epochs(state), _hops(ctx, state)
    results = st.none() | _results(ctx, state)
    match request:
        case Locate():
            said: st.SearchStrategy[Any] = st.builds(
                Located, hops, st.booleans(), epochs, hops, hops, epochs, results, st.booleans()
            )
        case Fence():
            said = st.builds(Promise, st.booleans(), st.none() | _whys, epochs, hops, results, st.booleans())
        case Publish():
            said = st.builds(Published, st.booleans(), epochs)
        case _:  # on the stream of hops any answer can come to any question
            grants = st.sampled_from((b"", b"g" * 16))
            said = st.one_of(
                st.builds(Granted, grants),
                st.just(Already()),
                st.builds(Declined, _whys, epochs),
                st.builds(Accepted, grants),
                st.builds(Refused, _whys, epochs),
            )
    return st.none() | said


@st.composite
def _events(draw: st.DrawFn, ctx: Context, state: State) -> Event:
    """Something a peer says, or an answer to what this user asked, or time."""
    peer = draw(st.sampled_from(sorted(ctx.others)))
    custody = state.durable.custody
    open_questions: list[tuple[int, int, Request]] = []
    if state.phase in (Phase.OFFERING, Phase.HANDING) and custody is not None:
        kind = Offer(custody.out_hop) if state.phase is Phase.OFFERING else Handoff(custody.out_hop, b"", b"", b"")
        open_questions.append((custody.next, state.attempt, kind))
    question: Request = Fence(state.bid) if state.watch is Watch.FENCING else Locate()
    open_questions += [(user, state.query, question) for user in sorted(state.asked)]
    if state.durable.result is not None:
        publish = Publish(state.durable.result, state.durable.final, False)
        open_questions += [(user, state.attempt, publish) for user in sorted(state.publishing)]
    choice = draw(st.integers(0, 4))
    if choice == 0:
        return Tick()
    if choice <= 2 or not open_questions:
        return Received(peer, 1, draw(_requests(ctx, state, peer)))
    user, attempt, asked = draw(st.sampled_from(open_questions))
    return Answered(user, attempt, asked, draw(_answers(ctx, state, asked)))


def _journaled(durable: Durable) -> Durable:
    """Through the bytes of a journal and back."""
    text = WALK.encode(vars(durable))
    return Durable()._replace(**WALK.decode(memoryview(text)))


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_nothing_a_peer_says_raises_or_poisons_anybody(data: st.DataObject) -> None:
    ctx, state, now, pool = data.draw(st.sampled_from(moments()))
    supplies, dice = iter(pool), ScheduleDice(seeded("words", 1))
    for _ in range(data.draw(st.integers(1, 6))):
        event = data.draw(_events(ctx, state))
        now = max(now, state.wake_at or now) if isinstance(event, Tick) else now
        inputs = Inputs(now, dice, lambda: next(supplies), 0.0)
        reach = max(state.durable.promised[0], *sorted([0, 0, *state.heights.values()])[-2:-1]) + trust.MAX_JUMP + 1
        state, effects = machine.step(ctx, state, event, inputs)
        assert [isinstance(effect, Persist) for effect in effects[1:]].count(True) == 0
        if isinstance(event, Received):
            assert sum(isinstance(effect, Reply) for effect in effects) == 1
        assert state.durable.promised[0] <= max(reach, trust.MAX_JUMP + 1) or len(state.heights) > 1
    durable = _journaled(state.durable)
    assert durable == state.durable
    again = State(durable=durable)
    machine.step(ctx, again, Begin(again=True), Inputs(now, dice, lambda: next(supplies), 0.0))
