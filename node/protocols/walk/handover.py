"""Sending: the two-phase hand-over, Offer (its failure is definite), then Handoff (no answer is indefinite).

Only a failed offer, or an answer that says no, lets the next user change. Once bytes may have left, silence means:
the same user, the same bytes, until it answers or a vote gives the token up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from node.protocols.effects import Answered, Log, Note, Send, Stop, StreamClosed, Tick
from node.protocols.exits import STALLED
from node.protocols.walk import delivery, leases, questions, results, visit
from node.protocols.walk.effects import Computed, Effect
from node.protocols.walk.messages import Accepted, Declined, Granted, Handoff, Offer, Refused, Why
from node.protocols.walk.routing import can_go_on, live
from node.protocols.walk.state import (
    Context,
    Ended,
    Grant,
    Inputs,
    Phase,
    Planned,
    State,
    Step,
    Watch,
    without,
)
from node.protocols.walk.values import hop_tag
from node.protocols.walk.view_lines import peer_line

FOREVER = float("inf")
NO_GRANT_TRIES = 3  # a grant that was lost is asked for again


# ---- progress: what a state leads to by itself ---------------------------------------------------------------


def go_on(ctx: Context, state: State, inputs: Inputs) -> Step:
    """READY: from what the journal says of the token to the next thing that waits for somebody."""
    if not state.checked:
        return questions.check(ctx, state, inputs)
    match state.durable.custody:
        case Ended():
            return results.finish(ctx, state, inputs)
        case Planned(next=user):
            return _hop_to_self(ctx, state, inputs) if user == ctx.me else _offer(ctx, state, inputs)
        case _:
            return _reopen(ctx, state, inputs)


def stall(ctx: Context, state: State, inputs: Inputs) -> Step:
    """TOO_FEW users alive: keep the token, say so, and look again; give up the process, never the token."""
    since = state.stalled_since if state.stalled_since is not None else inputs.now
    alive = live(ctx, state, inputs.now)
    text = f"{_lacking(ctx, state, alive)}; keeping the token. Not answering: "
    text += ", ".join(ctx.names[user] for user in range(ctx.n) if user not in alive)
    state = state._replace(phase=Phase.STALLED)
    if inputs.now - since > ctx.timing.stall_timeout_s:
        return state, [Stop(STALLED, text + ". Start them, then start this user again.")]
    down = {user: FOREVER for user in range(ctx.n) if user not in alive}  # until they answer, not until time passes
    state = state._replace(stalled_since=since, retry_at=inputs.now + ctx.timing.retry_max_s, down=down)
    return state, [Note("error", text)]


def _lacking(ctx: Context, state: State, alive: Sequence[int]) -> str:
    """What a holder waits for."""
    peers = ctx.topology.awaited(ctx.me, _step(state), alive)
    if peers:
        return f"waiting for one of this user's peers: {', '.join(ctx.names[user] for user in peers)}"
    return f"{len(alive)} users alive, {ctx.min_live} needed"


def _step(state: State) -> int:
    assert state.durable.custody is not None
    return state.durable.custody.hop.step


def _offer(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Ask first; a standing grant of a warm stream is the answer to a question not yet asked."""
    custody = _planned(state)
    grant = state.standing.get(custody.next)
    attempt = state.attempt + 1
    if grant is not None and not state.handed and inputs.now < grant.expires_at:
        return _hand_over(state, grant.secret, attempt=attempt, retry_at=None)
    # Whoever is offered a hop takes its standing grant back.
    state = _cold(state, custody.next)._replace(phase=Phase.OFFERING, attempt=attempt, retry_at=None)
    return state, [Send(custody.next, attempt, Offer(custody.out_hop))]


def _planned(state: State) -> Planned:
    custody = state.durable.custody
    assert isinstance(custody, Planned)
    return custody


def _reopen(ctx: Context, state: State, inputs: Inputs) -> Step:
    state, effects = visit.reopen_visit(ctx, state, inputs)
    return state._replace(**leases.renewed(ctx, inputs)), effects


def _hop_to_self(ctx: Context, state: State, inputs: Inputs) -> Step:
    """A self-hop is a hop: logged at both ends, journaled, noise of its own; it only does not use the network.

    Two transitions, like any hop: the journal keeps one custody, so the sent line is in the log before the next visit
    replaces it."""
    custody = _planned(state)
    if not state.handed:
        state = state._replace(phase=Phase.ROUTING, handed=True, retry_at=inputs.now)
        return state, [Log(custody.sent.line)]
    token = visit.read_token(ctx, custody.out)
    tag = hop_tag(custody.key, ctx.run_id, custody.out_hop, custody.out_digest)
    incoming = visit.Incoming(custody.out_hop, token, custody.out, custody.out_digest, "handoff", ctx.me, tag)
    return visit.open_visit(ctx, state, incoming, inputs, leases.renewed(ctx, inputs))


# ---- time, and a task that is done ---------------------------------------------------------------------------


def on_retry(ctx: Context, state: State, event: Tick, inputs: Inputs) -> Step:
    """The back-off is over: the next try of whatever was waiting."""
    state = state._replace(retry_at=None)
    if state.phase in (Phase.IDLE, Phase.CHECKING):
        return questions.check(ctx, state, inputs)
    if state.phase is Phase.STALLED:
        if can_go_on(ctx, state, _step(state), inputs.now):  # they came back by themselves
            return _reroute(ctx, state._replace(asked=frozenset()), inputs)  # late answers are of no use
        return questions.ask_missing(ctx, state, inputs)
    if state.phase is Phase.COMPUTING:
        return _reopen(ctx, state, inputs)
    return state._replace(phase=Phase.READY), []


def found(ctx: Context, state: State, peer: int, alive: bool, inputs: Inputs) -> Step:
    """Too few were alive, and those found down were asked again: go on only when enough of them answered."""
    effects: list[Effect] = []
    if alive and peer in state.down:
        effects = [Log(peer_line(ctx, peer, "up", inputs))]
        state = state._replace(down=without(state.down, peer))
    if state.asked:
        return state, effects
    if not can_go_on(ctx, state, _step(state), inputs.now):
        return state._replace(phase=Phase.TOO_FEW), effects
    state = state._replace(down=dict.fromkeys(state.down, inputs.now + ctx.timing.down_ttl_s))
    state, more = _reroute(ctx, state, inputs)
    return state, effects + more


def on_computed(ctx: Context, state: State, event: Computed, inputs: Inputs) -> Step:
    assert state.durable.custody is not None and state.draft is not None
    if state.durable.custody.visit != event.visit:
        return state, []  # of a token given up meanwhile
    state = state._replace(draft=state.draft._replace(contribution=event.contribution))
    state, effects = visit.plan_hop(ctx, state, inputs)
    return state._replace(**leases.renewed(ctx, inputs)), effects


def _reroute(ctx: Context, state: State, inputs: Inputs) -> Step:
    """A definite failure: draw again. The visit's noise stays the same."""
    return visit.plan_hop(ctx, state._replace(tries=0), inputs)


def _elsewhere(ctx: Context, state: State, inputs: Inputs) -> Step:
    """The next user does not take the token: it counts as down for a while, and another one is drawn."""
    peer = _planned(state).next
    down = {**state.down, peer: inputs.now + ctx.timing.down_ttl_s}
    state, effects = _reroute(ctx, state._replace(down=down), inputs)
    return state, [Log(peer_line(ctx, peer, "down", inputs)), *effects]


def _back_off(ctx: Context, state: State, inputs: Inputs) -> float:
    """When to try again, with jitter."""
    return inputs.now + ctx.timing.back_off_s(state.tries) * (0.5 + 0.5 * inputs.dice.unit())


# ---- answers of the next user --------------------------------------------------------------------------------


def on_granted(ctx: Context, state: State, event: Answered[Offer, Granted], inputs: Inputs) -> Step:
    assert event.answer is not None
    return _hand_over(state, event.answer.grant, attempt=state.attempt)


def _hand_over(state: State, grant: bytes, *, attempt: int, **changes: Any) -> Step:
    """Now, and only now, bytes leave. They were journaled when the hop was planned, and are fixed from here on."""
    custody = _planned(state)
    lines: list[Effect] = [] if state.handed else [Log(custody.sent.line)]
    state = state._replace(phase=Phase.HANDING, handed=True, draft=None, attempt=attempt, **changes)
    handoff = Handoff(custody.out_hop, grant, custody.key, custody.out)
    return state, [*lines, Send(custody.next, attempt, handoff)]


def on_accepted(ctx: Context, state: State, event: Answered[Handoff, Accepted], inputs: Inputs) -> Step:
    assert event.answer is not None
    if not event.answer.grant:
        return delivery.delivered(ctx, state, inputs)
    grant = Grant(event.answer.grant, None, inputs.now + ctx.timing.grant_ttl_s / 2)  # the giver keeps it longer
    return delivery.delivered(ctx, state, inputs, standing={**state.standing, _planned(state).next: grant})


def on_already(ctx: Context, state: State, event: Answered[Any, Any], inputs: Inputs) -> Step:
    """The next user says that it has the hop; and so it may, once bytes of it left."""
    if state.handed:
        return delivery.delivered(ctx, state, inputs)
    peer = ctx.names[_planned(state).next]
    state, (down, *effects) = _elsewhere(ctx, state, inputs)
    return state, [down, Note("error", f"{peer} says it has a token that was never sent; going elsewhere"), *effects]


def on_declined(ctx: Context, state: State, event: Answered[Any, Declined | Refused], inputs: Inputs) -> Step:
    """A typed no: the hop is not journaled there, and no grant for it is left. Definite."""
    custody, answer = _planned(state), event.answer
    assert answer is not None
    state = _cold(state, custody.next)
    if answer.promised > custody.hop.epoch:
        return leases.give_up(ctx, state, answer.promised, inputs)
    if answer.why is Why.DONE:
        # A search that is under way would go on without the answer this user needs: it starts again at once. Not if a
        # majority's votes spoke against that answer just now: they would do so again.
        watch_at = inputs.now + (ctx.timing.lease_s if _outvoted(state, custody) else 0.0)
        return state._replace(phase=Phase.IDLE, watch=Watch.RESTING, watch_at=watch_at, asked=frozenset()), []
    if answer.why is Why.NO_GRANT and state.tries < NO_GRANT_TRIES:
        state = state._replace(phase=Phase.ROUTING, tries=state.tries + 1)
        return state._replace(retry_at=_back_off(ctx, state, inputs)), []
    return _elsewhere(ctx, state, inputs)


def _outvoted(state: State, custody: Planned) -> bool:
    """Did the next user report an end to the very vote that took this token up again?"""
    vote = state.promises.get(custody.next)
    return custody.hop.epoch == state.bid and vote is not None and vote.result is not None


def on_offer_lost(ctx: Context, state: State, event: Answered[Offer, Any], inputs: Inputs) -> Step:
    """No answer to an offer. Definite while no byte has left; else the same user must be asked again."""
    state = state._replace(tries=state.tries + 1)
    if not state.handed and state.tries >= ctx.topology.offer_tries:
        return _elsewhere(ctx, state, inputs)
    phase = Phase.WAITING if state.handed else Phase.ROUTING
    return state._replace(phase=phase, retry_at=_back_off(ctx, state, inputs)), []


def on_handoff_lost(ctx: Context, state: State, event: Answered[Handoff, Any], inputs: Inputs) -> Step:
    """Indefinite: the receiver may have journaled it. Ask before the next try, standing grant or not."""
    state = _cold(state._replace(phase=Phase.WAITING, tries=state.tries + 1), _planned(state).next)
    return state._replace(retry_at=_back_off(ctx, state, inputs)), []


def _cold(state: State, peer: int) -> State:
    """Forget a peer's standing grant: its stream has ended, or it said no."""
    return state._replace(standing=without(state.standing, peer)) if peer in state.standing else state


def on_stream_closed(ctx: Context, state: State, event: StreamClosed, inputs: Inputs) -> Step:
    return _cold(state, event.peer), []
