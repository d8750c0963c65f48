"""What makes a user speak: a token that it could open, the start of the walk, or a token taken up again.

The bytes, noise and all, are fixed in the durable state before the first beat they may leave in; said again, they are
the same (THEORY.md#noise-once).
"""

from __future__ import annotations

from node.protocols.effects import Log
from node.protocols.rounds import labels, view_lines
from node.protocols.rounds.effects import Compute, Effect, Payload
from node.protocols.rounds.lists import label_list
from node.protocols.rounds.seal import sealed
from node.protocols.rounds.speech import Kind, Speech, about, decoded, encoded, size_of
from node.protocols.rounds.state import FIRST_EPOCH, Context, Durable, Inputs, Key, State, Step


def speech(ctx: Context, state: State) -> bytes:
    """What this user has to say now; empty: nothing."""
    promised, size = state.durable.promised, size_of(ctx.token_bytes)
    if state.bid > promised:
        return encoded(Speech(Kind.PREPARE, state.bid, reissue_step(ctx, state)), ctx.run_id, size)
    if state.mine > state.heard and state.durable.epoch == promised:
        return state.durable.said
    if state.opened or state.won:
        return encoded(Speech(Kind.BUSY, promised, min(state.base[1], ctx.total_steps)), ctx.run_id, size)
    return b""


def work(ctx: Context, state: State, inputs: Inputs) -> Step:
    """What follows by itself: the holder computes, and fixes what it will say as soon as there are labels for it."""
    if state.durable.final or inputs.now < state.disk_at:
        return state, []
    if state.opened:
        if state.contribution is not None:
            return _visit(ctx, state, state.contribution, inputs)
        if state.computing:
            return state, []
        state = state._replace(computing=True, computation=state.computation + 1)
        return state, [Compute(ctx.payload(state.opened), 1, state.computation)]
    if state.won:
        return take_up(ctx, state, inputs)
    if (
        state.heard == (0, 0)
        and ctx.me == ctx.starter
        and state.durable == Durable(met=state.durable.met, own=state.durable.own)
    ):
        initial = ctx.worker.begin(inputs.supply).payload
        return _fix(ctx, state, (FIRST_EPOCH, 1), inputs, initial, cause="start")
    return state, []


def _visit(ctx: Context, state: State, contribution: Payload, inputs: Inputs) -> Step:
    epoch, step = state.heard
    if not _ready(ctx, state, (epoch, step + 1)):
        return state, []
    received = ctx.payload(state.opened)
    mixed = ctx.worker.mix(received, contribution, inputs.supply(), 1, step, False)
    parts = {"received": received, "contribution": contribution, "noise": mixed.noise}
    return _fix(ctx, state, (epoch, step + 1), inputs, mixed.payload, cause="visit", **parts)


def reissue_step(ctx: Context, state: State) -> int:
    """Where the walk goes on when this user takes it up again."""
    if known_result(ctx, state) is not None:
        return ctx.total_steps + 1
    return state.durable.to_step if state.durable.out else 1


def known_result(ctx: Context, state: State) -> bytes | None:
    found = decoded(state.news, ctx.run_id, ctx.total_steps, ctx.token_bytes)
    return found.body if found is not None and found.kind is Kind.RESULT else None


def take_up(ctx: Context, state: State, inputs: Inputs) -> Step:
    """A majority promised: say the result that somebody accepted, under the new epoch; else this user's own last token,
    with one full fresh noise (THEORY.md#one-token)."""
    key = state.bid, reissue_step(ctx, state)
    result = known_result(ctx, state)
    if result is not None:
        said = encoded(Speech(Kind.RESULT, *key, result), ctx.run_id, size_of(ctx.token_bytes))
        durable = state.durable._replace(epoch=key[0], to_step=key[1], said=said, out=result)
        return state._replace(durable=durable, bid=0, won=False), []
    if not _ready(ctx, state, key):
        return state, []
    if not state.durable.out:
        initial = ctx.worker.begin(inputs.supply).payload
        return _fix(ctx, state, key, inputs, initial, cause="start")
    base = ctx.payload(state.durable.out)
    mixed = ctx.worker.mix(base, None, inputs.supply(), 1, max(1, key[1] - 1), False)
    return _fix(ctx, state, key, inputs, mixed.payload, cause="reissue", received=base, noise=mixed.noise)


def _ready(ctx: Context, state: State, key: Key) -> bool:
    """Are there labels for the holder of this step, or does it need none?"""
    return key[1] > ctx.total_steps or bool(label_list(state, *key))


def _fix(
    ctx: Context, state: State, key: Key, inputs: Inputs, payload: Payload, *, cause: str, **parts: Payload | None
) -> Step:
    """Make the bytes of a message; this transition journals them."""
    token = ctx.token(payload)
    if key[1] > ctx.total_steps:
        message = Speech(Kind.RESULT, *key, token)
    else:
        crowd = label_list(state, *key)
        if not crowd:
            return state, []
        label = labels.label_of(crowd, inputs.dice.below(labels.count_of(crowd)))
        box = sealed(label, inputs.dice.secret(labels.POINT_BYTES), token, about(ctx.run_id, *key))
        message = Speech(Kind.TOKEN, *key, box)
    visits = state.durable.visits + 1
    line = view_lines.spoken(ctx, state, key, visits, cause, {**parts, "sent": payload}, inputs)
    durable = state.durable._replace(
        epoch=key[0],
        to_step=key[1],
        said=encoded(message, ctx.run_id, size_of(ctx.token_bytes)),
        out=token,
        visits=visits,
        line=line,
    )
    effects: list[Effect] = [Log(line)]
    return state._replace(durable=durable, opened=b"", contribution=None, computing=False, bid=0, won=False), effects
