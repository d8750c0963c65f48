"""Rules of votes, restarts and results, one test each."""

from __future__ import annotations

import json

import pytest

from node.protocols import exits
from node.protocols.effects import Begin, Finished, Log, Persist, Stop, Tick
from node.protocols.walk import facts, questions
from node.protocols.walk.digests import digest
from node.protocols.walk.effects import Compute
from node.protocols.walk.messages import (
    NOWHERE,
    Accepted,
    Already,
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
from node.protocols.walk.state import Phase, Watch
from node.protocols.walk.values import NO_HOP, Hop
from node.protocols.walk.visit import read_token

RING = "ring n=5 K=2"
FIRST = (0, 3)


@pytest.fixture
def watcher(user, blank):
    """The second user of the ring, whose token was taken by the third."""
    me = user(RING, 4).checked()
    me.take(3, Hop(FIRST, 2), blank(me.ctx))
    me.answer(me.sends(Offer)[0], Granted(b"g" * 16))
    me.answer(me.sends(Handoff)[0], Accepted())
    return me


def ended(token, epoch=FIRST):
    """A result of this token, under the name that such a result has."""
    return Result(epoch, digest(token)[:16], bytes(token))


def search(me, answers=4):
    """Its lease ends; the next user is silent, and ``answers`` others know nothing."""
    me.now = me.state.watch_at
    me.feed(Tick())
    me.answer(me.sends(Locate)[0], None)
    for send in me.sends(Locate):
        me.answer(send, NOWHERE if answers > 0 and send.peer != 0 else None)
        answers -= send.peer != 0


def vote(me, granted, result=None):
    yes = Promise(True, None, me.state.bid, NO_HOP, result, False)
    for send in me.sends(Fence):
        me.answer(send, yes if send.peer in granted else None)


def test_a_promise_is_journaled_before_the_vote_leaves(user) -> None:
    me = user(RING, 1).checked()
    assert me.ask(2, Fence((1, 2))) == Promise(True, None, (1, 2), NO_HOP, None, False)
    assert isinstance(me.effects[0], Persist) and me.effects[0].sync


def test_an_older_fence_is_refused(user) -> None:
    me = user(RING, 1).checked()
    me.ask(2, Fence((2, 2)))
    assert me.ask(4, Fence((1, 4))).why is Why.FENCED


def test_nobody_votes_for_another(user) -> None:
    assert user(RING, 1).checked().ask(2, Fence((1, 4))).why is Why.MISBEHAVIOUR


def test_a_user_that_has_not_asked_around_does_not_vote(user) -> None:
    me = user(RING, 1)
    assert me.ask(2, Fence((1, 2))).why is Why.UNCHECKED
    assert me.sends(Locate) and me.state.durable.promised == FIRST


def test_a_holder_that_promises_gives_its_token_up_and_says_so(user, blank) -> None:
    me = user(RING, 4).checked()
    me.take(3, Hop(FIRST, 2), blank(me.ctx))
    assert me.ask(1, Fence((1, 1))).granted
    assert me.state.phase is Phase.IDLE
    assert any(json.loads(effect.line)["kind"] == "abandoned" for effect in me.all(Log))


def test_somebody_alive_with_the_token_renews_the_lease(watcher) -> None:
    watcher.now = watcher.state.watch_at
    watcher.feed(Tick())
    watcher.answer(watcher.sends(Locate)[0], None)
    for send in watcher.sends(Locate):
        watcher.answer(send, NOWHERE._replace(responsible=True))
    assert watcher.state.watch is Watch.RESTING and watcher.state.watch_at > watcher.now


def test_without_a_majority_nothing_is_re_issued(watcher) -> None:
    search(watcher, answers=3)
    assert watcher.state.watch is Watch.FENCING
    vote(watcher, granted={1})
    assert watcher.state.watch is Watch.RESTING and watcher.state.phase is Phase.IDLE


def test_a_bid_writes_a_sent_line_only_if_the_log_has_none(watcher) -> None:
    search(watcher)
    assert watcher.sends(Fence) and not any('"kind":"sent"' in log.line for log in watcher.all(Log))


def test_a_token_given_up_before_it_left_is_logged_by_the_first_bid_and_by_no_other(user, blank) -> None:
    me = user(RING, 4).checked()
    me.take(3, Hop(FIRST, 2), blank(me.ctx))
    me.ask(3, Fence((1, 3)))  # it has only offered the token
    written = 0
    for _ in range(3):
        me.now = me.state.watch_at
        me.feed(Tick())
        for send in me.sends(Locate):
            me.answer(send, NOWHERE)
        assert me.sends(Fence)
        written += sum('"kind":"sent"' in log.line for log in me.all(Log))
        vote(me, ())
    assert written == 1


def test_too_few_answers_do_not_even_lead_to_a_bid(watcher) -> None:
    search(watcher, answers=1)
    assert watcher.state.watch is Watch.RESTING and watcher.state.durable.promised == FIRST


def test_a_majority_re_issues_with_one_full_fresh_noise(watcher) -> None:
    before = read_token(watcher.ctx, watcher.state.durable.custody.out)
    search(watcher)
    vote(watcher, granted={0, 1})
    custody = watcher.state.durable.custody
    after = read_token(watcher.ctx, custody.out)
    assert custody.cause == "reissue" and custody.out_hop == Hop((1, 4), 3)
    assert after.noise_units == before.noise_units + watcher.ctx.rule.full
    assert (after.payload != before.payload).any() and after.contributions == before.contributions


def test_who_acknowledged_the_token_and_votes_as_if_it_had_not_is_passed_by(watcher) -> None:
    search(watcher)
    vote(watcher, {0, 1, 2})
    assert [send.peer for send in watcher.sends(Offer)] == [1]  # 0 took the last one


def test_a_reported_result_is_published_again_and_nothing_is_re_issued(watcher) -> None:
    result = ended(watcher.state.durable.custody.out)
    search(watcher)
    vote(watcher, granted={1, 2}, result=result)
    assert watcher.state.phase is Phase.PUBLISHING
    assert {send.request.result for send in watcher.sends(Publish)} == {result._replace(epoch=(1, 4))}


def test_a_result_is_final_when_a_majority_has_journaled_it(watcher) -> None:
    search(watcher)
    vote(watcher, granted={1, 2}, result=ended(watcher.state.durable.custody.out))
    sends = watcher.sends(Publish)
    for place, send in enumerate(sends):
        assert not watcher.state.durable.final
        watcher.answer(send, Published(True, (1, 4)) if place < 2 else None)
    assert watcher.state.durable.final and watcher.all(Finished)


def test_a_proposal_of_an_older_epoch_is_refused(user) -> None:
    me = user(RING, 1).checked()
    me.ask(2, Fence((2, 2)))
    assert me.ask(4, Publish(Result((1, 4), b"e" * 16, b""), False, False)) == Published(False, (2, 2))


def test_another_end_than_the_final_one_is_refused(user, blank) -> None:
    me = user(RING, 1).checked()
    final = ended(blank(me.ctx), (1, 2))
    me.ask(2, Publish(final, True, False))
    me.located(NOWHERE._replace(result=final))
    assert me.state.durable.final
    other = read_token(me.ctx, blank(me.ctx))._replace(contributions=1).encode()
    assert not me.ask(4, Publish(ended(other), False, False)).accepted


def test_a_peer_that_remembers_more_means_an_old_disk(watcher) -> None:
    me = watcher.restarted()
    (send, *_) = me.sends(Locate)
    me.answer(send, NOWHERE._replace(vote=(5, send.peer)))
    assert [stop.code for stop in me.all(Stop)] == [exits.OLD_DISK]


def test_a_token_taken_before_others_answered_does_not_hide_an_old_disk(user, blank) -> None:
    """Peers' memory is held against the journal as the process found it, not against what came since."""
    me = user(RING, 4)
    me.feed(Begin(again=True))
    assert isinstance(me.take(3, Hop(FIRST, 7), blank(me.ctx)), Accepted)
    send = next(send for send in me.sends(Locate) if send.peer == 0)
    me.answer(send, NOWHERE._replace(taken=Hop(FIRST, 3)))  # an earlier hop than the one it is about to send
    assert [stop.code for stop in me.all(Stop)] == [exits.OLD_DISK]


def test_an_acknowledgement_that_the_journal_does_not_know_means_an_old_disk(user, blank) -> None:
    me = user(RING, 4)
    me.feed(Begin(again=True))
    me.take(3, Hop(FIRST, 7), blank(me.ctx))
    send = next(send for send in me.sends(Locate) if send.peer == 2)
    me.answer(send, NOWHERE._replace(given=Hop(FIRST, 2)))  # the same user took it, but from somebody else
    assert [stop.code for stop in me.all(Stop)] == [exits.OLD_DISK]


@pytest.mark.parametrize("passed", [False, True])
def test_a_token_in_hand_that_others_have_passed_means_an_old_disk(user, blank, passed) -> None:
    """Nobody gets further in an epoch than who has its token in hand; a result is the furthest of all."""
    me = user("ring n=4 K=2 slow", 3).checked()
    me.take(2, Hop((0, 2), 2), blank(me.ctx))
    me = me.restarted()
    (send, *_) = me.sends(Locate)
    me.answer(send, NOWHERE._replace(rank=Hop((0, 2), 9 if passed else 2)))
    assert [stop.code for stop in me.all(Stop)] == ([exits.OLD_DISK] if passed else [])


def test_a_disk_that_looks_untouched_but_ran_before_votes_for_no_result_before_it_asked(user, blank) -> None:
    me, other = user(RING, 4), user(RING, 4)
    proposal = Publish(ended(blank(me.ctx)), False, False)
    me.feed(Begin(again=True))
    assert not me.ask(3, proposal).accepted
    other.feed(Begin())
    assert other.ask(3, proposal).accepted


def test_a_lost_disk_never_denies_a_hop_it_may_have_taken(user) -> None:
    me = user(RING, 4)
    me.state = me.state._replace(durable=me.state.durable._replace(rejoined=True))
    me.feed(Begin(again=True))
    questions = me.sends(Locate)
    assert me.ask(3, Offer(Hop(FIRST, 2))) == Already()
    for send in questions:
        me.answer(send, NOWHERE._replace(rank=Hop(FIRST, 4)) if send.peer == 1 else NOWHERE)
    assert me.state.checked
    assert me.ask(3, Offer(Hop(FIRST, 2))) == Already()
    assert isinstance(me.ask(3, Offer(Hop(FIRST, 7))), Granted)
    assert not me.ask(1, Fence((3, 1))).granted


def test_a_capped_user_stays_capped_when_it_is_restarted_in_the_middle_of_a_visit(user, blank) -> None:
    me = user("complete n=5 T=8 caps", 2, min_live=5).checked()
    me.state = me.state._replace(
        durable=me.state.durable._replace(contributions=2), down=dict.fromkeys((0, 1, 3), me.now + 1000)
    )
    me.take(1, Hop((0, 0), 3), blank(me.ctx))
    assert me.state.phase is Phase.STALLED
    me = me.restarted()
    me.located()
    assert me.state.durable.contributions == 2 and not me.state.durable.custody.real


def test_a_starter_does_not_start_a_walk_that_others_have_begun(user) -> None:
    me = user(RING, 3)
    me.feed(Begin())
    me.located(NOWHERE._replace(rank=Hop((1, 0), 3), promised=(1, 0)))
    assert not me.state.durable.started and me.state.phase is Phase.IDLE


def test_who_does_not_answer_the_roll_call_is_logged_as_down(user) -> None:
    """It bends the law of the next draws, so a reader of the log must know of it."""
    me = user("complete n=5 T=8 caps", 1)
    me.feed(Begin(again=True))
    asked, lines = me.sends(Locate), []
    for send in asked:
        me.answer(send, None if send.peer == 3 else NOWHERE)
        lines += [json.loads(effect.line) for effect in me.all(Log)]
    for _ in range(20):
        if me.state.checked:
            break
        me.now += 1.0
        me.feed(Tick())
        for send in me.sends(Locate):
            me.answer(send, None)
            lines += [json.loads(effect.line) for effect in me.all(Log)]
    assert me.state.checked and set(me.state.down) == {3}
    assert [(line["peer"], line["state"]) for line in lines if line["kind"] == "peer"] == [(me.ctx.names[3], "down")]


def test_a_lost_disk_asks_who_was_missing_again_and_takes_part_once_all_have_answered(user) -> None:
    me = user(RING, 4)
    me.state = me.state._replace(durable=me.state.durable._replace(rejoined=True))
    me.feed(Begin(again=True))
    for send in me.sends(Locate):
        me.answer(send, None if send.peer == 2 else NOWHERE._replace(rank=Hop(FIRST, 4)))
    assert me.state.checked
    assert me.ask(3, Offer(Hop(FIRST, 7))) == Already()  # the one who is missing may know that it was taken
    me.now = me.state.retry_at
    me.feed(Tick())
    assert [send.peer for send in me.sends(Locate)] == [2]
    me.answer(me.sends(Locate)[0], None)
    assert me.ask(3, Offer(Hop(FIRST, 7))) == Already()
    me.now = me.state.retry_at
    me.feed(Tick())
    me.answer(me.sends(Locate)[0], NOWHERE._replace(rank=Hop(FIRST, 5)))
    assert me.ask(3, Offer(Hop(FIRST, 2))) == Already()
    assert isinstance(me.ask(3, Offer(Hop(FIRST, 7))), Granted)
    assert me.state.retry_at is None and me.state.durable.high_water == Hop(FIRST, 5)


def test_an_answer_to_another_question_is_taken_for_none(user, blank) -> None:
    """A holder must not wait for ever because its offer was "accepted"."""
    me = user(RING, 4).checked()
    me.take(3, Hop(FIRST, 2), blank(me.ctx))
    me.answer(me.sends(Offer)[0], Accepted())
    assert me.state.phase is Phase.ROUTING and me.state.retry_at is not None


def test_a_user_that_rejoined_never_computes_again_what_an_old_disk_has_in_hand(user, blank) -> None:
    """It may have left long ago, under other noise: the sender takes it up again, with noise of its own."""
    me = user("complete n=4 T=6 slow", 2).checked()
    first = (0, me.ctx.start)
    me.state = me.state._replace(durable=me.state.durable._replace(rejoined=True))
    me.take(1, Hop(first, 2), blank(me.ctx))
    assert me.all(Compute)
    again, begun = me.restarted(), []
    for send in again.sends(Locate):
        begun += again.answer(send, NOWHERE._replace(rank=Hop(first, 4)))
    assert again.state.checked and not any(isinstance(effect, Compute) for effect in begun)
    assert again.state.durable.custody is None and again.state.durable.high_water == Hop(first, 4)


@pytest.mark.parametrize("remembers", [False, True])
def test_a_log_that_lacks_what_peers_remember_says_so_before_the_end(user, blank, remembers) -> None:
    """Once the result is in it, a log counts as whole."""
    me = user(RING, 4)
    final = ended(blank(me.ctx))
    me.feed(Begin(again=True))
    lines = []
    for send in me.sends(Locate):
        taken = Hop(FIRST, 3) if remembers and send.peer == 1 else NO_HOP
        me.answer(send, NOWHERE._replace(result=final, final=True, taken=taken))
        lines += [json.loads(effect.line)["kind"] for effect in me.all(Log)]
    assert me.state.durable.final
    assert lines == (["rejoined", "result"] if remembers else ["result"])


def test_who_said_that_a_result_is_final_counts_also_when_it_has_left(user, blank) -> None:
    """Finished users serve for a while only: a late-comer need not meet a majority of them at once."""
    me = user(RING, 1)
    me.feed(Begin(again=True))
    final = NOWHERE._replace(result=ended(blank(me.ctx)), final=True)
    for there in ({0, 2}, {3}):
        assert not me.state.durable.final
        for send in me.sends(Locate):
            me.answer(send, final if send.peer in there else None)
        if not me.state.durable.final:
            me.now = me.state.wake_at
            me.feed(Tick())
    assert me.state.durable.final


def test_a_user_that_missed_a_round_is_asked_again_in_a_moment(user) -> None:
    """A "busy" would cost it the rounds until the sender no longer takes it for down."""
    me = user("ring n=5 K=9", 4).checked()
    first = (0, me.ctx.start)
    step = next(step for step in range(12, 17) if me.ctx.topology.may_hold(4, step))
    answer = me.ask(3, Offer(Hop(first, step)))
    assert isinstance(answer, Declined) and answer.why is Why.NO_GRANT
    for send in me.sends(Locate):
        me.answer(send, NOWHERE._replace(rank=Hop(first, step - 1)))
    assert isinstance(me.ask(3, Offer(Hop(first, step))), Granted)


def test_a_late_comer_that_heard_too_few_of_a_final_result_looks_again_at_once(user, blank) -> None:
    me = user(RING, 1)
    me.feed(Begin(again=True))
    final = NOWHERE._replace(result=ended(blank(me.ctx)), final=True)
    for send in me.sends(Locate):
        me.answer(send, final if send.peer in (0, 2) else None)
    assert me.state.checked and not me.state.durable.final
    me.now = me.state.wake_at
    assert me.now <= 100.0 + me.ctx.timing.retry_base_s
    me.feed(Tick())
    me.located(final)
    assert me.state.durable.final


def test_in_a_crowd_most_of_a_sample_is_enough_to_begin(user, monkeypatch) -> None:
    """Beyond some size a restarted user asks a sample: more than half of it, and not of all users, must answer."""
    monkeypatch.setattr(facts, "CHECK_EVERYBODY_UP_TO", 4)
    monkeypatch.setattr(questions, "CHECK_SAMPLE", 3)
    me = user("complete n=6 T=6 edge", 2)
    me.feed(Begin(again=True))
    first, second, third = me.sends(Locate)
    me.answer(first, NOWHERE)
    me.answer(second, NOWHERE)
    assert not me.state.checked
    me.answer(third, None)
    assert me.state.checked
