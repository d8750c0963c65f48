"""The user's own view of rounds, as lines: rounds attended, own blocks' digests, own messages; never another's."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from network_dp import view
from node.protocols.rounds.effects import Payload
from node.protocols.rounds.messages import Call
from node.protocols.rounds.state import COUNT_SHIFT, Context, Inputs, Key, State

DIGEST_BYTES = 16


def epoch_pair(epoch: int) -> list[int]:
    """[count, random part]: the shape of any epoch in a view log."""
    return [epoch >> COUNT_SHIFT, epoch & ((1 << COUNT_SHIFT) - 1)]


def block(state: State, call: Call, data: bytes, inputs: Inputs) -> str:
    """One block of this user leaves for a call. ``step``: how far the walk was heard to be."""
    return view.encode(
        "round",
        adder=call.adder,
        counter=call.counter,
        epoch=epoch_pair(state.heard[0]),
        step=state.heard[1],
        digest=hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest(),
        time=inputs.wall_time,
    )


def attendance(ctx: Context, users: tuple[int, ...], inputs: Inputs) -> str:
    """Who is on the roll, when it changed."""
    return view.encode("attendance", users=[ctx.names[user] for user in users], time=inputs.wall_time)


def spoken(
    ctx: Context,
    state: State,
    key: Key,
    visit: int,
    cause: str,
    parts: Mapping[str, Payload | None],
    inputs: Inputs,
) -> str:
    """A message that this user fixed: ``step`` is its receiver's."""
    base = None
    if cause == "reissue":
        base = [*epoch_pair(state.durable.epoch), state.durable.to_step]
    elif cause == "visit":
        base = [*epoch_pair(state.heard[0]), state.heard[1]]
    values = {}
    if ctx.log_values:
        values = {name: None if part is None else part.tolist() for name, part in parts.items()}
    return view.encode(
        "spoken",
        epoch=epoch_pair(key[0]),
        step=key[1],
        visit=visit,
        cause=cause,
        base=base,
        **values,
        time=inputs.wall_time,
    )


def result(ctx: Context, state: State, inputs: Inputs) -> str:
    """The end, as it was accepted."""
    contributions, payload = ctx.end(state.durable.result)
    value = {"value": ctx.payload(payload).tolist()} if ctx.log_values else {}
    return view.encode(
        "result",
        epoch=epoch_pair(state.durable.accepted),
        contributions=contributions,
        cover=0,
        **value,
        time=inputs.wall_time,
    )
