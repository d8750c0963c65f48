"""A slow task computes for one token; what it finds never goes into another."""

from __future__ import annotations

import numpy as np

from node.protocols.walk.effects import Compute, Computed
from node.protocols.walk.messages import Fence
from node.protocols.walk.state import Arrived, Phase
from node.protocols.walk.values import Hop, Token
from node.protocols.walk.visit import read_token
from simulator.faults.scenario import STAGES, cast
from tests.unit.node.protocols.walk.conftest import User

SLOW = next(i for i, stage in enumerate(STAGES) if stage.name == "complete n=4 T=6 slow")


def test_what_was_computed_for_a_token_given_up_is_not_put_into_the_next_one() -> None:
    there = cast(SLOW)
    me = User(there.contexts[1], there.pool).checked()
    blank = Token(np.zeros(me.ctx.worker.dimension, np.int64), 0, 0, 0, ()).encode()
    me.take(2, Hop((0, me.ctx.start), 1), blank)
    old = me.all(Compute)[0]
    me.ask(3, Fence((1, 3)))
    me.take(3, Hop((1, 3), 1), blank)
    new = me.all(Compute)[0]
    me.feed(Computed(np.array([7, 7]), old.visit))
    assert me.state.phase is Phase.COMPUTING and isinstance(me.state.durable.custody, Arrived)
    me.feed(Computed(np.array([5, 5]), new.visit))
    assert me.state.durable.custody.real
    draft_noise = read_token(me.ctx, me.state.durable.custody.out).payload - 5
    assert (draft_noise == me.state.draft.supply.noise.units[:1].sum(axis=0)).all()
