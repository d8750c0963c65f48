"""The end of a hand-over: the receiver has the token, by its own word or because the walk got further."""

from __future__ import annotations

from typing import Any

from node.protocols.effects import Log
from node.protocols.walk.state import Context, Inputs, Phase, Planned, State, Step
from node.protocols.walk.values import Hop
from node.protocols.walk.view_lines import accepted_line

_IN_FLIGHT = (Phase.HANDING, Phase.OFFERING, Phase.WAITING, Phase.ROUTING, Phase.CHECKING)


def delivered(ctx: Context, state: State, inputs: Inputs, **changes: Any) -> Step:
    """The receiver has it, now or since before: this user is free, and watches."""
    custody = state.durable.custody
    assert isinstance(custody, Planned)
    given = {**state.durable.given, custody.next: custody.out_hop}
    state = state._replace(
        durable=state.durable._replace(given=given),
        phase=Phase.IDLE,
        draft=None,
        handed=True,
        tries=0,
        retry_at=None,
        stalled_since=None,
        watch_at=inputs.now + ctx.timing.lease_s,
        watch_round=0,
        deferred=0,
        **changes,
    )
    return state, [Log(accepted_line(ctx, custody, inputs))]


def arrived_elsewhere(state: State, hop: Hop) -> bool:
    """A later hop of the epoch proves that the hop this user waits for was taken."""
    custody = state.durable.custody
    in_flight = state.handed and state.phase in _IN_FLIGHT
    return in_flight and isinstance(custody, Planned) and custody.hop.epoch == hop.epoch and custody.out_hop < hop
