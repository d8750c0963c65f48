"""The short first window of a ring of randomised responses is covered by elements its observer does not know."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest

from node.protocols.effects import Begin, Tick
from node.protocols.walk.effects import Compute, Computed
from node.protocols.walk.messages import NOWHERE, Accepted, Fence, Granted, Handoff, Locate, Offer, Promise
from node.protocols.walk.state import Phase
from node.protocols.walk.values import NO_HOP, Hop, Token
from node.protocols.walk.visit import read_token
from simulator.faults.scenario import STAGES, cast
from tests.unit.node.protocols.walk.conftest import User

RESPONSES = next(i for i, stage in enumerate(STAGES) if stage.name == "ring n=4 K=2 responses")
R1 = 1  # ceil(gamma (n - 2)) of that plan


@pytest.fixture
def ring() -> list[User]:
    there = cast(RESPONSES)
    return [User(ctx, there.pool[40 * ctx.me : 40 * ctx.me + 40]).checked() for ctx in there.contexts]


def started_by_vote(me: User) -> Handoff:
    """The starter is silent; ``me`` wins the vote and hands an initial token to the first position."""
    me.feed(Begin())
    while not me.sends(Fence):
        me.now = me.state.watch_at
        me.feed(Tick())
        for send in me.sends(Locate):
            me.answer(send, NOWHERE)
    for send in me.sends(Fence):
        me.answer(send, Promise(True, None, me.state.bid, NO_HOP, None, False))
    me.answer(me.sends(Offer)[0], Granted(b"g" * 16))
    return me.sends(Handoff)[0].request


def test_who_starts_by_vote_knows_no_element_that_covers_the_first_answer(ring) -> None:
    first, issuer = ring[ring[0].ctx.start], ring[ring[0].ctx.start + 1]
    handoff = started_by_vote(issuer)
    assert read_token(issuer.ctx, handoff.token).cover == 0
    assert isinstance(first.take(issuer.ctx.me, handoff.hop, handoff.token), Accepted)
    custody = first.state.durable.custody
    token = read_token(first.ctx, custody.out)
    assert custody.next == issuer.ctx.me  # who started sees one answer, among elements of somebody else
    assert (token.contributions, token.cover, int(token.payload.sum())) == (1, R1, 1 + R1)


def test_the_starter_covers_its_own_first_answer(ring) -> None:
    starter = ring[ring[0].ctx.start]
    starter.state = starter.state._replace(checked=False)
    starter.feed(Begin())
    starter.located()
    token = read_token(starter.ctx, starter.state.durable.custody.out)
    assert (token.contributions, token.cover, int(token.payload.sum())) == (1, R1, 1 + R1)


def test_a_later_answer_brings_no_elements(ring) -> None:
    start = ring[0].ctx.start
    first, second = ring[start], ring[start + 1]
    first.take(second.ctx.me, Hop((0, start), 1), _blank(first))
    second.take(start, Hop((0, start), 2), first.state.durable.custody.out)
    token = read_token(second.ctx, second.state.durable.custody.out)
    assert (token.contributions, token.cover) == (2, R1)


def test_a_restart_before_the_first_answer_left_still_covers_it(ring) -> None:
    start = ring[0].ctx.start
    worker = copy(ring[start].ctx.worker)
    worker.quick = False
    first = User(ring[start].ctx._replace(worker=worker), cast(RESPONSES).pool[:40]).checked()
    first.take(start + 1, Hop((0, start), 1), _blank(first))
    assert first.state.phase is Phase.COMPUTING
    again = first.restarted()
    again.located()
    work = again.all(Compute)[0]
    again.feed(Computed(worker.contribute(work.payload, work.contribution), work.visit))
    token = read_token(again.ctx, again.state.durable.custody.out)
    assert (token.contributions, token.cover, int(token.payload.sum())) == (1, R1, 1 + R1)


def _blank(me: User) -> bytes:
    return Token(np.zeros(me.ctx.worker.dimension, np.int64), 0, 0, 0, ()).encode()
