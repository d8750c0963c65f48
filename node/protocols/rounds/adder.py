"""The adder: a duty that anybody can have. It adds up blocks, learns nothing from them, and is replaced when silent."""

from __future__ import annotations

import numpy as np

from node.protocols.effects import Reply
from node.protocols.rounds import lives, masked
from node.protocols.rounds.effects import Effect
from node.protocols.rounds.hearing import believed, hear, promise
from node.protocols.rounds.messages import Block, Call, Outcome
from node.protocols.rounds.pads import LIFE_BYTES
from node.protocols.rounds.speech import words
from node.protocols.rounds.state import Adding, Context, Inputs, State, Step, Waiting

ROTATE = 256  # calls until the duty goes to the next user


def elsewhere(state: State, adder: int, *, old: bool = False) -> Outcome:
    """No round here: ask that user."""
    return Outcome(b"", None, adder, state.news, 0, 0, 0, 0, state.durable.final, old)


def received(ctx: Context, state: State, peer: int, ticket: int, block: Block, inputs: Inputs) -> Step:
    """A block, or a user that wants to take part. Who has not the duty says who has."""
    sized = len(block.data) in (0, ctx.block_bytes) and len(block.met) in (0, ctx.n * LIFE_BYTES)
    sized = sized and len(block.own) % LIFE_BYTES == 0 and len(block.own) <= lives.MOST_OWN * LIFE_BYTES
    if len(block.life) != LIFE_BYTES or not sized or state.durable.final:
        return state, [Reply(ticket, elsewhere(state, state.adder))]
    if _is_old(state, peer, block):
        return state, [Reply(ticket, elsewhere(state, state.adder, old=True))]
    if state.adder != ctx.me:
        return state, [Reply(ticket, elsewhere(state, state.adder))]
    state, turned_away = _learned(ctx, state, block.met)
    state, effects = _admitted(ctx, state, peer, ticket, block, inputs)
    return state, [*turned_away, *effects]


def _admitted(ctx: Context, state: State, peer: int, ticket: int, block: Block, inputs: Inputs) -> Step:
    """It waits for the open round to end, or for the next one to begin."""
    before, adding, call = state.heard, state.adding, state.adding.call
    asked = call is not None and block.counter == call.counter and call.roll.get(peer) == block.life and block.data
    promised, accepted = believed(state, block.promised), believed(state, block.accepted)
    one = Waiting(ticket, block.life, promised, accepted, block.data if asked else None, block.own)
    waiting = {**adding.waiting, peer: one}
    until = inputs.now + ctx.block_s if adding.until is None else adding.until
    state = hear(ctx, state, block.news) if block.news else state
    told = adding.told or state.heard > before
    state = state._replace(adding=adding._replace(waiting=waiting, until=until, told=told))
    if call is None:
        everybody = len(waiting) == ctx.n or (len(state.logged) >= ctx.quorum and waiting.keys() >= set(state.logged))
        return _open(ctx, state, inputs) if everybody else (state, [])
    if len(waiting) >= len(call.roll) and all(user in waiting and waiting[user].data for user in call.roll):
        return _close(ctx, state, call, inputs)
    return state, []


def _is_old(state: State, peer: int, one: Block | Waiting) -> bool:
    """Was a later life of this user met, so that this one runs from an old disk? One that knows it has no vote."""
    return one.promised > 0 and bool(one.own) and lives.is_old(state.durable.met, peer, one.own)


def _learned(ctx: Context, state: State, met: bytes) -> Step:
    """Somebody brings what it remembers. Who waits, and runs from an old disk by it, waits no longer."""
    known = lives.later(state.durable.met, met)
    if known == state.durable.met:
        return state, []
    state = state._replace(durable=state.durable._replace(met=known))
    old = {user: one for user, one in state.adding.waiting.items() if _is_old(state, user, one)}
    waiting = {user: one for user, one in state.adding.waiting.items() if user not in old}
    answer = elsewhere(state, ctx.me, old=True)
    state = state._replace(adding=state.adding._replace(waiting=waiting))
    return state, [Reply(one.ticket, answer) for one in old.values()]


def due(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Somebody's block did not come in time: a new call names those who are here."""
    return _open(ctx, state, inputs)


def resign(ctx: Context, state: State) -> Step:
    """Send everybody who waits to the next user."""
    after = (ctx.me + 1) % ctx.n
    outcome = elsewhere(state, after)
    effects: list[Effect] = [Reply(one.ticket, outcome) for one in state.adding.waiting.values()]
    return state._replace(adder=after, adding=Adding(counter=state.adding.counter)), effects


def _close(ctx: Context, state: State, call: Call, inputs: Inputs) -> Step:
    """All blocks are here: their sum, and who has promised and accepted what. This user hears it like all others."""
    blocks = [state.adding.waiting[user] for user in call.roll]
    total = np.sum([words(one.data or b"") for one in blocks], axis=0, dtype=np.uint64).tobytes()
    promised, accepted = max(one.promised for one in blocks), max(one.accepted for one in blocks)
    promises = sum(one.promised == promised for one in blocks)
    accepts = sum(one.accepted == accepted for one in blocks)
    outcome = Outcome(total, None, ctx.me, b"", promised, promises, accepted, accepts, False, False)
    state = hear(ctx, promise(state, promised), masked.message(ctx, call, total))
    return _open(ctx, state, inputs, outcome)


def _next_call(ctx: Context, state: State, inputs: Inputs) -> Call | None:
    """For those who wait, if they are enough and it is not the day to hand the duty on. Nobody without a vote is asked
    for a share: its disk forgot how many it gave."""
    waiting = dict(sorted(state.adding.waiting.items()))
    counter = state.adding.counter + 1
    if ctx.in_one_round:
        counter = masked.next_counter(ctx, state, [one.promised for one in waiting.values()], inputs)
        if counter % 2:
            waiting = {user: one for user, one in waiting.items() if one.promised}
    elif counter % ROTATE == 0:
        return None
    if len(waiting) < ctx.quorum or ctx.me not in waiting:
        return None
    roll = {user: one.life for user, one in waiting.items()}
    last = state.adding.call
    return Call(ctx.me, counter, last.roll if last is not None and last.roll == roll else roll)


def _open(ctx: Context, state: State, inputs: Inputs, closed: Outcome | None = None) -> Step:
    """Answer everybody who waits, with the next call. Without enough of them, or on its day, the duty moves on."""
    adding = state.adding
    call = _next_call(ctx, state, inputs)
    counter = adding.counter + 1 if call is None else call.counter
    adder = (ctx.me + 1) % ctx.n if call is None else ctx.me
    batch = adding.batches[0] if adding.batches else None
    blank = elsewhere(state, adder)._replace(call=call, batch=batch)
    full = blank
    if closed is not None:
        full = closed._replace(call=call, adder=adder, news=state.news if adding.told else b"", batch=batch)
    effects: list[Effect] = [Reply(one.ticket, full if one.data else blank) for one in adding.waiting.values()]
    until = None if call is None else inputs.now + ctx.block_s
    return state._replace(adder=adder, adding=Adding(call, counter, {}, until, batches=adding.batches[1:])), effects
