"""The two-phase hand-over: Offer (its failure is definite), then Handoff (no answer is indefinite).

Only a failed offer, or an answer that says no, lets the next user change. Once bytes may have left, silence means:
the same user, the same bytes, until it answers or a vote gives the token up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from node.protocol import election, exits, results, trust, visit
from node.protocol.effects import Computed, Effect, Log, Note, Reply, Send, Stop
from node.protocol.messages import (
    Accepted,
    Already,
    Declined,
    Granted,
    Handoff,
    Offer,
    Refused,
    Why,
)
from node.protocol.routing import live
from node.protocol.state import FINISH, UNROUTED, Context, Custody, Grant, Inputs, Phase, State, Watch
from node.protocol.values import NO_HOP, Epoch, Hop, TokenError, hop_tag
from node.protocol.view_lines import accepted_line, peer_line
from node.protocol.visit import Step

FOREVER = float("inf")
T = TypeVar("T")
_WAITING = (Phase.HANDING, Phase.OFFERING, Phase.WAITING, Phase.ROUTING, Phase.CHECKING)
NO_GRANT_TRIES = 3  # a grant that was lost is asked for again


# ---- sending -------------------------------------------------------------------------------------------------


def dispatch(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Go on from a planned hop (or from too few users)."""
    if state.phase is Phase.STALLED:
        return _stall(ctx, state, inputs)
    if not state.checked:
        return election.check(ctx, state, inputs)
    custody = _custody(state)
    if custody.next == UNROUTED:
        return _reopen(ctx, state, inputs)
    if custody.next == FINISH:
        return results.finish(ctx, state, inputs)
    if custody.next == ctx.me:
        return _hop_to_self(ctx, state, inputs)
    return _offer(ctx, state, inputs)


def _offer(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Ask first; a standing grant of a warm stream is the answer to a question not yet asked."""
    custody = _custody(state)
    grant = state.standing.get(custody.next)
    attempt = state.attempt + 1
    if grant is not None and not state.handed and inputs.now < grant.expires_at:
        return _hand_over(state, grant.secret, attempt=attempt, retry_at=None)
    # Whoever is offered a hop takes its standing grant back.
    state = cold(state, custody.next)._replace(phase=Phase.OFFERING, attempt=attempt, retry_at=None)
    return state, [Send(custody.next, attempt, Offer(custody.out_hop))]


def _custody(state: State) -> Custody:
    custody = state.durable.custody
    assert custody is not None
    return custody


def _stall(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Too few users alive: keep the token, say so, and look again; give up the process, never the token."""
    since = state.stalled_since if state.stalled_since is not None else inputs.now
    alive = live(ctx, state, inputs.now)
    missing = ", ".join(ctx.names[user] for user in range(ctx.n) if user not in alive)
    text = f"{len(alive)} users alive, {ctx.min_live} needed; keeping the token. Not answering: {missing}"
    if inputs.now - since > ctx.timing.stall_timeout_s:
        return state, [Stop(exits.STALLED, text + ". Start them, then start this user again.")]
    down = {user: FOREVER for user in range(ctx.n) if user not in alive}  # until they answer, not until time passes
    state = state._replace(
        phase=Phase.STALLED, stalled_since=since, retry_at=inputs.now + ctx.timing.retry_max_s, down=down
    )
    return state, [Note("error", text)]


def found(ctx: Context, state: State, peer: int, alive: bool, inputs: Inputs) -> Step:
    """Too few were alive, and those found down were asked again: go on only when enough of them answered."""
    effects: list[Effect] = []
    if alive and peer in state.down:
        effects = [Log(peer_line(ctx, peer, "up", inputs))]
        state = state._replace(down={user: until for user, until in state.down.items() if user != peer})
    if state.asked:
        return state, effects
    if len(live(ctx, state, inputs.now)) >= ctx.min_live:
        state = state._replace(down=dict.fromkeys(state.down, inputs.now + ctx.timing.down_ttl_s))
        state, more = _reroute(ctx, state, inputs)
    else:
        state, more = _stall(ctx, state, inputs)
    return state, effects + more


def retry(ctx: Context, state: State, inputs: Inputs) -> Step:
    """The back-off is over: the next try of whatever was waiting."""
    if inputs.now < (state.retry_at or 0.0):
        return state, []
    state = state._replace(retry_at=None)
    if state.phase in (Phase.IDLE, Phase.CHECKING):
        return election.check(ctx, state, inputs)
    if state.phase is Phase.STALLED:
        if len(live(ctx, state, inputs.now)) >= ctx.min_live:  # they came back by themselves
            return _reroute(ctx, state._replace(asked=frozenset()), inputs)  # late answers are of no use
        return election.ask_missing(ctx, state, inputs)
    if state.phase is Phase.COMPUTING:
        return _reopen(ctx, state, inputs)
    return dispatch(ctx, state, inputs)


def _reopen(ctx: Context, state: State, inputs: Inputs) -> Step:
    state, effects = visit.reopen_visit(ctx, state, inputs)
    return _after_visit(ctx, state, inputs, effects)


def _hop_to_self(ctx: Context, state: State, inputs: Inputs) -> Step:
    """A self-hop is a hop: logged at both ends, journaled, noise of its own; it only does not use the network.

    Two transitions, like any hop: the journal keeps one custody, so the sent line is in the log before the next visit
    replaces it."""
    custody = _custody(state)
    if not state.handed:
        state = state._replace(phase=Phase.ROUTING, handed=True, retry_at=inputs.now)
        return state, [Log(custody.sent_line)]
    token = visit.read_token(ctx, custody.out)
    state, effects = visit.open_visit(
        ctx,
        state,
        custody.out_hop,
        token,
        inputs,
        cause="handoff",
        sender=ctx.me,
        tag=hop_tag(custody.key, ctx.run_id, custody.out_hop, custody.out_digest),
        raw=custody.out,
        raw_digest=custody.out_digest,
        news=_resting(ctx, inputs),
        mark=custody.out_hop,
        mark_digest=custody.out_digest,
        mark_from=ctx.me,
    )
    return _go_on(ctx, state, inputs, effects)


def _resting(ctx: Context, inputs: Inputs) -> dict[str, Any]:
    """A token in hand ends the search for it."""
    watch_at = inputs.now + ctx.timing.lease_s
    return {
        "watch": Watch.RESTING,
        "watch_at": watch_at,
        "watch_round": 0,
        "seen": NO_HOP,
        "deferred": 0,
        "believed": 0,
        "outvoted_since": None,
        "asked": frozenset(),
    }


def _after_visit(ctx: Context, state: State, inputs: Inputs, effects: list[Effect]) -> Step:
    return _go_on(ctx, state._replace(**_resting(ctx, inputs)), inputs, effects)


def _go_on(ctx: Context, state: State, inputs: Inputs, effects: list[Effect]) -> Step:
    if state.phase is Phase.COMPUTING:
        return state, effects
    state, more = dispatch(ctx, state, inputs)
    return state, effects + more


def computed(ctx: Context, state: State, event: Computed, inputs: Inputs) -> Step:
    assert state.draft is not None
    state = state._replace(draft=state.draft._replace(contribution=event.contribution))
    state, effects = visit.plan_hop(ctx, state, inputs)
    return _after_visit(ctx, state, inputs, effects)


def _reroute(ctx: Context, state: State, inputs: Inputs) -> Step:
    """A definite failure: draw again. The visit's noise stays the same."""
    state, effects = visit.plan_hop(ctx, state._replace(tries=0), inputs)
    state, more = dispatch(ctx, state, inputs)
    return state, effects + more


def _mark_down(ctx: Context, state: State, peer: int, inputs: Inputs) -> Step:
    down = {**state.down, peer: inputs.now + ctx.timing.down_ttl_s}
    return state._replace(down=down), [Log(peer_line(ctx, peer, "down", inputs))]


def _back_off(ctx: Context, state: State, inputs: Inputs) -> float:
    """Exponential back-off with jitter, bounded."""
    ceiling = min(ctx.timing.retry_max_s, ctx.timing.retry_base_s * 2.0 ** min(state.tries, 16))
    return inputs.now + ceiling * (0.5 + 0.5 * inputs.dice.unit())


def granted(ctx: Context, state: State, answer: Granted, inputs: Inputs) -> Step:
    return _hand_over(state, answer.grant, attempt=state.attempt)


def _hand_over(state: State, grant: bytes, *, attempt: int, **changes: Any) -> Step:
    """Now, and only now, bytes leave. They were journaled when the hop was planned, and are fixed from here on."""
    custody = _custody(state)
    lines: list[Effect] = [] if state.handed else [Log(custody.sent_line)]
    state = state._replace(phase=Phase.HANDING, handed=True, draft=None, attempt=attempt, **changes)
    handoff = Handoff(custody.out_hop, grant, custody.key, custody.out)
    return state, [*lines, Send(custody.next, attempt, handoff)]


def without(users: Mapping[int, T], user: int) -> Mapping[int, T]:
    return {other: value for other, value in users.items() if other != user}


def cold(state: State, peer: int) -> State:
    """Forget a peer's standing grant: its stream has ended, or it said no."""
    return state._replace(standing=without(state.standing, peer)) if peer in state.standing else state


def accepted(ctx: Context, state: State, answer: Accepted, inputs: Inputs) -> Step:
    if not answer.grant:
        return delivered(ctx, state, inputs)
    grant = Grant(answer.grant, None, inputs.now + ctx.timing.grant_ttl_s / 2)  # the giver keeps it longer
    return delivered(ctx, state, inputs, standing={**state.standing, _custody(state).next: grant})


def delivered(ctx: Context, state: State, inputs: Inputs, **changes: Any) -> Step:
    """The receiver has it, now or since before: this user is free, and watches."""
    custody = _custody(state)
    state = state._replace(
        durable=state.durable._replace(given=_given(state)),
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


def _given(state: State) -> Mapping[int, Hop]:
    """What peers have acknowledged, once the last token is."""
    custody = _custody(state)
    return {**state.durable.given, custody.next: custody.out_hop}


def already(ctx: Context, state: State, answer: Already, inputs: Inputs) -> Step:
    custody = _custody(state)
    if state.handed:
        return delivered(ctx, state, inputs)
    state, effects = _mark_down(ctx, state, custody.next, inputs)
    note = Note("error", f"{ctx.names[custody.next]} says it has a token that was never sent; going elsewhere")
    state, more = _reroute(ctx, state, inputs)
    return state, [*effects, note, *more]


def declined(ctx: Context, state: State, answer: Declined | Refused, inputs: Inputs) -> Step:
    """A typed no: the hop is not journaled there, and no grant for it is left. Definite."""
    custody = _custody(state)
    state = cold(state, custody.next)
    if answer.promised > custody.hop.epoch:
        return election.give_up(ctx, state, answer.promised, inputs)
    if answer.why is Why.DONE:
        # A search that is under way would go on without the answer this user needs: it starts again at once.
        return state._replace(phase=Phase.IDLE, watch=Watch.RESTING, watch_at=inputs.now, asked=frozenset()), []
    if answer.why is Why.NO_GRANT and state.tries < NO_GRANT_TRIES:
        state = state._replace(phase=Phase.ROUTING, tries=state.tries + 1)
        return state._replace(retry_at=_back_off(ctx, state, inputs)), []
    state, effects = _mark_down(ctx, state, custody.next, inputs)
    state, more = _reroute(ctx, state, inputs)
    return state, effects + more


def offer_lost(ctx: Context, state: State, inputs: Inputs) -> Step:
    """No answer to an offer. Definite while no byte has left; else the same user must be asked again."""
    state = state._replace(tries=state.tries + 1)
    if state.handed:
        return state._replace(phase=Phase.WAITING, retry_at=_back_off(ctx, state, inputs)), []
    if state.tries < ctx.topology.offer_tries:
        return state._replace(phase=Phase.ROUTING, retry_at=_back_off(ctx, state, inputs)), []
    state, effects = _mark_down(ctx, state, _custody(state).next, inputs)
    state, more = _reroute(ctx, state, inputs)
    return state, effects + more


def handoff_lost(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Indefinite: the receiver may have journaled it. Ask before the next try, standing grant or not."""
    state = cold(state._replace(phase=Phase.WAITING, tries=state.tries + 1), _custody(state).next)
    return state._replace(retry_at=_back_off(ctx, state, inputs)), []


# ---- receiving -----------------------------------------------------------------------------------------------


def _obstacle(ctx: Context, state: State, hop: Hop) -> Why | None:
    """Why this user cannot take a hop, whoever offers it."""
    if state.durable.final:
        return Why.DONE
    if hop.epoch < state.durable.promised:
        return Why.FENCED
    if not ctx.topology.may_hold(ctx.me, hop.step):
        return Why.MISBEHAVIOUR
    if not trust.believable(ctx, state, hop.epoch):
        return Why.MISBEHAVIOUR
    if state.draining or state.disk_full:
        return Why.BUSY
    return None


def _arrived_elsewhere(state: State, hop: Hop) -> bool:
    """A later hop of the epoch proves that the hop this user waits for was taken."""
    custody = state.durable.custody
    in_flight = state.handed and state.phase in _WAITING
    return in_flight and custody is not None and custody.hop.epoch == hop.epoch and custody.out_hop < hop


def _leaps(ctx: Context, state: State, peer: int, hop: Hop) -> bool:
    """A ring comes round: does this hop leave a whole round out since this user's last one, with no word but the
    sender's that the walk is as far as that? (In a later epoch the first hop may be anywhere; and who has just started
    may have taken the hop before: a no would be definite.)"""
    mark, every = state.durable.mark, ctx.topology.turn_every
    if every is None or hop.epoch > max(mark.epoch, (0, ctx.start)):
        return False
    if not state.checked and not (state.first_life and election.fresh(ctx, state.durable)):
        return False
    heard = (answer.rank for user, answer in state.heard.items() if user != peer)
    told = any(rank.epoch == hop.epoch and rank.step > hop.step - every for rank in heard)
    return hop.step > max(mark.step, 0) + every and not told


def offered(ctx: Context, state: State, peer: int, ticket: int, offer: Offer, inputs: Inputs) -> Step:
    """Answer an offer; a grant is random, bound to caller and hop, single use, in memory only."""
    hop, durable = offer.hop, state.durable
    grants = without(state.grants, peer)
    state = state._replace(grants=grants)  # any answer but a new grant also takes the old one back
    if durable.rejoined and not state.checked:
        # It may have taken this hop before its disk was lost: a no would be read as "never taken".
        state, effects = election.ensure_checked(ctx, state, inputs)
        return state, [Reply(ticket, Already()), *effects]
    why = _obstacle(ctx, state, hop)
    if why in (Why.DONE, Why.FENCED):
        return state, [Reply(ticket, Declined(why, durable.promised))]
    mark = election.mark(state)
    if hop.epoch == mark.epoch and hop.step <= mark.step:
        mine = hop.step < mark.step or durable.mark_from in (peer, election.SOMEBODY)
        return state, [Reply(ticket, Already() if mine else Declined(Why.MISBEHAVIOUR, durable.promised))]
    if why is not None:
        return state, [Reply(ticket, Declined(why, durable.promised))]
    if _leaps(ctx, state, peer, hop):
        state, effects = election.ask_about(ctx, state, peer, inputs)
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
        state, effects = election.give_up(ctx, state, hop.epoch, inputs)
    elif _arrived_elsewhere(state, hop):
        state, effects = delivered(ctx, state, inputs)
    return state, effects


def handed(ctx: Context, state: State, peer: int, ticket: int, handoff: Handoff, inputs: Inputs) -> Step:
    """Take a token, once: journaled (with the contribution, for a quick task) before it is acknowledged."""
    hop, durable = handoff.hop, state.durable
    grant = state.grants.get(peer)
    mark = election.mark(state)
    forgotten = durable.rejoined and (not state.checked or (hop == mark and not durable.mark_digest))
    if forgotten or (hop.epoch == mark.epoch and hop.step < mark.step):
        return _spent(state, peer), [Reply(ticket, Accepted())]
    token_digest = handoff.digest or inputs.digest(handoff.token)
    if hop == durable.mark:
        if token_digest == durable.mark_digest:
            return _spent(state, peer), [Reply(ticket, Accepted())]
        note = Note("error", f"{ctx.names[peer]} sent other bytes for hop {hop}")
        return _spent(state, peer), [note, Reply(ticket, Refused(Why.MISBEHAVIOUR, durable.promised))]
    why = _obstacle(ctx, state, hop)
    room: list[Effect] = []
    passed_on = False
    if why is None:
        why = Why.NO_GRANT
        covered = grant is not None and _covers(grant, handoff, durable.promised, inputs.now)
        if covered and not _leaps(ctx, state, peer, hop):
            passed_on = hop.epoch == durable.promised and _arrived_elsewhere(state, hop)
            if not passed_on:
                state, room = _make_room(ctx, state, hop, inputs)
                durable = state.durable
            why = None if passed_on or state.phase is Phase.IDLE else Why.NO_GRANT
    if why is not None:
        return _spent(state, peer), [*room, Reply(ticket, Refused(why, durable.promised))]
    try:
        token = visit.read_arrival(ctx, handoff.token, hop.step)
    except TokenError as error:
        if passed_on:
            state, room = delivered(ctx, state, inputs)
        note = Note("error", f"{ctx.names[peer]}: {error}")
        return _spent(state, peer), [*room, note, Reply(ticket, Refused(Why.UNFIT, durable.promised))]
    tag = hop_tag(handoff.key, ctx.run_id, hop, token_digest)
    assert grant is not None  # or it would not be taken
    secret = inputs.dice.secret(16) if grant.hop is not None else grant.secret  # a standing one stands
    standing = Grant(secret, None, inputs.now + ctx.timing.grant_ttl_s)
    receipt: dict[str, Any] = {"taken": {**durable.taken, peer: hop}}
    if passed_on:  # all else that ``delivered`` changes is the new visit's from here on
        room = [Log(accepted_line(ctx, _custody(state), inputs))]
        receipt["given"] = _given(state)
    state, effects = visit.open_visit(
        ctx,
        state,
        hop,
        token,
        inputs,
        cause="handoff",
        sender=peer,
        tag=tag,
        raw=handoff.token,
        raw_digest=token_digest,
        news={**_resting(ctx, inputs), "grants": {**state.grants, peer: standing}},
        mark=hop,
        mark_digest=token_digest,
        mark_from=peer,
        **receipt,
    )
    state, effects = _go_on(ctx, state, inputs, [*room, *effects])
    return state, [*effects, Reply(ticket, Accepted(standing.secret))]  # last: the token waits for nobody


def _spent(state: State, peer: int) -> State:
    """A hand-over that is not taken uses up its grant all the same."""
    return state._replace(grants=without(state.grants, peer))


def covered(state: State, peer: int, handoff: Handoff, now: float) -> bool:
    """Does this peer hold a grant for this hand-over?"""
    grant = state.grants.get(peer)
    return grant is not None and _covers(grant, handoff, state.durable.promised, now)


def _covers(grant: Grant, handoff: Handoff, promised: Epoch, now: float) -> bool:
    """Is this the hop the grant was given for (a standing one: any hop of the promised epoch)?"""
    hop = handoff.hop
    right_hop = grant.hop == hop if grant.hop is not None else hop.epoch == promised
    return right_hop and grant.secret == handoff.grant and now < grant.expires_at
