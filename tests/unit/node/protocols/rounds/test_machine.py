"""The core of rounds, transition by transition: what a peer can do to a user, and when a result is final."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from node.noise import SystemSource
from node.protocols import exits
from node.protocols.effects import Answered, Begin, Finished, Persist, PersistFailed, Received, Reply, Send, Stop, Tick
from node.protocols.rounds import machine
from node.protocols.rounds.effects import Computed, Event, Turn
from node.protocols.rounds.labels import opened
from node.protocols.rounds.lives import table
from node.protocols.rounds.messages import Answer, Batch, Block, Call, Outcome, Request, Shuffle, Taken, Want
from node.protocols.rounds.speech import Kind, Speech, encoded, size_of
from node.protocols.rounds.state import Context, Durable, Inputs, State, new_life
from node.rounds import Rounds
from simulator.faults.dice import ScheduleDice
from simulator.rounds.scene import STEPS, USERS, Counter, context

SOURCE = random.Random(5)
PRIVATE = [SOURCE.randbytes(32) for _ in range(USERS)]
PUBLIC = tuple(X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw() for key in PRIVATE)
INPUTS = Inputs(1.0, ScheduleDice(SOURCE), lambda: SOURCE.getrandbits(40))
SIZE = size_of(8 * Counter.dimension)


def user(me: int, incarnation: int = 1) -> Context:
    return context(me, PRIVATE[me], PUBLIC, 4, 2, incarnation)


def begun(ctx: Context, durable: Durable | None = None) -> State:
    return machine.step(ctx, State(durable or Durable()), Begin(), INPUTS)[0]


def message(kind: Kind, epoch: int, step: int, body: bytes = b"") -> bytes:
    return encoded(Speech(kind, epoch, step, body), "run", SIZE)


def outcome(state: State, total: bytes, **votes: int | bool | Call) -> Answered[Request, Answer]:
    told = Outcome(total, None, 0, b"", 0, 0, 0, 0, False, False)._replace(**votes)
    return Answered(0, state.attempt, Block(b"", 1, 0, 0, b"", b""), told)


RESULT = (7).to_bytes(8, "little") + bytes(8)


def test_a_result_is_final_only_when_a_sum_shows_a_majority_that_accepted_it() -> None:
    ctx = user(1)
    state = begun(ctx)
    state, effects = machine.step(ctx, state, outcome(state, message(Kind.RESULT, 1, STEPS + 1, RESULT)), INPUTS)
    assert state.durable.accepted == 1 and not state.durable.final and isinstance(effects[0], Persist)
    blank = bytes(8 * SIZE)
    state, _ = machine.step(ctx, state, outcome(state, blank, accepted=1, accepts=3), INPUTS)
    assert not state.durable.final
    state, effects = machine.step(ctx, state, outcome(state, blank, accepted=1, accepts=4), INPUTS)
    assert state.durable.final and any(isinstance(effect, Finished) and effect.token == RESULT for effect in effects)


def test_a_result_of_an_epoch_that_was_given_up_is_known_but_not_accepted() -> None:
    ctx = user(1)
    state = begun(ctx)
    state, _ = machine.step(ctx, state, outcome(state, message(Kind.PREPARE, 9, 3)), INPUTS)
    assert state.durable.promised == 9
    state, _ = machine.step(ctx, state, outcome(state, message(Kind.RESULT, 1, STEPS + 1, RESULT)), INPUTS)
    assert state.durable.accepted == 0 and state.heard == (1, STEPS + 1)


def test_who_asked_says_the_result_that_was_accepted_and_not_its_own_token() -> None:
    ctx = user(1)
    state = begun(ctx, Durable(epoch=1, to_step=4, said=b"x", out=bytes(16)))
    state, _ = machine.step(ctx, state, outcome(state, message(Kind.RESULT, 1, STEPS + 1, RESULT)), INPUTS)
    state = state._replace(bid=9, durable=state.durable._replace(promised=9))
    blank = bytes(8 * SIZE)
    state, _ = machine.step(ctx, state, outcome(state, blank, promised=9, promises=3, accepted=1), INPUTS)
    assert state.durable.epoch == 1
    state, effects = machine.step(ctx, state, outcome(state, blank, promised=9, promises=4, accepted=1), INPUTS)
    assert state.durable.said == message(Kind.RESULT, 9, STEPS + 1, RESULT) and isinstance(effects[0], Persist)


def test_an_old_disk_is_told_so_and_ends() -> None:
    ctx = user(0)
    state = begun(ctx)
    past, last = new_life(user(2, 3), INPUTS), new_life(user(2, 7), INPUTS)
    state = state._replace(durable=state.durable._replace(met=table(USERS, {2: last})), adder=0)
    life = new_life(user(2, 9), INPUTS)  # started more often since than its lost past had starts
    wish = Block(life, 0, 1, 0, b"", b"", own=past + life)
    _, effects = machine.step(ctx, state, Received(2, 1, wish), INPUTS)
    (reply,) = [effect for effect in effects if isinstance(effect, Reply)]
    assert isinstance(reply.answer, Outcome) and reply.answer.old
    other = user(2, 3)
    theirs = begun(other)
    _, effects = machine.step(other, theirs, outcome(theirs, b"", old=True), INPUTS)
    assert [effect.code for effect in effects if isinstance(effect, Stop)] == [exits.OLD_DISK]
    _, effects = machine.step(ctx, state, Received(2, 2, wish._replace(promised=0)), INPUTS)
    assert not any(isinstance(effect, Reply) and effect.answer.old for effect in effects)  # it knows, and has no vote


def test_a_user_that_was_often_started_in_vain_is_no_old_disk() -> None:
    ctx, state = user(0), begun(user(0))
    met, life = new_life(user(2, 3), INPUTS), new_life(user(2, 9), INPUTS)
    state = state._replace(durable=state.durable._replace(met=table(USERS, {2: met})))
    wish = Block(life, 0, 1, 0, b"", b"", own=met + new_life(user(2, 5), INPUTS) + life)
    state, effects = machine.step(ctx, state, Received(2, 1, wish), INPUTS)
    assert not effects and 2 in state.adding.waiting


def test_every_start_is_journaled_and_a_full_disk_only_delays_it() -> None:
    ctx = user(1)
    state, effects = machine.step(ctx, State(Durable()), Begin(), INPUTS)
    assert isinstance(effects[0], Persist) and effects[0].changes == {"own": state.life}
    again = machine.step(ctx, State(state.durable), Begin(), INPUTS)[0]
    assert again.durable.own == state.life + again.life
    state, effects = machine.step(ctx, State(Durable()), PersistFailed(Begin()), INPUTS)
    assert not state.life and state.send_at is not None
    state, effects = machine.step(ctx, state, Tick(), INPUTS._replace(now=state.send_at))
    assert state.durable.own == state.life and any(isinstance(effect, Send) for effect in effects)


def test_who_joins_tells_that_a_user_who_waits_runs_from_an_old_disk() -> None:
    """The adder itself has forgotten all, or was away then; a block that came for the open round is not added."""
    ctx, state = user(0), begun(user(0))
    theirs = Block(new_life(user(2, 3), INPUTS), 0, 1, 0, b"", b"", own=new_life(user(2, 3), INPUTS))
    state, effects = machine.step(ctx, state, Received(2, 1, theirs), INPUTS)
    assert not effects
    met = table(USERS, {2: new_life(user(2, 7), INPUTS)})
    wish = Block(new_life(user(3), INPUTS), 0, 1, 0, b"", b"", met)
    state, effects = machine.step(ctx, state, Received(3, 2, wish), INPUTS)
    assert isinstance(effects[0], Persist) and effects[0].changes == {"met": met}
    (reply,) = [effect for effect in effects if isinstance(effect, Reply)]
    assert reply.ticket == 1 and reply.answer.old and state.adding.waiting.keys() == {3}
    state, effects = machine.step(ctx, state, Received(3, 3, wish._replace(met=b"short")), INPUTS)
    assert isinstance(effects[-1], Reply) and state.durable.met == met


def test_the_lives_of_a_roll_are_journaled_before_the_block_for_it_leaves() -> None:
    ctx = user(1)
    state = begun(ctx)
    roll = {peer: new_life(user(peer, 2), INPUTS) for peer in range(USERS)} | {1: state.life}
    state, effects = machine.step(ctx, state, outcome(state, b"", call=Call(0, 1, roll)), INPUTS)
    assert isinstance(effects[0], Persist) and effects[0].changes == {"met": table(USERS, roll)}
    assert not any(isinstance(effect, Send) for effect in effects) and state.call is not None
    earlier = roll | {2: new_life(user(2, 1), INPUTS)}
    state, effects = machine.step(ctx, state, outcome(state, b"", call=Call(0, 2, earlier)), INPUTS)
    assert state.durable.met == table(USERS, roll)  # the latest is what counts


@pytest.mark.parametrize("short", [1, 2])
def test_nobody_answers_a_call_for_fewer_than_the_crowd_that_the_promise_counts_on(short: int) -> None:
    """However the adder came to it: a smaller crowd would hide the holder less well than the plan says."""
    ctx = replace(user(1), quorum=5)
    state = begun(ctx)
    roll = {peer: new_life(user(peer), INPUTS) for peer in range(USERS - short)} | {1: state.life}
    state, _ = machine.step(ctx, state, outcome(state, b"", call=Call(0, 1, roll)), INPUTS)
    assert (state.call is None) == (len(roll) < 5)


def test_a_user_without_memory_opens_no_token_of_the_epoch_it_came_back_to() -> None:
    ctx = user(1)
    state = begun(ctx, Durable(rejoined=True))
    state, effects = machine.step(ctx, state, Tick(), INPUTS)
    state, _ = machine.step(ctx, state, outcome(state, bytes(8 * SIZE), promised=5, promises=3), INPUTS)
    assert state.durable.barrier == 5
    state, effects = machine.step(ctx, state._replace(send_at=0.5), Tick(), INPUTS)
    (wish,) = [effect.request for effect in effects if isinstance(effect, Send)]
    assert isinstance(wish, Block) and wish.promised == wish.accepted == 0


def test_what_a_user_shows_of_itself_does_not_depend_on_holding_the_token() -> None:
    """Its status, its progress, and when it wakes: while it computes, has computed, and has something to say."""
    ctx = user(1)
    shown: Any = Rounds(ctx, INPUTS.dice, SystemSource(), Counter())  # type: ignore[arg-type]
    other = begun(ctx)._replace(heard=(1, 3), send_at=2.0)
    durable = other.durable._replace(epoch=1, to_step=4, said=bytes(8 * SIZE), out=bytes(16), visits=1)
    computing = other._replace(opened=bytes(16), computing=True)
    for holder in (computing, computing._replace(contribution=INPUTS.supply), other._replace(durable=durable)):
        for look in (shown.status, shown.progress, shown.wake_at):
            assert look(holder) == look(other)


def test_a_full_disk_gives_the_duty_up_and_answers_everybody() -> None:
    ctx = user(0)
    state = begun(ctx)
    for peer in (1, 2):
        wish = Block(new_life(user(peer), INPUTS), 0, 1, 0, b"", b"")
        state, effects = machine.step(ctx, state, Received(peer, peer, wish), INPUTS)
        assert not any(isinstance(effect, Reply) for effect in effects)
    cause: Received[Request] = Received(3, 3, Block(new_life(user(3), INPUTS), 0, 1, 0, b"", b""))
    state, effects = machine.step(ctx, state, PersistFailed(cause), INPUTS)
    replies = {effect.ticket: effect.answer for effect in effects if isinstance(effect, Reply)}
    assert replies.keys() == {1, 2, 3} and state.adder == 1
    assert all(isinstance(answer, Outcome) and answer.adder == 1 for answer in replies.values())


def _any_words(source: random.Random, state: State) -> Event:
    """Something of the right types, and of any value."""
    octets = [b"", bytes(8 * SIZE), source.randbytes(8 * SIZE), source.randbytes(3), message(Kind.TOKEN, 1, 2)]
    octets += [message(kind, source.choice((1, 2, 1 << 63)), source.choice((1, STEPS + 1))) for kind in Kind]
    life = source.choice((state.life, bytes(16), b"", source.randbytes(16)))
    number = source.choice((0, 1, 2, 7, (1 << 64) - 1))
    roll = {source.choice((0, 1, 2, 3, 4, 99)): source.choice((life, bytes(16), b"z")) for _ in range(6)}
    call = source.choice((None, Call(source.choice((0, 1, 99)), number, roll)))
    point = source.choice((bytes(32), source.randbytes(32), b"", PUBLIC[0]))
    crowd = source.choice(((0, 1, 2, 3, 4), (0, 0, 1), (), (4, 3, 2, 1, 0)))
    rows = (b"".join((PUBLIC[1], *(source.choice((point, PUBLIC[0])) for _ in crowd))),) * source.choice((0, 1, STEPS))
    batch = Batch(source.choice((1, number)), source.choice((0, number)), crowd, source.choice((0, 9)), 1, rows)
    batch = batch._replace(turns=source.choice((0, 1, 2, 3)))
    block = Block(life, number, number, source.choice((0, 1)), source.choice(octets), source.choice(octets))
    told = Outcome(
        source.choice(octets), call, source.choice((0, 99)), source.choice(octets), number, 5, number, 5, False, False
    )
    request: Request = source.choice((block, Shuffle(batch), Want(number, number)))
    answer: Answer | None = source.choice((told, told, Shuffle(batch), Taken(), None))
    asked: Request = source.choice((block, Want(1, 0)))
    received: Event = Received(source.randrange(USERS), 1, request)
    return source.choice((received, Answered(0, state.attempt, asked, answer), Tick()))


@pytest.mark.parametrize("seed", range(8))
def test_no_words_of_a_peer_make_a_transition_raise(seed: int) -> None:
    source = random.Random(seed)
    ctx = user(seed % USERS)
    state = begun(ctx)
    for _ in range(150):
        state, _ = machine.step(ctx, state, _any_words(source, state), INPUTS._replace(now=source.random() * 100))
    assert state.durable.rejoined is False


def test_a_stale_computation_is_not_used() -> None:
    ctx = user(1)
    state = begun(ctx)._replace(opened=bytes(16), heard=(1, 2), computing=True, computation=4)
    state, _ = machine.step(ctx, state, Computed(Counter().contribute(ctx.payload(bytes(16)), 1), 3), INPUTS)
    assert state.contribution is None
    state, _ = machine.step(ctx, state, Computed(Counter().contribute(ctx.payload(bytes(16)), 1), 4), INPUTS)
    assert state.contribution is not None


def test_the_adder_hands_a_finished_batch_on_once() -> None:
    ctx = user(0)
    batch = Batch(1, 0, tuple(range(USERS)), 0, ctx.shufflers, (opened(PUBLIC),) * STEPS)
    state = begun(ctx)._replace(call=Call(0, 1, dict.fromkeys(range(USERS), bytes(16))))
    for ticket in (1, 2):
        state, _ = machine.step(ctx, state, Received(2, ticket, Shuffle(batch)), INPUTS)
        assert state.adding.batches == (batch,)
    passed_on = begun(ctx)._replace(call=state.call, adder=3)
    assert not machine.step(ctx, passed_on, Received(2, 1, Shuffle(batch)), INPUTS)[0].adding.batches


def called(ctx: Context, state: State, counter: int) -> State:
    """Its value is there, and the adder asks for a block."""
    roll = {user: state.life if user == ctx.me else bytes(16) for user in range(USERS)}
    value = Counter().contribute(ctx.payload(bytes(16)), 1)
    return state._replace(call=Call(0, counter, roll), send_at=0.5, contribution=value)


def test_every_share_is_counted_and_promised_before_it_leaves_and_the_last_one_ends_it() -> None:
    ctx = replace(context(1, PRIVATE[1], PUBLIC, 3, 2, 1, True), attempts=2)
    state, seen = begun(ctx), set()
    for number in (1, 2):
        state, effects = machine.step(ctx, called(ctx, state, 2 * number + 1), Tick(), INPUTS)
        assert isinstance(effects[0], Persist) and state.durable.visits == number
        assert state.durable.promised == 2 * number + 1
        (sent,) = [effect.request for effect in effects if isinstance(effect, Send)]
        assert isinstance(sent, Block) and sent.promised == state.durable.promised
        seen.add(json.loads(state.durable.line)["noise"][1])
    assert len(seen) == 2
    state, effects = machine.step(ctx, called(ctx, state, 7), Tick(), INPUTS)
    assert [effect.code for effect in effects if isinstance(effect, Stop)] == [exits.STALLED]
    assert not any(isinstance(effect, Send) for effect in effects)


def test_a_share_is_refused_below_a_promise_beyond_the_attempts_and_by_a_user_without_memory() -> None:
    ctx = replace(context(1, PRIVATE[1], PUBLIC, 3, 2, 1, True), attempts=9)
    for durable in (Durable(promised=9), Durable(rejoined=True), Durable(accepted=1, result=RESULT, visits=9)):
        state, effects = machine.step(ctx, called(ctx, begun(ctx, durable), 5), Tick(), INPUTS)
        (sent,) = [effect.request for effect in effects if isinstance(effect, Send)]
        assert isinstance(sent, Block) and not sent.data
        assert state.durable == durable._replace(own=state.life)


def test_how_long_a_user_waits_before_it_asks_for_an_epoch_does_not_name_it() -> None:
    """Everybody counts the silence: who did not speak in the epoch waits for an order that nobody else knows."""
    spoke_before = Durable(promised=2, epoch=1, to_step=3, out=b"x", said=b"x")
    ranks = [
        machine._rank(user(me), State(spoke_before, heard=(2, step))) - step - 2
        for me in range(USERS)
        for step in range(1, 40)
    ]
    assert set(ranks) == set(range(USERS))
    for me in range(USERS):
        assert len(set(ranks[39 * me : 39 * (me + 1)])) == USERS


def test_what_only_a_holder_computes_sends_nothing_when_it_is_done() -> None:
    """Also where labels are due: everybody asks for them on the same events."""
    ctx = user(1)
    roll = {me: new_life(user(me), INPUTS) for me in range(USERS)}
    state = begun(ctx)._replace(call=Call(0, 1, roll), computing=True, computation=4, label_at=0.0, tries=1)
    _, on_tick = machine.step(ctx, state, Tick(), INPUTS)
    _, on_computed = machine.step(ctx, state, Computed(None, 4), INPUTS)
    assert [effect for effect in on_tick if isinstance(effect, Send | Turn)]
    assert not [effect for effect in on_computed if isinstance(effect, Send | Turn)]
