"""What makes the result unique: of all reports the newest wins, and nothing less than a majority makes it final."""

from __future__ import annotations

import pytest

from node.protocol import election, exits
from node.protocol.digests import digest
from node.protocol.effects import Finished, Stop, Tick
from node.protocol.messages import NOWHERE, Fence, Locate, Promise, Publish, Published, Result
from node.protocol.state import Phase
from node.protocol.values import NO_HOP, Hop
from node.protocol.visit import read_token
from tests.protocol.conftest import User

RING = "ring n=5 K=2"
HOLDER = "ring n=4 K=2 holder"
COMPLETE = "complete n=5 T=8 caps"


def bid(me: User) -> User:
    """Its lease ends, nobody knows of the token, and it asks for promises."""
    me.now = 200.0
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
    me.state = me.state._replace(believed=election.DOUBTED)  # others were waited for
    vote(bid(me), {**dict.fromkeys((1, 4), older), newest: newer}, silent=frozenset({2, 3}))
    assert {send.request.result.end for send in me.sends(Publish)} == {newer.end}


@pytest.mark.parametrize("mine_is_newer", [False, True])
def test_the_bidders_own_report_counts_like_any_other(ended, mine_is_newer) -> None:
    me, older, newer = ended
    mine, theirs = (newer, older) if mine_is_newer else (older, newer)
    me.state = me.state._replace(durable=me.state.durable._replace(result=mine))
    me.state = me.state._replace(believed=election.DOUBTED)
    vote(bid(me), {2: theirs}, silent=frozenset({3, 4}))
    assert {send.request.result.end for send in me.sends(Publish)} == {newer.end}


def test_more_votes_are_waited_for_when_one_user_alone_reports_a_result(ended) -> None:
    me, older, _ = ended
    for _ in range(election.DOUBTED):
        vote(bid(me), {1: older}, silent=frozenset({3, 4}))
        assert not me.sends(Publish) and me.state.phase is Phase.IDLE
    vote(bid(me), {1: older}, silent=frozenset({3, 4}))
    assert me.sends(Publish)


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
    me.state = me.state._replace(durable=me.state.durable._replace(result=ended, kept=end + value if keeps else b""))
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
