"""Receiving: what is answered to an offer, and how a token is taken, once."""

from __future__ import annotations

from node.protocols.effects import Note, Received, Reply
from node.protocols.walk import delivery, facts, leases, questions, trust, visit
from node.protocols.walk.effects import Effect
from node.protocols.walk.messages import Accepted, Already, Declined, Granted, Handoff, Offer, Refused, Why
from node.protocols.walk.state import Context, Grant, Inputs, Phase, State, Step, without
from node.protocols.walk.values import Hop, TokenError, hop_tag


def _obstacle(ctx: Context, state: State, peer: int, hop: Hop) -> Why | None:
    """Why this user cannot take a hop that ``peer`` offers."""
    if state.durable.final:
        return Why.DONE
    if hop.epoch < state.durable.promised:
        return Why.FENCED
    if not ctx.topology.may_hold(ctx.me, hop.step) or not ctx.topology.may_pass(peer, ctx.me, hop.step):
        return Why.MISBEHAVIOUR
    if not trust.believable(ctx, state, hop.epoch):
        return Why.MISBEHAVIOUR
    if state.draining or state.disk_full:
        return Why.BUSY
    return None


def _leaps(ctx: Context, state: State, peer: int, hop: Hop) -> bool:
    """A ring comes round: does this hop leave a whole round out since this user's last one, with no word but the
    sender's that the walk is as far as that? (In a later epoch the first hop may be anywhere; and who has just started
    may have taken the hop before: a no would be definite.)"""
    high_water, every = state.durable.high_water, ctx.topology.turn_every
    if every is None or hop.epoch > max(high_water.epoch, (0, ctx.start)):
        return False
    if not state.checked and not (state.first_life and facts.fresh(ctx, state.durable)):
        return False
    heard = (answer.rank for user, answer in state.heard.items() if user != peer)
    told = any(rank.epoch == hop.epoch and rank.step > hop.step - every for rank in heard)
    return hop.step > max(high_water.step, 0) + every and not told


def on_offer(ctx: Context, state: State, event: Received[Offer], inputs: Inputs) -> Step:
    """Answer an offer; a grant is random, bound to caller and hop, single use, in memory only."""
    peer, ticket, (hop,) = event
    durable = state.durable
    grants = without(state.grants, peer)
    state = state._replace(grants=grants)  # any answer but a new grant also takes the old one back
    if durable.rejoined and not state.checked:
        # It may have taken this hop before its disk was lost: a no would be read as "never taken".
        state, effects = questions.ensure_checked(ctx, state, inputs)
        return state, [Reply(ticket, Already()), *effects]
    why = _obstacle(ctx, state, peer, hop)
    if why in (Why.DONE, Why.FENCED):
        return state, [Reply(ticket, Declined(why, durable.promised))]
    high_water = facts.high_water(state)
    if hop.epoch == high_water.epoch and hop.step <= high_water.step:
        mine = hop.step < high_water.step or durable.high_water_from in (peer, facts.SOMEBODY)
        return state, [Reply(ticket, Already() if mine else Declined(Why.MISBEHAVIOUR, durable.promised))]
    if why is not None:
        return state, [Reply(ticket, Declined(why, durable.promised))]
    if _leaps(ctx, state, peer, hop):
        state, effects = questions.ask_about(ctx, state, peer, inputs)
        # Not "busy", which would cost it more rounds: the sender asks again in a moment, when others have answered.
        return state, [Reply(ticket, Declined(Why.NO_GRANT, durable.promised)), *effects]
    state, effects = _make_room(ctx, state, hop, inputs)
    if state.phase is not Phase.IDLE:
        return state, [*effects, Reply(ticket, Declined(Why.MISBEHAVIOUR, durable.promised))]
    grant = Grant(inputs.dice.secret(16), hop, inputs.now + ctx.timing.grant_ttl_s)
    return state._replace(grants={**grants, peer: grant}), [*effects, Reply(ticket, Granted(grant.secret))]


def _make_room(ctx: Context, state: State, hop: Hop, inputs: Inputs) -> Step:
    """A newer epoch ends older business; a later hop of this epoch ends a hand-over whose answer was lost."""
    effects: list[Effect] = []
    if hop.epoch > state.durable.promised:
        state, effects = leases.give_up(ctx, state, hop.epoch, inputs)
    elif delivery.arrived_elsewhere(state, hop):
        state, effects = delivery.delivered(ctx, state, inputs)
    return state, effects


def on_handoff(ctx: Context, state: State, event: Received[Handoff], inputs: Inputs) -> Step:
    """Take a token, once: journaled (with the contribution, for a quick task) before it is acknowledged."""
    peer, ticket, handoff = event
    hop, grant = handoff.hop, state.grants.get(peer)
    if _is_past(state, hop):
        return _spent(state, peer), [Reply(ticket, Accepted())]
    digest = handoff.digest or inputs.digest(handoff.token)
    if hop == state.durable.high_water:
        if digest == state.durable.high_water_digest:
            return _spent(state, peer), [Reply(ticket, Accepted())]
        note = Note("error", f"{ctx.names[peer]} sent other bytes for hop {hop}")
        return _refuse(state, event, Why.MISBEHAVIOUR, note)
    why = _obstacle(ctx, state, peer, hop)
    if why is None and (not covered(state, peer, handoff, inputs.now) or _leaps(ctx, state, peer, hop)):
        why = Why.NO_GRANT
    if why is not None:
        return _refuse(state, event, why)
    state, room = _make_room(ctx, state, hop, inputs)
    if state.phase is not Phase.IDLE:
        return _refuse(state, event, Why.NO_GRANT, *room)
    try:
        token = visit.read_arrival(ctx, handoff.token, hop.step)
    except TokenError as error:
        return _refuse(state, event, Why.UNFIT, *room, Note("error", f"{ctx.names[peer]}: {error}"))
    assert grant is not None  # it covers the hand-over
    secret = inputs.dice.secret(16) if grant.hop is not None else grant.secret  # a standing one stands
    standing = Grant(secret, None, inputs.now + ctx.timing.grant_ttl_s)
    tag = hop_tag(handoff.key, ctx.run_id, hop, digest)
    incoming = visit.Incoming(hop, token, handoff.token, digest, "handoff", peer, tag)
    news = {**leases.renewed(ctx, inputs), "grants": {**state.grants, peer: standing}}
    state, effects = visit.open_visit(ctx, state, incoming, inputs, news, taken={**state.durable.taken, peer: hop})
    return state, [*room, *effects, Reply(ticket, Accepted(standing.secret))]


def _is_past(state: State, hop: Hop) -> bool:
    """Was this hop taken before, or may it have been, with bytes that nobody remembers?"""
    durable, high_water = state.durable, facts.high_water(state)
    if durable.rejoined and (not state.checked or (hop == high_water and not durable.high_water_digest)):
        return True
    return hop.epoch == high_water.epoch and hop.step < high_water.step


def _refuse(state: State, event: Received[Handoff], why: Why, *effects: Effect) -> Step:
    return _spent(state, event.peer), [*effects, Reply(event.ticket, Refused(why, state.durable.promised))]


def _spent(state: State, peer: int) -> State:
    """A hand-over that is not taken uses up its grant all the same."""
    return state._replace(grants=without(state.grants, peer))


def covered(state: State, peer: int, handoff: Handoff, now: float) -> bool:
    """Does this peer hold a grant for this hand-over: for its hop, or a standing one for any hop of the promised
    epoch?"""
    grant, hop = state.grants.get(peer), handoff.hop
    if grant is None:
        return False
    right_hop = grant.hop == hop if grant.hop is not None else hop.epoch == state.durable.promised
    return right_hop and grant.secret == handoff.grant and now < grant.expires_at
