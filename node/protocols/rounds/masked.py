"""The masked sum: one round in which everybody speaks at once (THEORY.md#masked-sum).

A call with an odd counter asks everybody on its roll for a share: value on the grid, own noise, and a one that counts.
The counter is above every epoch that anybody on the roll promised to, and whoever answers promises to it: it is the
epoch of this attempt, and its total is a result like a walk's, which a majority must accept. The adder calls for
shares only while nobody there knows a result. A user answers such a call with a share or not at all: a total with
fewer shares than users would have too little noise. Every share that left counts as an attempt, and has fresh noise.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from node.protocols.effects import Log
from node.protocols.rounds import view_lines, visit
from node.protocols.rounds.effects import Compute
from node.protocols.rounds.hearing import believed
from node.protocols.rounds.messages import Call
from node.protocols.rounds.speech import Kind, Speech, encoded, size_of
from node.protocols.rounds.state import COUNT_BYTES, COUNT_SHIFT, Context, Inputs, State, Step


def asks_for_shares(ctx: Context, call: Call) -> bool:
    return ctx.in_one_round and call.counter % 2 == 1


def next_counter(ctx: Context, state: State, promised: Iterable[int], inputs: Inputs) -> int:
    """Of the adder's next call: odd, and above every epoch, while there is no result."""
    last = state.adding.counter
    if visit.known_result(ctx, state) is not None:
        return last + 2 - last % 2
    count = max(last, state.durable.promised, *promised) >> COUNT_SHIFT
    return (count + 1 << COUNT_SHIFT) + int.from_bytes(inputs.dice.secret(COUNT_SHIFT // 8), "little") | 1


def work(ctx: Context, state: State, inputs: Inputs) -> Step:
    """What follows by itself: the value is computed before this user first takes part; a majority's promises help a
    result that somebody knows, and nothing else."""
    if state.won:
        if visit.known_result(ctx, state) is None:
            return state._replace(bid=0, won=False), []
        return visit.take_up(ctx, state, inputs)
    if state.contribution is not None or state.computing or state.durable.final or inputs.now < state.disk_at:
        return state, []
    state = state._replace(computing=True, computation=state.computation + 1)
    zeros = np.zeros(ctx.worker.dimension, ctx.worker.dtype)
    return state, [Compute(zeros, 1, state.computation)]


def may_answer(ctx: Context, state: State, call: Call) -> bool:
    """Is there a value, an attempt left, and no promise above this one, which honest users can have come to?"""
    ready = state.contribution is not None and state.durable.visits < ctx.attempts
    if believed(state, call.counter) < call.counter:
        return False
    return ready and state.durable.promised < call.counter and not state.durable.rejoined


def share(ctx: Context, state: State, call: Call, inputs: Inputs) -> tuple[State, bytes, Log]:
    """What this user adds to its pads, in this attempt only; this transition journals the promise and the count."""
    assert state.contribution is not None
    zeros = np.zeros(ctx.worker.dimension, ctx.worker.dtype)
    mixed = ctx.worker.mix(zeros, state.contribution, inputs.supply(), 1, 1, False)
    said = (1).to_bytes(COUNT_BYTES, "little") + ctx.token(mixed.payload)
    said += bytes(ctx.block_bytes - len(said))
    visits = state.durable.visits + 1
    parts = {"contribution": state.contribution, "noise": mixed.noise, "sent": mixed.payload}
    line = view_lines.spoken(ctx, state, (call.counter, 1), visits, "share", parts, inputs)
    durable = state.durable._replace(promised=call.counter, visits=visits, line=line)
    return state._replace(durable=durable), said, Log(line)


def message(ctx: Context, call: Call | None, data: bytes) -> bytes:
    """What the sum of a call's blocks says: a sum of shares, with the right count, is the result."""
    if call is None or not data or not asks_for_shares(ctx, call):
        return data
    body = data[: ctx.token_bytes]
    if int.from_bytes(body[:COUNT_BYTES], "little") != len(call.roll):
        return b""
    return encoded(Speech(Kind.RESULT, call.counter, ctx.total_steps + 1, body), ctx.run_id, size_of(ctx.token_bytes))
