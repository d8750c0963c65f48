"""Lists of labels, made in batches ahead of the walk: begun, shuffled by colluders + 1 users, and sent to all.

Each user keeps the first finished batch that it gets; users need not have the same one. A list serves one step of one
epoch. A batch with a label of somebody who is not on the roll is given up: a token sealed to it would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from node.protocols.effects import Reply, Send
from node.protocols.rounds import labels
from node.protocols.rounds.effects import Effect, Turn, Turned
from node.protocols.rounds.messages import BATCH, Batch, Shuffle, Taken, Want
from node.protocols.rounds.state import Context, Inputs, Key, State, Step

MOST_WAITING = 4  # finished batches, at an adder
AHEAD = 2  # batches that should be there: the one in use, and the next


def label_list(state: State, epoch: int, step: int) -> bytes:
    """The labels for one step; empty while there are none."""
    number, place = divmod(step - 1, BATCH)
    batch = state.batches.get((epoch, number))
    return b"" if batch is None else batch.lists[place]


def turned(batch: Batch, secret: Callable[[int], bytes], below: Callable[[int], int]) -> Turned:
    """One shuffler's turn with every list of a batch; it takes long, so it is done off the event loop."""
    try:
        lists = tuple(labels.shuffled(one, secret, below) for one in batch.lists)
    except ValueError:  # a point of low order, which no honest user sends
        return Turned(None)
    return Turned(batch._replace(turns=batch.turns + 1, lists=lists))


def wanted(ctx: Context, state: State) -> list[Key]:
    """Epoch and number of the batches that the next steps need."""
    epoch, step = state.base
    first, last = (step - 1) // BATCH, (ctx.total_steps - 1) // BATCH
    return [(epoch, number) for number in range(first, min(first + AHEAD - 1, last) + 1)]


def _count(ctx: Context, number: int) -> int:
    """Lists in a batch: one for each of its steps."""
    return min(BATCH, ctx.total_steps - number * BATCH)


def follow(state: State, roll: Mapping[int, bytes]) -> State:
    """Give up what was made for other users than those who are here."""
    kept = {key: batch for key, batch in state.batches.items() if roll.keys() >= set(batch.crowd)}
    return pruned(_left(state, kept))


def pruned(state: State) -> State:
    """Give up what is over."""
    epoch, step = state.base
    oldest = epoch, (step - 1) // BATCH
    return _left(state, {key: batch for key, batch in state.batches.items() if key >= oldest})


def _left(state: State, kept: Mapping[Key, Batch]) -> State:
    return state if len(kept) == len(state.batches) else state._replace(batches=kept, tries=0, label_at=0.0)


def gather(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Begin a batch that is missing when it is this user's turn, or ask for it: whoever holds the token does no more
    of this than all others."""
    if state.call is None or inputs.now < state.label_at:
        return state, []
    missing = [key for key in wanted(ctx, state) if key not in state.batches]
    if not missing:
        return state, []
    crowd = tuple(sorted(state.call.roll))
    effects: list[Effect] = []
    for epoch, number in missing:
        place = (number + state.tries) % len(crowd)
        if crowd[place] == ctx.me:
            start = labels.opened([ctx.publics[user] for user in crowd])
            effects.append(Turn(Batch(epoch, number, crowd, place, 0, (start,) * _count(ctx, number))))
        elif state.tries:
            effects.append(Send(crowd[inputs.dice.below(len(crowd))], 0, Want(epoch, number)))
    return state._replace(tries=state.tries + 1, label_at=inputs.now + ctx.block_s), effects


def shuffle(ctx: Context, state: State, ticket: int, batch: Batch) -> Step:
    """A batch from a peer: this user's turn, or finished."""
    done: list[Effect] = [Reply(ticket, Taken())]
    if not _sound(ctx, state, batch):
        return state, done
    if batch.turns == ctx.shufflers:
        return _finished(ctx, state, batch), done
    mine = batch.turns and batch.crowd[(batch.first + batch.turns) % len(batch.crowd)] == ctx.me
    return state, [*done, Turn(batch)] if mine else done


def had_turn(ctx: Context, state: State, batch: Batch) -> Step:
    """After this user's turn a batch goes to the next shuffler, after the last one to everybody, by the adder."""
    if batch.turns < ctx.shufflers:
        return state, [Send(batch.crowd[(batch.first + batch.turns) % len(batch.crowd)], 0, Shuffle(batch))]
    passed: list[Effect] = [Send(state.adder, 0, Shuffle(batch))] if state.adder != ctx.me else []
    return _finished(ctx, state, batch), passed


def _finished(ctx: Context, state: State, batch: Batch) -> State:
    """Kept; the adder hands it on with its next outcome: everybody has a stream to it, and few to others."""
    after, adding = keep(ctx, state, batch), state.adding
    if state.adder != ctx.me or after is state:
        return after
    return after._replace(adding=adding._replace(batches=(*adding.batches, batch)[:MOST_WAITING]))


def keep(ctx: Context, state: State, batch: Batch) -> State:
    """The first to come stays."""
    key = batch.epoch, batch.number
    if not _sound(ctx, state, batch) or batch.turns != ctx.shufflers or key in state.batches:
        return state
    if key not in wanted(ctx, state):
        return state
    return state._replace(batches={**state.batches, key: batch})


def tell(state: State, ticket: int, want: Want) -> Step:
    """Somebody lacks a batch."""
    batch = state.batches.get((want.epoch, want.number))
    return state, [Reply(ticket, Taken() if batch is None else Shuffle(batch))]


def _sound(ctx: Context, state: State, batch: Batch) -> bool:
    """Is it a batch of this epoch, for enough users, all of them here, with one label for each in every list?"""
    crowd, roll = batch.crowd, None if state.call is None else state.call.roll.keys()
    if batch.epoch != state.base[0] or not 0 <= batch.number <= (ctx.total_steps - 1) // BATCH or roll is None:
        return False
    if not ctx.quorum <= len(crowd) or list(crowd) != sorted(set(crowd)) or not roll >= set(crowd):
        return False
    if not 0 <= batch.first < len(crowd) or not 0 <= batch.turns <= ctx.shufflers:
        return False
    return len(batch.lists) == _count(ctx, batch.number) and all(
        labels.count_of(one) == len(crowd) and labels.can_seal(one) for one in batch.lists
    )
