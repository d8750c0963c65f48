"""The lease of a token that is elsewhere: nothing is asked before it ends, and a newer epoch ends it at once."""

from __future__ import annotations

from typing import Any

from node.protocols.effects import Log
from node.protocols.walk.effects import Effect
from node.protocols.walk.state import HOLDING, Context, Inputs, Phase, State, Step, Watch
from node.protocols.walk.values import NO_HOP, Epoch
from node.protocols.walk.view_lines import abandoned_line

MAX_RENEWALS = 4  # the lease of a token that is seen alive grows up to this factor


def rest(ctx: Context, state: State, inputs: Inputs, *, fresh: bool = False) -> State:
    """Look again after a lease (a little later each time the token is seen alive)."""
    if state.unheard and state.retry_at is None and state.phase is Phase.IDLE:
        state = state._replace(retry_at=inputs.now + ctx.timing.retry_max_s)
    rounds = 0 if fresh else state.watch_round + 1
    lease = ctx.timing.lease_s * min(MAX_RENEWALS, 2**rounds) * (1.0 + 0.25 * inputs.dice.unit())
    return state._replace(
        watch=Watch.RESTING, watch_at=inputs.now + lease, watch_round=min(rounds, 8), asked=frozenset()
    )


def renewed(ctx: Context, inputs: Inputs) -> dict[str, Any]:
    """What changes with a token in hand: it ends the search for it."""
    return {
        "watch": Watch.RESTING,
        "watch_at": inputs.now + ctx.timing.lease_s,
        "watch_round": 0,
        "seen": NO_HOP,
        "deferred": 0,
        "believed": 0,
        "outvoted_since": None,
        "doubt": None,
        "asked": frozenset(),
    }


def give_up(ctx: Context, state: State, epoch: Epoch, inputs: Inputs) -> Step:
    """A newer epoch rules: whatever this user has in hand of an older one is abandoned, and said so in its log."""
    custody = state.durable.custody
    live_branch = state.phase in HOLDING or state.phase in (Phase.HANDING, Phase.WAITING, Phase.PUBLISHING)
    effects: list[Effect] = []
    if live_branch and custody is not None and custody.hop.epoch < epoch:
        effects = [Log(abandoned_line(custody, epoch, inputs))]
    state = state._replace(
        durable=state.durable._replace(promised=epoch),
        phase=Phase.IDLE,
        watch=Watch.RESTING,
        draft=None,
        handed=True,
        grants={},
        standing={},
        retry_at=None,
        asked=frozenset(),
        publishing=frozenset(),
        stalled_since=None,
        deferred=0,
    )
    return rest(ctx, state, inputs, fresh=True), effects
