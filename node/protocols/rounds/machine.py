"""One user of a hidden walk: ``step(ctx, state, event, inputs) -> (state, effects)``.

Everybody answers every call with one block on the beat. Whoever can open the token in a sum is its holder: it
contributes, adds noise, seals the result to a label that it draws, has it journaled, and says those bytes in every
round until it hears them. After a lease of silence the last speaker asks for a new epoch (docs/PROTOCOL.md#rounds).

All users on a roll have the same news when they send their blocks: who joins brings its own to the adder, who tells
them all. So one sum in which a majority promised, or accepted, says the same to everybody.
"""

from __future__ import annotations

from collections.abc import Mapping

from node.protocols.effects import (
    Answered,
    Begin,
    Finished,
    Log,
    Note,
    Persist,
    PersistFailed,
    Received,
    Reply,
    Send,
    Stop,
    Stopping,
    StreamClosed,
    Tick,
)
from node.protocols.exits import DONE, OLD_DISK, STALLED
from node.protocols.rounds import adder, lists, lives, masked, view_lines, visit
from node.protocols.rounds.effects import Computed, Effect, Event, Result, Turned
from node.protocols.rounds.hearing import hear, promise
from node.protocols.rounds.messages import Block, Call, Outcome, Shuffle, Want
from node.protocols.rounds.pads import LIFE_BYTES, derived
from node.protocols.rounds.speech import Kind, Speech, encoded, size_of, words
from node.protocols.rounds.state import Context, Inputs, State, Step, changes, new_epoch, new_life

HURRY_S = 1.0  # to linger, when everybody has accepted the result
QUIET_BITS = 6  # the longest silence after collisions: 2^6 rounds


def step(ctx: Context, state: State, event: Event, inputs: Inputs) -> Step:
    """One transition; a ``Persist`` of every durable change comes before all other effects."""
    after, effects = _transition(ctx, state, event, inputs)
    if not isinstance(event, PersistFailed | Stopping | StreamClosed) and not _is_block(event):
        after, more = _work(ctx, after, event, inputs)
        effects = [*effects, *more]
    if after.durable is state.durable:
        return after, effects
    changed = changes(state.durable, after.durable)
    first: list[Effect] = [Persist(changed, True)] if changed else []
    if after.durable.final and not state.durable.final:
        effects = [*effects, Log(view_lines.result(ctx, after, inputs)), _finished(ctx, after)]
    return after, [*first, *effects]


def _is_block(event: Event) -> bool:
    """The adder, too, goes on when it hears the sum, as everybody does."""
    return isinstance(event, Received) and isinstance(event.request, Block)


def _work(ctx: Context, state: State, event: Event, inputs: Inputs) -> Step:
    """What follows by itself. Only a holder computes: the end of it sends nothing, not even for labels."""
    if ctx.in_one_round:
        return masked.work(ctx, state, inputs)
    state, effects = visit.work(ctx, state, inputs)
    if state.durable.final or isinstance(event, Computed):
        return state, effects
    state, more = lists.gather(ctx, state, inputs)
    return state, [*effects, *more]


def _transition(ctx: Context, state: State, event: Event, inputs: Inputs) -> Step:
    match event:
        case Received(peer, ticket, Block() as block):
            return adder.received(ctx, state, peer, ticket, block, inputs)
        case Received(_, ticket, Shuffle(batch)):
            return lists.shuffle(ctx, state, ticket, batch)
        case Received(_, ticket, Want() as want):
            return lists.tell(state, ticket, want)
        case Answered(_, _, Want(), Shuffle(batch)):
            return lists.keep(ctx, state, batch), []
        case Answered(peer, attempt, Block(), answer) if attempt == state.attempt:
            return _outcome(ctx, state, peer, answer if isinstance(answer, Outcome) else None, inputs)
        case Turned(batch) if batch is not None:
            return lists.had_turn(ctx, state, batch)
        case Computed(contribution, serial) if state.computing and serial == state.computation:
            state = state._replace(contribution=contribution, computing=False)
            return _attend(state) if ctx.in_one_round and state.attempt == 0 else (state, [])
        case Tick():
            return _tick(ctx, state, inputs)
        case Begin():
            return _begin(ctx, state, inputs)
        case PersistFailed(cause):
            return _disk_failed(ctx, state, cause, inputs)
        case _:
            return state, []


def _finished(ctx: Context, state: State) -> Finished[Result]:
    contributions, payload = ctx.end(state.durable.result)
    return Finished(Result(state.durable.accepted, contributions), payload)


def _begin(ctx: Context, state: State, inputs: Inputs) -> Step:
    """A new life. What the journal holds of the result is news for others, too."""
    durable = state.durable
    life = new_life(ctx, inputs)
    durable = durable._replace(own=lives.with_own(durable.own, life))
    state = state._replace(durable=durable, life=life, progress_at=inputs.now, adder=ctx.starter, send_at=None)
    state = state._replace(base=(max(durable.promised, durable.epoch), max(1, durable.to_step)))
    effects: list[Effect] = []
    if durable.accepted:
        key = durable.accepted, ctx.total_steps + 1
        news = encoded(Speech(Kind.RESULT, *key, durable.result), ctx.run_id, size_of(ctx.token_bytes))
        state = state._replace(heard=key, news=news, base=(key[0], key[1]))
    if durable.final:
        state, effects = state._replace(stop_at=inputs.now + ctx.linger_s), [_finished(ctx, state)]
    if ctx.in_one_round and not durable.final:
        return state, effects  # it takes part when its value is there
    state, more = _attend(state)
    return state, [*effects, *more]


def _attend(state: State) -> Step:
    """Ask the adder to be on its next roll."""
    state = state._replace(attempt=state.attempt + 1, call=None, send_at=None, spoke=b"")
    wish = Block(state.life, 0, *_votes(state), b"", state.news, state.durable.met, state.durable.own)
    return state, [Send(state.adder, state.attempt, wish)]


def _votes(state: State) -> tuple[int, int]:
    """In the clear beside a block: nothing of the path."""
    durable = state.durable
    return (0, 0) if durable.rejoined else (durable.promised, durable.accepted)


def _tick(ctx: Context, state: State, inputs: Inputs) -> Step:
    if state.stop_at is not None and inputs.now >= state.stop_at:
        return state._replace(stop_at=None), [Stop(DONE, "the result is final")]
    if state.send_at is not None and inputs.now >= state.send_at:
        if not state.life:  # the disk was full when this process began
            return _begin(ctx, state, inputs)
        return _attend(state) if state.call is None else _answer(ctx, state, state.call, inputs)
    if state.adding.until is not None and inputs.now >= state.adding.until:
        return adder.due(ctx, state, inputs)
    return state, []


def _answer(ctx: Context, state: State, call: Call, inputs: Inputs) -> Step:
    """The block of a call, on the beat: pads, and what is to be said. Never a second one for the same counter."""
    if masked.asks_for_shares(ctx, call):
        return _share(ctx, state, call, inputs)
    said = b"" if state.quiet or state.durable.final else visit.speech(ctx, state)
    state, effects = _block(ctx, state._replace(quiet=max(0, state.quiet - 1)), call, said, inputs)
    return state._replace(spoke=said), effects


def _share(ctx: Context, state: State, call: Call, inputs: Inputs) -> Step:
    """A share, or nothing: who has none left ends, and keeps its data."""
    if state.durable.visits >= ctx.attempts and not state.durable.accepted:
        text = f"{ctx.attempts} shares of this user have left, as many as the plan allows, and there is no result"
        return state, [Stop(STALLED, text)]
    if not masked.may_answer(ctx, state, call):
        return _attend(state)
    state, said, line = masked.share(ctx, state, call, inputs)
    state, effects = _block(ctx, state, call, said, inputs)
    return state, [line, *effects]


def _block(ctx: Context, state: State, call: Call, said: bytes, inputs: Inputs) -> Step:
    block = ctx.pads.total(call.roll, call.adder, call.counter)
    data = (block + words(said) if said else block).tobytes()
    answered = {**state.answered, (call.adder, call.roll[call.adder]): call.counter}
    state = state._replace(attempt=state.attempt + 1, send_at=None, spoke=b"", answered=answered)
    line = Log(view_lines.block(state, call, data, inputs))
    return state, [line, Send(call.adder, state.attempt, Block(state.life, call.counter, *_votes(state), data, b""))]


def _outcome(ctx: Context, state: State, peer: int, answer: Outcome | None, inputs: Inputs) -> Step:
    """What the adder says. Promises come first: whether a message is dead must not depend on who hears it."""
    if answer is None:
        after = (peer + 1) % ctx.n if state.adder == peer else state.adder
        return _stalled(ctx, state._replace(adder=after, call=None, send_at=inputs.now + ctx.beat_s), inputs)
    if answer.old and not state.durable.rejoined:
        text = "peers met a later life of this user: its disk is an old one; restore it, or come back with --rejoin"
        return state, [Stop(OLD_DISK, text)]
    state = promise(state, answer.promised)
    said = masked.message(ctx, state.call, answer.total)
    state = _listened(state, answer.total, inputs) if said == answer.total else state
    state = hear(ctx, hear(ctx, state, said), answer.news)
    state = _voted(ctx, _barred(state, answer), answer)
    state = _asked(ctx, state, inputs)
    if state.durable.final and state.stop_at is None:
        linger_s = min(ctx.linger_s, HURRY_S) if answer.accepts == ctx.n else ctx.linger_s
        state = state._replace(stop_at=inputs.now + linger_s)
    last, call = state.call, answer.call if answer.call and _sound(ctx, state, answer.call) else None
    state = state._replace(spoke=b"", adder=answer.adder % ctx.n, send_at=inputs.now + ctx.beat_s, call=call)
    if call is None:
        return _stalled(ctx, state, inputs)
    same = last is not None and last.roll is call.roll
    state = state._replace(progress_at=inputs.now)
    state, effects = (lists.pruned(state), []) if same else _new_roll(ctx, state, call.roll, inputs)
    return state if answer.batch is None else lists.keep(ctx, state, answer.batch), effects


def _new_roll(ctx: Context, state: State, roll: Mapping[int, bytes], inputs: Inputs) -> Step:
    users = tuple(sorted(roll))
    met = lives.later(state.durable.met, lives.table(ctx.n, roll))
    state = lists.follow(state._replace(durable=state.durable._replace(met=met)), roll)
    if users == state.logged:
        return state, []
    return state._replace(logged=users), [Log(view_lines.attendance(ctx, users, inputs))]


def _stalled(ctx: Context, state: State, inputs: Inputs) -> Step:
    """No round for too long: end, and keep what the journal has."""
    if state.durable.final or state.progress_at is None or inputs.now < state.progress_at + ctx.stall_s:
        return state, []
    text = f"fewer than {ctx.quorum} users answer: the journal keeps all; start again when more are there"
    return state._replace(progress_at=None), [Stop(STALLED, text)]


def _listened(state: State, total: bytes, inputs: Inputs) -> State:
    """A round of silence counts; after a collision both wait a random number of rounds."""
    if not total:
        return state
    if total == bytes(len(total)):
        return state._replace(empty=state.empty + 1)
    if not state.spoke or total == state.spoke:
        return state._replace(crashes=0) if state.crashes else state
    crashes = state.crashes + 1
    return state._replace(crashes=crashes, quiet=inputs.dice.below(1 << min(crashes, QUIET_BITS)))


def _barred(state: State, answer: Outcome) -> State:
    """A user that lost its memory hears where the others are: it takes part from the next epoch on. Whatever is said
    counts here: noise drawn again is worse than a user that stays away."""
    durable = state.durable
    if not durable.rejoined or durable.barrier or not (answer.total or answer.news):
        return state
    return state._replace(durable=durable._replace(barrier=max(durable.promised, state.heard[0], answer.promised)))


def _voted(ctx: Context, state: State, answer: Outcome) -> State:
    """One sum says to all of a roll whether a majority accepted a result, or promised to an epoch."""
    durable, end = state.durable, (answer.accepted, ctx.total_steps + 1)
    shown = answer.accepts >= ctx.majority and state.heard == end and durable.accepted == answer.accepted
    result = visit.known_result(ctx, state) if shown or answer.final else None
    if result is not None:
        return state._replace(durable=durable._replace(accepted=state.heard[0], result=result, final=True))
    knows = not answer.accepted or state.heard >= end
    won = state.bid == durable.promised == answer.promised and answer.promises >= ctx.majority and knows
    return state._replace(won=True) if won and state.bid > 0 else state


def _asked(ctx: Context, state: State, inputs: Inputs) -> State:
    """The last speaker asks for a new epoch after one lease of silence, the k-th last after k."""
    if state.durable.final or state.opened or state.bid or state.empty < ctx.lease:
        return state
    if state.empty < ctx.lease * _rank(ctx, state):
        return state
    return state._replace(bid=new_epoch(state, inputs), empty=0)


def _rank(ctx: Context, state: State) -> int:
    """1 for who spoke last; who did not speak in this epoch comes after all others, in an order that only each user
    knows of itself: everybody counts the silence, and must not learn from its length who ended it."""
    epoch, step = state.heard
    if epoch and state.durable.epoch == epoch:
        return max(1, step - state.durable.to_step + 1)
    secret = derived(ctx.private, f"network-dp rank {ctx.run_id} {epoch} {step}".encode())
    return step + 2 + int.from_bytes(secret, "big") % ctx.n


def _sound(ctx: Context, state: State, call: Call) -> bool:
    """Is it a new call, of this user's life, among enough users of the plan?"""
    roll = call.roll
    fresh = call.counter > state.answered.get((call.adder, roll.get(call.adder, b"")), 0)
    if state.call is not None and roll is state.call.roll and call.adder == state.call.adder:
        return fresh
    if not {ctx.me, call.adder} <= roll.keys() or roll[ctx.me] != state.life or len(roll) < ctx.quorum:
        return False
    if not all(0 <= user < ctx.n and len(life) == LIFE_BYTES for user, life in roll.items()):
        return False
    return fresh


def _disk_failed(ctx: Context, state: State, cause: Event, inputs: Inputs) -> Step:
    """The old state stands. Who has the duty gives it up; everything else is heard, or computed, again."""
    effects: list[Effect] = [Note("error", "the disk took no journal record: waiting; free some space")]
    if isinstance(cause, Received):
        state, more = adder.resign(ctx, state)
        return state, [*effects, *more, Reply(cause.ticket, adder.elsewhere(state, state.adder))]
    at = inputs.now + ctx.retry_s
    return state._replace(call=None, computing=False, contribution=None, send_at=at, disk_at=at), effects
