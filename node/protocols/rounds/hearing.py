"""What everybody does with a message that it hears, in a sum or as news of somebody who heard it."""

from __future__ import annotations

from node.protocols.rounds.seal import unsealed
from node.protocols.rounds.speech import Kind, Speech, about, decoded
from node.protocols.rounds.state import COUNT_SHIFT, Context, State

MAX_JUMP = 1 << 12  # of epochs, which count votes (or calls for shares), by one word
MAX_COUNT = 1 << 22  # of votes that can be told of


def believed(state: State, epoch: int) -> int:
    """As much of the epoch that somebody speaks of as one word is believed: an absurd one would leave no higher one to
    ask for. Who is honestly behind climbs, word by word."""
    known = max(state.durable.promised, state.heard[0]) >> COUNT_SHIFT
    return min(epoch, min(known + MAX_JUMP, MAX_COUNT) << COUNT_SHIFT)


def hear(ctx: Context, state: State, data: bytes) -> State:
    """Take a message in. An older one, and a sum in which nobody or several spoke, change nothing."""
    speech = decoded(data, ctx.run_id, ctx.total_steps, ctx.token_bytes)
    if speech is None:
        return state
    if believed(state, speech.epoch) < speech.epoch:
        return promise(state, speech.epoch)
    if speech.kind is Kind.PREPARE:
        if speech.epoch <= state.durable.promised:
            return state
        return promise(state, speech.epoch)._replace(base=(speech.epoch, speech.step), empty=0)
    if speech.kind is Kind.BUSY:
        return state._replace(empty=0) if state.empty and speech.epoch == state.durable.promised else state
    return _message(ctx, state, speech, data)


def promise(state: State, epoch: int) -> State:
    """Lower epochs are dead from now on: their tokens are not opened, their results not accepted."""
    epoch = believed(state, epoch)
    if epoch <= state.durable.promised:
        return state
    batches = {key: batch for key, batch in state.batches.items() if key[0] == epoch}
    return _idle(state)._replace(
        durable=state.durable._replace(promised=epoch),
        bid=state.bid if state.bid >= epoch else 0,
        won=False,
        base=(epoch, state.base[1]),
        batches=batches,
        tries=0,
        label_at=0.0,
    )


def _idle(state: State) -> State:
    """Its token, if it has one, is of no use any more."""
    if not state.opened:
        return state
    return state._replace(opened=b"", computing=False, contribution=None)


def _message(ctx: Context, state: State, speech: Speech, data: bytes) -> State:
    """The highest message is news for everybody, also where its epoch is dead: who asks for a new one must know it."""
    key = speech.epoch, speech.step
    if key <= state.heard:
        return state
    state = _idle(state)._replace(heard=key, news=data, empty=0)
    if speech.epoch < state.durable.promised:
        return state
    state = promise(state, speech.epoch)._replace(base=(speech.epoch, speech.step + 1))
    if speech.kind is Kind.RESULT:
        return state._replace(durable=state.durable._replace(accepted=speech.epoch, result=speech.body))
    if state.mine > key or not _may_open(state, speech.epoch):
        return state
    token = unsealed(ctx.key, speech.body, about(ctx.run_id, *key)) or b""
    return state._replace(opened=token if token and ctx.worker.fits(ctx.payload(token)) else b"")


def _may_open(state: State, epoch: int) -> bool:
    """A user that lost its memory may have answered a token of an epoch from before: it waits for the next one."""
    return not state.durable.rejoined or 0 < state.durable.barrier < epoch
