"""Rules of the two-phase hand-over, one test each."""

from __future__ import annotations

import pytest

from node.protocols.effects import Log, Note, Persist, Send, Tick
from node.protocols.walk.effects import Compute
from node.protocols.walk.messages import (
    Accepted,
    Already,
    Declined,
    Fence,
    Granted,
    Handoff,
    Locate,
    Offer,
    Refused,
    Why,
)
from node.protocols.walk.state import Phase, Watch
from node.protocols.walk.values import Hop, TokenError
from node.protocols.walk.visit import read_token

COMPLETE = "complete n=5 T=8 caps"
RING = "ring n=5 K=2"
FIRST = (0, 0)


@pytest.fixture
def holder(user, blank):
    """A user of the complete graph that took step 3 and offers step 4."""
    me = user(COMPLETE, 2).checked()
    assert isinstance(me.take(1, Hop(FIRST, 3), blank(me.ctx)), Accepted)
    while me.state.phase is not Phase.OFFERING:  # it may have drawn itself
        me.now = me.state.wake_at
        me.feed(Tick())
    return me


@pytest.fixture
def ring_holder(user, blank):
    """The second user of the ring, offering to the third."""
    me = user(RING, 4).checked()
    assert isinstance(me.take(3, Hop((0, 3), 2), blank(me.ctx)), Accepted)
    return me


def handed(me):
    """Its offer is granted: the bytes leave."""
    (offer,) = me.sends(Offer)
    me.answer(offer, Granted(b"g" * 16))
    (send,) = me.sends(Handoff)
    return send


def test_only_a_peer_may_hand_the_token_over_but_for_the_public_one_at_the_start(user, blank) -> None:
    me = user("star n=5 T=8", 1).checked()
    assert me.ask(2, Offer(Hop(FIRST, 3))) == Declined(Why.MISBEHAVIOUR, FIRST)
    assert isinstance(me.take(2, Hop(FIRST, 1), blank(me.ctx)), Accepted)


def test_a_receipt_is_journaled_before_it_is_acknowledged(user, blank) -> None:
    me = user(COMPLETE, 2).checked()
    me.take(1, Hop(FIRST, 3), blank(me.ctx))
    assert isinstance(me.effects[0], Persist) and me.effects[0].sync
    assert me.effects[0].changes["high_water"] == Hop(FIRST, 3)


def test_the_sent_line_is_logged_right_before_the_bytes_leave(holder) -> None:
    handed(holder)
    kinds = [type(effect).__name__ for effect in holder.effects]
    assert kinds == ["Log", "Send"] and '"kind":"sent"' in holder.all(Log)[0].line


@pytest.mark.parametrize("made", [0, 3])
def test_contributions_are_numbered_from_one(user, blank, made: int) -> None:
    """Tasks take one row per visit by this number."""
    me = user("complete n=4 T=6 slow", 2).checked()
    me.state = me.state._replace(durable=me.state.durable._replace(contributions=made))
    me.take(0, Hop((0, me.ctx.start), 5), blank(me.ctx))
    assert [compute.contribution for compute in me.all(Compute)] == [made + 1]


def test_a_token_without_a_grant_is_refused(user, blank) -> None:
    me = user(COMPLETE, 2).checked()
    answer = me.ask(1, Handoff(Hop(FIRST, 3), b"x" * 16, b"k" * 32, blank(me.ctx)))
    assert answer == Refused(Why.NO_GRANT, FIRST) and me.state.durable.custody is None


def test_a_grant_is_bound_to_caller_and_hop_and_used_once(user, blank) -> None:
    me = user(COMPLETE, 2).checked()
    token = blank(me.ctx)
    grant = me.ask(1, Offer(Hop(FIRST, 3))).grant
    assert me.ask(3, Handoff(Hop(FIRST, 3), grant, b"k" * 32, token)) == Refused(Why.NO_GRANT, FIRST)
    assert me.ask(1, Handoff(Hop(FIRST, 4), grant, b"k" * 32, token)) == Refused(Why.NO_GRANT, FIRST)
    assert me.ask(1, Handoff(Hop(FIRST, 3), grant, b"k" * 32, token)) == Refused(Why.NO_GRANT, FIRST)  # spent


def test_a_grant_expires(user, blank) -> None:
    me = user(COMPLETE, 2).checked()
    grant = me.ask(1, Offer(Hop(FIRST, 3))).grant
    me.now += me.ctx.timing.grant_ttl_s
    assert me.ask(1, Handoff(Hop(FIRST, 3), grant, b"k" * 32, blank(me.ctx))) == Refused(Why.NO_GRANT, FIRST)


def test_a_duplicate_is_acknowledged_and_changes_nothing(holder, blank) -> None:
    before = holder.state.durable
    assert holder.ask(1, Handoff(Hop(FIRST, 3), b"", b"k" * 32, blank(holder.ctx))) == Accepted()
    assert holder.ask(1, Offer(Hop(FIRST, 3))) == Already()
    assert holder.state.durable == before


def test_other_bytes_for_a_hop_that_was_taken_are_refused_and_noted(user, blank) -> None:
    me = user("complete n=4 T=6 slow", 2).checked()
    me.take(1, Hop(FIRST, 3), blank(me.ctx))
    answer = me.ask(1, Handoff(Hop(FIRST, 3), b"", b"k" * 32, blank(me.ctx) + b"!"))
    assert answer == Refused(Why.MISBEHAVIOUR, FIRST) and me.all(Note)


def test_an_unfit_token_is_refused_without_a_value_in_the_note(user, blank) -> None:
    me = user(COMPLETE, 2).checked()
    assert me.take(1, Hop(FIRST, 3), blank(me.ctx)[:-1]) == Refused(Why.UNFIT, FIRST)


def test_an_older_epoch_is_refused_at_the_offer(user) -> None:
    me = user(COMPLETE, 2).checked()
    me.state = me.state._replace(durable=me.state.durable._replace(promised=(2, 1)))
    assert me.ask(1, Offer(Hop(FIRST, 3))) == Declined(Why.FENCED, (2, 1))


def test_silence_after_a_token_means_the_same_user_and_the_same_bytes(holder) -> None:
    first = handed(holder)
    holder.answer(first, None)
    assert holder.state.phase is Phase.WAITING
    holder.now = holder.state.retry_at
    holder.feed(Tick())
    again = handed(holder)
    assert (again.peer, again.request.hop, again.request.token) == (first.peer, first.request.hop, first.request.token)


def test_silence_after_a_second_offer_is_still_indefinite(holder) -> None:
    holder.answer(handed(holder), None)
    holder.now = holder.state.retry_at
    holder.feed(Tick())
    (offer,) = holder.sends(Offer)
    holder.answer(offer, None)
    assert holder.state.phase is Phase.WAITING and holder.state.durable.custody.next == offer.peer


def test_a_failed_offer_is_definite_and_keeps_the_noise(holder) -> None:
    (offer,) = holder.sends(Offer)
    supply = holder.state.draft.supply
    holder.answer(offer, None)
    assert offer.peer in holder.state.down
    assert holder.state.draft.supply is supply


def test_a_ring_skips_a_position_after_three_silent_offers(ring_holder) -> None:
    for _ in range(3):
        (offer,) = ring_holder.sends(Offer)
        assert offer.request.hop.step == 3
        ring_holder.answer(offer, None)
        if ring_holder.state.retry_at is not None:
            ring_holder.now = ring_holder.state.retry_at
            ring_holder.feed(Tick())
    (offer,) = ring_holder.sends(Offer)
    assert offer.request.hop.step == 4


def test_who_refused_the_bytes_has_seen_them_in_the_ledger(ring_holder) -> None:
    send = handed(ring_holder)
    seen = read_token(ring_holder.ctx, send.request.token)
    ring_holder.answer(send, Refused(Why.BUSY, (0, 3)))
    token = read_token(ring_holder.ctx, ring_holder.state.durable.custody.out)
    full = ring_holder.ctx.rule.full
    assert token.ledger[send.peer] == seen.noise_units + full  # and it is passed by: it misses this round
    assert (token.payload == seen.payload).all()  # nothing is taken back, nothing redrawn


def test_who_was_passed_by_is_taken_back_when_the_token_comes_to_it_after_all(ring_holder) -> None:
    """Passed by on the way to a user that refused, then found alive: it misses no round and owes no noise."""
    send = handed(ring_holder)
    down = ring_holder.state.down
    before = read_token(ring_holder.ctx, send.request.token).ledger
    ring_holder.answer(send, Refused(Why.BUSY, (0, 3)))
    (second,) = ring_holder.sends(Offer)
    passing = read_token(ring_holder.ctx, ring_holder.state.durable.custody.out).ledger
    assert passing[send.peer] > before[send.peer] and passing[second.peer] == before[second.peer]
    ring_holder.state = ring_holder.state._replace(down=down)  # it answers again
    ring_holder.answer(second, Declined(Why.BUSY, (0, 3)))
    (third,) = ring_holder.sends(Offer)
    token = read_token(ring_holder.ctx, ring_holder.state.durable.custody.out)
    assert third.peer == send.peer
    assert token.ledger[send.peer] == passing[send.peer] - ring_holder.ctx.rule.full


def test_a_token_that_asks_for_noise_without_end_is_refused(ring_holder) -> None:
    ctx = ring_holder.ctx
    token = read_token(ctx, handed(ring_holder).request.token)
    most = token.noise_units + ctx.rule.full * ctx.total // ctx.n
    fine = token._replace(ledger=(most, *token.ledger[1:]))
    assert read_token(ctx, fine.encode()).ledger == fine.ledger
    with pytest.raises(TokenError):
        read_token(ctx, token._replace(ledger=(most + 1, *token.ledger[1:])).encode())


def test_a_user_back_after_some_rounds_finds_a_full_noise_for_each(user, blank) -> None:
    """More noise than one supply holds: the next ones behind it, and nothing drawn again for another user."""
    me = user(RING, 4).checked()
    token = read_token(me.ctx, blank(me.ctx))
    me.state = me.state._replace(durable=me.state.durable._replace(high_water=Hop((0, 3), 2)))
    back = token._replace(ledger=(2 * me.ctx.rule.full, *token.ledger[1:]))  # the next user, passed by twice
    me.take(3, Hop((0, 3), 7), back.encode())
    custody, draft = me.state.durable.custody, me.state.draft
    assert (custody.next, custody.units) == (0, 3 * me.ctx.rule.full)
    noise = draft.supply.noise.units
    sent = read_token(me.ctx, custody.out)
    assert (sent.payload == token.payload + draft.contribution + noise[: custody.units].sum(axis=0)).all()
    silent(me, 0)  # it is gone again
    custody = me.state.durable.custody
    assert custody.units == me.ctx.rule.full and me.state.draft.supply is draft.supply
    assert (read_token(me.ctx, custody.out).payload == token.payload + draft.contribution + noise[0]).all()
    assert read_token(me.ctx, custody.out).ledger[0] == 3 * me.ctx.rule.full


def test_a_contribution_that_left_stays_counted_on_its_edge(holder) -> None:
    send = handed(holder)
    holder.answer(send, Refused(Why.BUSY, FIRST))
    assert holder.state.durable.edges[send.peer] == 1


def test_an_answer_to_an_older_attempt_is_stale(holder) -> None:
    (offer,) = holder.sends(Offer)
    before = holder.state
    holder.answer(offer._replace(attempt=offer.attempt - 1), Granted(b"g" * 16))
    assert holder.state == before and holder.effects == []


def test_a_later_hop_of_the_epoch_proves_that_the_token_arrived(holder) -> None:
    holder.answer(handed(holder), None)
    assert isinstance(holder.ask(1, Offer(Hop(FIRST, 7))), Granted)
    assert holder.state.phase is Phase.IDLE and holder.state.durable.acked


def test_a_full_disk_refuses_the_token_and_loses_nothing(user, blank) -> None:
    me = user(COMPLETE, 2).checked()
    grant = me.ask(1, Offer(Hop(FIRST, 3))).grant
    handoff = Handoff(Hop(FIRST, 3), grant, b"k" * 32, blank(me.ctx))
    assert me.ask_in_vain(1, handoff) == Refused(Why.BUSY, FIRST)
    assert me.ask(1, Offer(Hop(FIRST, 3))) == Declined(Why.BUSY, FIRST)
    me.now = me.state.disk_retry_at
    me.feed(Tick())
    assert isinstance(me.ask(1, Offer(Hop(FIRST, 3))), Granted)


def test_a_restarted_holder_sends_the_journaled_bytes(holder) -> None:
    custody = holder.state.durable.custody
    me = holder.restarted()
    me.feed(Tick())
    me.located()
    send = handed(me)
    assert (send.peer, send.request.token, send.request.key) == (custody.next, custody.out, custody.key)


def test_too_few_live_users_stall_the_token_and_name_the_missing(user, blank) -> None:
    me = user("ring n=3 K=2", 2).checked()
    me.take(1, Hop((0, 1), 2), blank(me.ctx))
    for _ in range(3):
        me.answer(me.sends(Offer)[0], None)
        if me.state.phase is Phase.ROUTING:
            me.now = me.state.retry_at
            me.feed(Tick())
    assert me.state.phase is Phase.STALLED and "u0" in me.all(Note)[0].text
    assert me.state.durable.custody is not None


@pytest.mark.parametrize("stage", ["star n=5 T=8", "star n=5 T=6 simple"])
def test_a_user_of_a_graph_whose_peers_are_all_down_waits_and_ends_no_walk(user, blank, stage: str) -> None:
    """Simple weights leave it nobody to draw, not even itself: that is not the end of the walk."""
    me = user(stage, 2).checked()
    me.take(0, Hop((0, 0), 2), blank(me.ctx))
    while me.state.phase is not Phase.STALLED:
        assert me.state.phase in (Phase.OFFERING, Phase.ROUTING) and not me.state.durable.ended
        if me.state.phase is Phase.ROUTING:
            me.now = me.state.retry_at
            me.feed(Tick())
        else:
            me.answer(me.sends(Offer)[0], None)
    assert "waiting for one of this user's peers: u0" in me.all(Note)[0].text


def test_an_acknowledgement_carries_a_grant_for_the_next_hops_until_a_no(user, blank) -> None:
    me = user("complete n=4 T=6 slow", 2).checked()
    standing = me.take(1, Hop(FIRST, 1), blank(me.ctx)).grant
    me.state = me.state._replace(phase=Phase.IDLE)
    handoff = Handoff(Hop(FIRST, 4), standing, b"k" * 32, blank(me.ctx))
    for step in (4, 5):
        assert me.ask(1, handoff._replace(hop=Hop(FIRST, step))) == Accepted(standing)
        me.state = me.state._replace(phase=Phase.IDLE)
    late = handoff._replace(hop=Hop(FIRST, 6))
    me.state = me.state._replace(draining=True)
    assert me.ask(1, late) == Refused(Why.BUSY, FIRST)
    me.state = me.state._replace(draining=False)
    assert me.ask(1, late) == Refused(Why.NO_GRANT, FIRST), "whoever was told no may have sent it elsewhere"


def test_a_grant_for_one_hop_is_not_the_standing_one(user, blank) -> None:
    me = user("complete n=4 T=6 slow", 2).checked()
    once = me.ask(1, Offer(Hop(FIRST, 1))).grant
    answer = me.ask(1, Handoff(Hop(FIRST, 1), once, b"k" * 32, blank(me.ctx)))
    assert isinstance(answer, Accepted) and answer.grant not in (b"", once)


def holding_a_standing_grant(holder):
    """The next user accepted this one's token, with a grant for more; now this user has another token for it."""
    grant, send = b"s" * 16, handed(holder)
    holder.answer(send, Accepted(grant))
    assert holder.state.standing[send.peer].secret == grant
    custody = holder.state.durable.custody
    holder.state = holder.state._replace(
        phase=Phase.HANDING, durable=holder.state.durable._replace(custody=custody._replace(out_hop=Hop(FIRST, 99)))
    )
    return send


def test_a_standing_grant_is_kept_when_a_token_was_accepted_and_lost_with_a_no_or_silence(holder) -> None:
    send = holding_a_standing_grant(holder)
    held = holder.state
    again = Send(send.peer, held.attempt, send.request)
    for answer, kept in ((Accepted(), True), (Refused(Why.BUSY, FIRST), False), (None, False)):
        holder.state = held
        holder.answer(again, answer)
        assert (send.peer in holder.state.standing) is kept, answer


def test_a_newer_epoch_takes_standing_grants_back(holder) -> None:
    holding_a_standing_grant(holder)
    holder.ask(3, Fence((1, 3)))
    assert not holder.state.standing


def test_a_standing_grant_is_worth_nothing_in_a_newer_epoch(user, blank) -> None:
    me = user("complete n=4 T=6 slow", 2).checked()
    standing = me.take(1, Hop(FIRST, 1), blank(me.ctx)).grant
    me.ask(3, Fence((1, 3)))
    assert isinstance(me.ask(1, Handoff(Hop((1, 3), 4), standing, b"k" * 32, blank(me.ctx))), Refused)


def searching(me):
    """Its token left, nobody answered, and its lease ended: it asks everybody."""
    me.answer(handed(me), None)
    me.state = me.state._replace(watch_at=me.now, retry_at=me.now + 100)
    me.feed(Tick())
    assert me.state.watch is Watch.LOCATING
    return me


def test_hearing_that_the_run_is_finished_starts_the_search_again_at_once(holder) -> None:
    me = searching(holder)
    me.now = me.state.retry_at
    me.feed(Tick())
    (offer,) = me.sends(Offer)
    me.answer(offer, Declined(Why.DONE, FIRST))
    assert me.state.phase is Phase.IDLE and me.state.wake_at <= me.now
    me.feed(Tick())
    assert {send.peer for send in me.sends(Locate)} == me.ctx.others and me.state.watch_at is None


def test_a_search_that_outlasts_a_lease_waits_on_without_a_busy_loop(holder) -> None:
    """A full disk sets the lease in the middle of a search: when it ends, the search is not over yet."""
    me = searching(holder)
    me.state = me.state._replace(watch_at=me.now)
    me.feed(Tick())
    assert me.state.watch is Watch.LOCATING and me.state.watch_at > me.now


def test_a_stalled_token_goes_on_only_when_enough_users_answered(user, blank) -> None:
    """min_live is what the noise was calibrated for: waiting alone must not make the missing count as alive."""
    me = user("ring n=3 K=2", 2).checked()
    me.take(1, Hop((0, 1), 2), blank(me.ctx))
    while me.state.phase is not Phase.STALLED:
        if me.sends(Offer):
            me.answer(me.sends(Offer)[0], None)
        else:
            me.now = me.state.retry_at
            me.feed(Tick())
    down = set(me.state.down)
    for _ in range(3):
        me.now = me.state.retry_at
        me.feed(Tick())
        assert {send.peer for send in me.sends(Locate)} == down and not me.sends(Offer)
        for send in me.sends(Locate):
            me.answer(send, None)
            assert not me.sends(Offer) and not me.sends(Handoff)
        assert me.state.phase is Phase.STALLED
    me.now = me.state.retry_at
    me.feed(Tick())
    me.located()
    assert me.state.phase is not Phase.STALLED and not set(me.state.down)


def test_no_noise_is_taken_for_a_hop_that_owes_none(user, blank) -> None:
    """Alg. 1: the token carries a noise that is not the next user's yet."""
    me = user(RING, 4).checked()
    token = read_token(me.ctx, blank(me.ctx))
    me.take(3, Hop((0, 3), 2), token._replace(noise_units=me.ctx.rule.full, contributions=1).encode())
    assert me.state.durable.custody.units == 0 and me.state.draft.supply is None and me.taken == 0


def test_a_noise_taken_for_one_user_serves_the_next_one_too(user, blank) -> None:
    """A visit owes noise to the first user, none to the second, some to the third: it takes one, once."""
    me = user(RING, 4).checked()
    token = read_token(me.ctx, blank(me.ctx))._replace(noise_units=me.ctx.rule.full, contributions=1)
    ledger = [0] * me.ctx.n
    ledger[0] = ledger[2] = me.ctx.rule.full  # users 0 and 2 have seen the noise, user 1 has not
    me.take(3, Hop((0, 3), 2), token._replace(ledger=tuple(ledger)).encode())
    owed, supplies = [], []
    for follower in (0, 1, 2):
        assert me.state.durable.custody.next == follower
        owed.append(me.state.durable.custody.units)
        supplies.append(me.state.draft.supply)
        if follower < 2:
            silent(me, follower)
    assert owed == [me.ctx.rule.full, 0, me.ctx.rule.full]
    assert supplies[0] is not None and all(supply is supplies[0] for supply in supplies) and me.taken == 1


def silent(me, follower: int) -> None:
    """No answer from this user until it is passed by."""
    while me.state.durable.custody.next == follower:
        me.answer(me.sends(Offer)[0], None)
        if me.state.retry_at is not None:
            me.now = me.state.retry_at
            me.feed(Tick())
