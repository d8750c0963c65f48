"""What makes the result unique: of all reports the newest wins, and nothing less than a majority makes it final."""

from __future__ import annotations

import pytest

from node.protocols import exits
from node.protocols.effects import Finished, Stop, Tick
from node.protocols.walk import election
from node.protocols.walk.digests import digest
from node.protocols.walk.messages import (
    NOWHERE,
    Accepted,
    Declined,
    Fence,
    Granted,
    Handoff,
    Locate,
    Offer,
    Promise,
    Publish,
    Published,
    Result,
    Why,
)
from node.protocols.walk.state import Doubt, Phase
from node.protocols.walk.values import NO_HOP, Hop
from node.protocols.walk.visit import read_token
from tests.unit.node.protocols.walk.conftest import User

RING = "ring n=5 K=2"
HOLDER = "ring n=4 K=2 holder"
COMPLETE = "complete n=5 T=8 caps"


def bid(me: User, at: float = 200.0) -> User:
    """Its lease ends, nobody knows of the token, and it asks for promises."""
    me.now = at
    me.state = me.state._replace(watch_at=me.now)
    me.feed(Tick())
    me.located(NOWHERE)
    assert me.sends(Fence)
    return me


def vote(me: User, reports: dict[int, Result | None], silent: frozenset[int] = frozenset()) -> None:
    """Everybody who answers grants; some report a result they have journaled."""
    for send in me.sends(Fence):
        promise = Promise(True, None, me.state.bid, NO_HOP, reports.get(send.peer), False)
        me.answer(send, None if send.peer in silent else promise)


@pytest.fixture
def ended(user, blank):
    """A user, and the results that two epochs may have journaled somewhere: (older, newer)."""
    me = user(RING, 0).checked()
    old, new = blank(me.ctx), read_token(me.ctx, blank(me.ctx))._replace(contributions=1).encode()
    return me, Result((0, 3), digest(old)[:16], old), Result((1, 2), digest(new)[:16], new)


@pytest.mark.parametrize("newest", [1, 4])
def test_of_several_reported_results_the_newest_is_published(ended, newest) -> None:
    """The newer one may be final already: its majority fenced the older one out before it became so."""
    me, older, newer = ended
    me.state = me.state._replace(doubt=Doubt(newer.end, 0.0))  # others were waited for
    vote(bid(me), {**dict.fromkeys((1, 4), older), newest: newer}, silent=frozenset({2, 3}))
    assert {send.request.result.end for send in me.sends(Publish)} == {newer.end}


@pytest.mark.parametrize("mine_is_newer", [False, True])
def test_the_bidders_own_report_counts_like_any_other(ended, mine_is_newer) -> None:
    me, older, newer = ended
    mine, theirs = (newer, older) if mine_is_newer else (older, newer)
    me.state = me.state._replace(durable=me.state.durable._replace(result=mine))
    me.state = me.state._replace(doubt=Doubt(newer.end, 0.0))
    vote(bid(me), {2: theirs}, silent=frozenset({3, 4}))
    assert {send.request.result.end for send in me.sends(Publish)} == {newer.end}


def test_more_votes_are_waited_for_when_one_user_alone_reports_a_result(ended) -> None:
    me, older, _ = ended
    waits_s = election.DOUBTED_LEASES * me.ctx.timing.lease_s
    for after_s in (0.0, 1.0, waits_s - 0.01):
        vote(bid(me, 200.0 + after_s), {1: older}, silent=frozenset({3, 4}))
        assert not me.sends(Publish) and me.state.phase is Phase.IDLE
    vote(bid(me, 200.0 + waits_s), {1: older}, silent=frozenset({3, 4}))
    assert me.sends(Publish)


@pytest.mark.parametrize("meanwhile", ["nobody there", "no majority", "others know of no end", "another end"])
def test_a_doubt_lasts_while_nobody_says_anything_else(ended, meanwhile) -> None:
    """Whoever reports the end alone may be there for a moment only, now and then; a contradiction begins it anew."""
    me, older, newer = ended
    waits_s = election.DOUBTED_LEASES * me.ctx.timing.lease_s
    alone = frozenset({3, 4})
    vote(bid(me), {1: older}, silent=alone)
    if meanwhile == "no majority":
        vote(bid(me, 201.0), {1: older}, silent=frozenset({2, 3, 4}))
    elif meanwhile == "others know of no end":
        me.state = me.state._replace(believed=election.MAX_BELIEVED)
        vote(bid(me, 201.0), {1: older})
        me.state = me.state._replace(phase=Phase.IDLE, durable=me.state.durable._replace(custody=None))
    elif meanwhile == "another end":
        vote(bid(me, 201.0), {1: newer}, silent=alone)
    vote(bid(me, 200.0 + waits_s), {1: older}, silent=alone)
    assert bool(me.sends(Publish)) is (meanwhile in ("nobody there", "no majority"))


def test_who_says_that_the_run_is_over_is_not_asked_again_at_once_when_a_majority_knows_better(ended) -> None:
    """Else one user's word would have the token taken up again a dozen times a second."""
    me, older, _ = ended
    me.state = me.state._replace(durable=me.state.durable._replace(started=True))
    vote(bid(me), {1: older})
    (offer,) = me.sends(Offer)
    assert me.state.durable.custody.hop.epoch == me.state.bid
    vote_of = {**me.state.promises, offer.peer: me.state.promises[offer.peer]._replace(result=older)}
    for promises, wait_s in ((me.state.promises, 0.0), (vote_of, me.ctx.timing.lease_s)):
        before, me.state = me.state, me.state._replace(promises=promises)
        me.answer(offer, Declined(Why.DONE, me.state.durable.promised))
        assert me.state.phase is Phase.IDLE and me.state.watch_at == me.now + wait_s
        me.state = before


@pytest.mark.parametrize("mine", [False, True])
def test_one_users_word_that_no_majority_can_stand_behind_is_no_end(ended, mine) -> None:
    """Whoever took such a result from a liar may have been the only one it was told to."""
    me, older, _ = ended
    if mine:
        me.state = me.state._replace(durable=me.state.durable._replace(result=older))
    vote(bid(me), {} if mine else {1: older})
    assert not me.sends(Publish) and me.state.durable.custody.cause == "start"


@pytest.mark.parametrize("acknowledged", range(5))
def test_a_result_is_final_with_a_majority_and_not_with_one_less(ended, acknowledged) -> None:
    me, older, _ = ended
    vote(bid(me), {1: older, 2: older})
    for place, send in enumerate(me.sends(Publish)):
        me.answer(send, Published(True, me.state.bid) if place < acknowledged else None)
    final = 1 + acknowledged >= me.ctx.majority
    assert me.state.durable.final is final and bool(me.all(Finished)) is final
    assert me.state.phase is (Phase.DONE if final else Phase.PUBLISHING)


def test_whoever_has_not_acknowledged_is_asked_again_until_a_majority_has(ended) -> None:
    me, older, _ = ended
    vote(bid(me), {1: older, 2: older})
    first, *others = me.sends(Publish)
    me.answer(first, Published(True, me.state.bid))
    for send in others:
        me.answer(send, None)
    me.now = me.state.retry_at
    me.feed(Tick())
    again = me.sends(Publish)
    assert [send.peer for send in again] == [send.peer for send in others]
    for place, send in enumerate(again):
        assert not me.state.durable.final
        me.answer(send, Published(True, me.state.bid) if place == 0 else None)
    assert me.state.durable.final


@pytest.mark.parametrize(("stage", "keeps"), [(RING, False), (HOLDER, True), (HOLDER, False)])
def test_the_value_is_shown_to_whom_the_plan_says(user, blank, stage, keeps) -> None:
    """``release = "holder"``: an end mark travels, and who kept the value under that mark shows it, nobody else."""
    me = user(stage, 0).checked()
    value = blank(me.ctx)
    end = digest(value)[:16]
    ended = Result((0, me.ctx.start), end, value if me.ctx.release_all else b"")
    me.state = me.state._replace(
        durable=me.state.durable._replace(result=ended, withheld=end + value if keeps else b"")
    )
    vote(bid(me), {1: ended, 2: ended})
    finished: list[Finished] = []
    for send in me.sends(Publish):
        me.answer(send, Published(True, me.state.bid))
        finished += me.all(Finished)
    assert [effect.token for effect in finished] == [value if keeps or me.ctx.release_all else b""]


@pytest.mark.parametrize("taker", ["the one it was planned for", "somebody else"])
def test_the_same_hop_taken_by_another_user_than_the_journal_says_means_an_old_disk(user, blank, taker) -> None:
    """The journal is from before the hop was refused and went elsewhere; sent again, the token would have two holders
    at one step, and nothing else that peers remember shows it."""
    me = user(COMPLETE, 2).checked()
    me.take(1, Hop((0, 0), 3), blank(me.ctx))
    while (planned := me.state.durable.custody.next) == me.ctx.me:  # a self-hop is no hand-over
        me.now = me.state.retry_at
        me.feed(Tick())
    hop = me.state.durable.custody.out_hop
    me = me.restarted()
    me.now += 1.0
    me.feed(Tick())
    asked = {send.peer: send for send in me.sends(Locate)}
    other = taker == "somebody else"
    peer = next(user for user in sorted(asked) if (user != planned) is other)
    me.answer(asked[peer], NOWHERE._replace(taken=hop))
    assert [stop.code for stop in me.all(Stop)] == ([exits.OLD_DISK] if other else [])


def test_nobody_votes_for_two_ends_of_one_epoch(user) -> None:
    """An old disk can end a walk a second time under the same epoch: the first vote stands."""
    me = user(HOLDER, 1).checked()
    epoch = (0, me.ctx.start)
    assert me.ask(0, Publish(Result(epoch, b"1" * 16, b""), False, False)).accepted
    assert not me.ask(2, Publish(Result(epoch, b"2" * 16, b""), False, False)).accepted
    assert me.state.durable.result.end == b"1" * 16


def test_the_end_of_a_walk_is_remembered_on_both_sides_like_a_hop(ended) -> None:
    """So an old disk gives itself away: one that told an end, and one that journaled it."""
    me, older, _ = ended
    end = me.ctx.end_hop(older.epoch)
    assert me.ask(3, Publish(older, False, False)).accepted
    assert me.state.durable.taken == {3: end} and me.ask(3, Locate()).taken == end
    vote(bid(me), {1: older})
    for send in me.sends(Publish):
        me.answer(send, Published(True, me.state.bid) if send.peer in (1, 3) else None)
    end = me.ctx.end_hop(me.state.bid)
    assert me.state.durable.given == {1: end, 3: end} and me.ask(1, Locate()).given == end


@pytest.mark.parametrize(
    ("peer", "words", "old"),
    [
        (3, {"taken": "the end"}, False),  # it may have told it to anybody
        (3, {"taken": "a later end"}, True),
        (2, {"given": "the end"}, False),
        (3, {"given": "the end"}, True),  # it took it from 2 alone
    ],
)
def test_who_ended_up_with_a_result_is_told_of_an_end_that_its_journal_does_not_know(ended, peer, words, old) -> None:
    me, older, _ = ended
    assert me.ask(2, Publish(older, False, False)).accepted
    me = me.restarted()
    me.now += 1.0
    me.feed(Tick())
    asked = {send.peer: send for send in me.sends(Locate)}
    ends = {"the end": me.ctx.end_hop(older.epoch), "a later end": me.ctx.end_hop((9, 2))}
    me.answer(asked[peer], NOWHERE._replace(**{name: ends[end] for name, end in words.items()}))
    assert [stop.code for stop in me.all(Stop)] == ([exits.OLD_DISK] if old else [])


def test_the_end_of_an_epoch_says_that_the_hop_still_waited_for_was_taken(user, blank) -> None:
    """Its acknowledgement comes after the result, or never: the taker must not be free to forget the hop."""
    me = user(RING, 4).checked()
    me.take(3, Hop((0, 3), 2), blank(me.ctx))
    (offer,) = me.sends(Offer)
    me.answer(offer, Granted(b"g" * 16))
    (handoff,) = me.sends(Handoff)
    value = blank(me.ctx)
    me.ask(handoff.peer, Publish(Result((0, 3), digest(value)[:16], value), False, False))
    assert me.state.durable.acked and me.ask(handoff.peer, Locate()).given == handoff.request.hop
    assert not me.answer(handoff, Accepted())
