"""Lines of the view log that are about the hand-over itself (the visit's own lines are made in ``visit``)."""

from __future__ import annotations

from network_dp import view
from node.protocols.walk.state import Context, Custody, Inputs, Planned
from node.protocols.walk.values import Epoch, Token


def accepted_line(ctx: Context, custody: Planned, inputs: Inputs) -> str:
    hop = custody.out_hop
    return view.encode(
        "accepted", epoch=list(hop.epoch), step=hop.step, to=ctx.names[custody.next], time=inputs.wall_time
    )


def abandoned_line(custody: Custody, by: Epoch, inputs: Inputs) -> str:
    hop = custody.hop
    return view.encode("abandoned", epoch=list(hop.epoch), step=hop.step, by=list(by), time=inputs.wall_time)


def peer_line(ctx: Context, peer: int, state: str, inputs: Inputs) -> str:
    return view.encode("peer", peer=ctx.names[peer], state=state, time=inputs.wall_time)


def rejoined_line(inputs: Inputs) -> str:
    return view.encode("rejoined", time=inputs.wall_time)


def result_line(ctx: Context, epoch: Epoch, token: Token | None, inputs: Inputs) -> str:
    if token is None:
        return view.encode("result", epoch=list(epoch), value=None, time=inputs.wall_time)
    return view.encode(
        "result",
        epoch=list(epoch),
        value=token.payload.tolist() if ctx.log_values else None,
        contributions=token.contributions,
        cover=token.cover,
        time=inputs.wall_time,
    )
