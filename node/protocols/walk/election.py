"""When the token may be lost: look for it, and only with a majority's promises take it up again.

Everybody who ever sent the token keeps its last bytes and watches. When the lease ends the user asks where it is;
the one with the furthest hop among the reachable acts, the others wait on. It asks for promises to refuse every older
epoch; with a majority it publishes the result if anybody reports one, else it re-issues its last bytes with one full
fresh noise of its own (THEORY.md#one-token). Two majorities meet, so two results can never both become final.
"""

from __future__ import annotations

from node.protocols.effects import Answered, Log, Note, Received, Reply, Send, Stop, Tick
from node.protocols.exits import STALLED
from node.protocols.walk import claims, facts, issue, leases, memory, questions, results, trust
from node.protocols.walk.effects import Effect
from node.protocols.walk.messages import Fence, Locate, Located, Promise, Result, Why
from node.protocols.walk.state import (
    Context,
    Custody,
    Doubt,
    Ended,
    Inputs,
    Phase,
    Planned,
    State,
    Step,
    Watch,
)
from node.protocols.walk.values import NO_EPOCH, NO_HOP, Hop

MAX_DEFERRALS = 3  # then a user acts although somebody else got further: that one may not be able to
PROBES_BELIEVED = 1  # how often who took the token is believed without any progress; then others are asked
MAX_BELIEVED = 4  # how often anybody at all is
DOUBTED_LEASES = 3.0  # how long more votes are waited for when one user alone says that the walk has ended


# ---- what this user tells others -----------------------------------------------------------------------------


def on_locate(ctx: Context, state: State, event: Received[Locate], inputs: Inputs) -> Step:
    peer, durable = event.peer, state.durable
    answer = Located(
        facts.rank(ctx, state),
        facts.responsible(ctx, state),
        durable.promised,
        durable.taken.get(peer, NO_HOP),
        durable.given.get(peer, NO_HOP),
        durable.votes.get(peer, NO_EPOCH),
        durable.result,
        durable.final,
    )
    return state, [Reply(event.ticket, answer)]


def on_fence(ctx: Context, state: State, event: Received[Fence], inputs: Inputs) -> Step:
    """Vote: promise to refuse every older epoch, also as holder. Journaled before the answer leaves."""
    peer, ticket, fence = event
    promised = state.durable.promised
    why: Why | None = None
    effects: list[Effect] = []
    if fence.epoch[1] != peer or not trust.believable(ctx, state, fence.epoch):
        why = Why.MISBEHAVIOUR
    elif state.durable.rejoined or not state.checked:
        why = Why.UNCHECKED
    elif fence.epoch < promised:
        why = Why.FENCED
    elif fence.epoch > promised and not state.durable.final:
        state, effects = leases.give_up(ctx, state, fence.epoch, inputs)
    durable = state.durable
    answer = Promise(why is None, why, durable.promised, facts.rank(ctx, state), durable.result, durable.final)
    if why is Why.UNCHECKED:
        state, more = questions.ensure_checked(ctx, state, inputs)
        effects = effects + more
    return state, [*effects, Reply(ticket, answer)]


# ---- the watch -----------------------------------------------------------------------------------------------


def on_lease_over(ctx: Context, state: State, event: Tick, inputs: Inputs) -> Step:
    """The lease has ended."""
    if state.watch is not Watch.RESTING or (state.asked and not state.checked):
        return state._replace(watch_at=inputs.now + ctx.timing.locate_timeout_s), []  # an answer is still awaited
    if facts.in_hand(ctx, state) or state.phase in (Phase.PUBLISHING, Phase.DONE):
        return leases.rest(ctx, state, inputs, fresh=True), []
    custody = state.durable.custody
    given = isinstance(custody, Planned) and state.durable.acked and custody.next != ctx.me
    if state.durable.result is None and isinstance(custody, Planned) and given:
        query = state.query + 1
        state = state._replace(watch=Watch.PROBING, watch_at=None, query=query, asked=frozenset({custody.next}))
        return state, [Send(custody.next, query, Locate())]
    return questions.locate(ctx, state, inputs)


def on_probed(ctx: Context, state: State, event: Answered[Locate, Located], inputs: Inputs) -> Step:
    """The user the token went to knows of it or of a later hop: it is responsible from there on."""
    custody, answer = state.durable.custody, event.answer
    state = state if answer is None else claims.heard(state, event.peer, answer)
    if answer is None or answer.final or custody is None or answer.rank < custody.out_hop:
        return questions.locate(ctx, state, inputs)
    if answer.rank <= state.seen and state.believed >= PROBES_BELIEVED:
        return questions.locate(ctx, state, inputs)
    return leases.rest(ctx, _believing(state, answer.rank), inputs), []


def _believing(state: State, rank: Hop) -> State:
    """Somebody says that the token is alive. Progress proves it; a word alone is believed a few times in a row."""
    if rank <= state.seen:
        return state._replace(believed=state.believed + 1)
    return state._replace(seen=rank, believed=0, outvoted_since=None)


def on_located(ctx: Context, state: State, event: Answered[Locate, Located], inputs: Inputs) -> Step:
    """One more answer; somebody alive with the token, or any progress, ends the search, else the last one decides."""
    peer, answer = event.peer, event.answer
    state = state._replace(asked=state.asked - {peer})
    if answer is not None:
        state = claims.heard(state, peer, answer)
        if (final := claims.confirmed(ctx, state)) is not None:
            return results.learn(ctx, state, final, inputs)
        if not state.checked and memory.remembers_more(state, peer, answer):
            return state, [memory.old_disk(ctx, peer)]
        if _is_alive(ctx, state, answer):
            state = _believing(state, answer.rank)._replace(deferred=0, stalled_since=None)
            return leases.rest(ctx, state, inputs), []
    if state.asked:
        return state, []
    if len(state.to_ask) < len(ctx.others):
        return questions.ask_more(ctx, state, inputs)
    answers = state.heard.values()
    ended = state.durable.result is not None or any(answer.result is not None for answer in answers)
    needed = ctx.majority if ended else max(ctx.majority, ctx.min_live)
    if 1 + len(answers) < needed:
        return _too_few(ctx, state, needed, inputs)
    if state.durable.rejoined:
        return leases.rest(ctx, state._replace(stalled_since=None), inputs), []
    state = state._replace(checked=True)
    mine = (facts.rank(ctx, state), -ctx.me)
    others = [(answer.rank, -user) for user, answer in state.heard.items()]
    nobody_acts = state.believed >= MAX_BELIEVED or any(answer.final for answer in answers)
    if not nobody_acts and state.deferred < MAX_DEFERRALS and any(other > mine for other in others):
        return leases.rest(ctx, state._replace(deferred=state.deferred + 1), inputs), []
    return _bid(ctx, state, inputs)


def _is_alive(ctx: Context, state: State, answer: Located) -> bool:
    """Is the token with somebody who goes on with it? Whoever says that the run is over does not."""
    if answer.final:
        return False
    if answer.rank > max(state.seen, facts.furthest_sent(state.durable)):
        return True
    return answer.responsible and state.believed < MAX_BELIEVED


def _too_few(ctx: Context, state: State, needed: int, inputs: Inputs) -> Step:
    missing = ", ".join(ctx.names[user] for user in sorted(ctx.others - state.heard.keys()))
    text = f"the token may be lost; {needed} of {ctx.n} users must be alive to go on. Missing: {missing[:400]}"
    since = state.stalled_since if state.stalled_since is not None else inputs.now
    if inputs.now - since > ctx.timing.stall_timeout_s:
        return state, [Stop(STALLED, text + ". Start them, then start this user again.")]
    return leases.rest(ctx, state._replace(stalled_since=since), inputs, fresh=True), [Note("warning", text)]


def _bid(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Ask for promises. The last sent line must be in the log now: a re-issue will build on it and replace it."""
    seen = [state.durable.promised[0], *(answer.promised[0] for answer in state.heard.values())]
    bid = (max(seen) + 1, ctx.me)
    custody = state.durable.custody
    lines: list[Effect] = []
    if isinstance(custody, Planned | Ended) and not _sent_is_logged(state, custody):
        lines = [Log(custody.sent.line)]
    state, effects = leases.give_up(ctx, state, bid, inputs)
    state = state._replace(watch=Watch.FENCING, watch_at=None, bid=bid)
    state, fences = questions.ask(state._replace(promises={}), ctx.others, Fence(bid))
    return state, [*lines, *effects, *fences]


def _sent_is_logged(state: State, custody: Custody) -> bool:
    """Logged when its bytes left (surely so if they were acknowledged), or by an earlier bid with the same bytes."""
    left = state.durable.acked or (state.handed and state.phase is not Phase.IDLE)  # IDLE: perhaps given up unsent
    return left or custody.hop.epoch < state.bid


def on_promised(ctx: Context, state: State, event: Answered[Fence, Promise], inputs: Inputs) -> Step:
    """One more vote; the last one decides."""
    peer, answer = event.peer, event.answer
    state = state._replace(asked=state.asked - {peer})
    if answer is not None:
        state = state._replace(promises={**state.promises, peer: answer})
        if answer.granted:
            durable = state.durable
            state = state._replace(durable=durable._replace(votes={**durable.votes, peer: state.bid}))
    if state.asked:
        return state, []
    granted = {user: vote for user, vote in state.promises.items() if vote.granted}
    if 1 + len(granted) < ctx.majority:
        return _lost_bid(ctx, state, inputs)
    end = claims.reported(ctx, state, granted)
    doubt = None if end is None or end.sure else _doubt(state, end.result, inputs)
    state = state._replace(outvoted_since=None, doubt=doubt)
    if doubt is not None and inputs.now - doubt.since < DOUBTED_LEASES * ctx.timing.lease_s:
        note = Note("warning", "one user alone says that the walk has ended; waiting for more votes")
        return leases.rest(ctx, _catch_up(state), inputs, fresh=True), [note]
    state = state._replace(watch=Watch.RESTING, watch_at=inputs.now + ctx.timing.lease_s)
    if end is not None:
        return results.publish(ctx, state, end.result._replace(epoch=state.bid), inputs)
    further = max((vote.rank for vote in granted.values() if vote.result is None), default=NO_HOP)
    if further > facts.furthest_sent(state.durable) and state.believed < MAX_BELIEVED:
        return leases.rest(ctx, _believing(state, further), inputs), []  # it will see that nobody else acts
    state, lines = issue.take_unreliable_for_down(ctx, state, inputs)
    state, effects = issue.reissue(ctx, state, inputs)
    return state, [*lines, *effects]


def _doubt(state: State, result: Result, inputs: Inputs) -> Doubt:
    """Counted in time and not in bids: whoever reports the end may be there for a moment only, now and then."""
    known = state.doubt is not None and state.doubt.end == result.end
    return state.doubt if known and state.doubt is not None else Doubt(result.end, inputs.now)


def _catch_up(state: State) -> State:
    """Promise what the highest refusal says, so that the next bid is not too low again."""
    highest = max((vote.promised for vote in state.promises.values()), default=NO_EPOCH)
    if highest <= state.durable.promised:
        return state
    return state._replace(durable=state.durable._replace(promised=highest))


def _lost_bid(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Bid again after a while, for a bounded time: users whose disks are lost never vote again."""
    state = _catch_up(state)
    unchecked = {user for user, vote in state.promises.items() if vote.why is Why.UNCHECKED}
    parts = [
        ("not answering", ctx.others - state.promises.keys()),
        ("cannot vote (lost disk, or restarted)", unchecked),
    ]
    named = [f"{what}: {', '.join(ctx.names[user] for user in sorted(users))[:400]}" for what, users in parts if users]
    text = "; ".join(["no majority for taking the token up again", *named])
    since = inputs.now if state.outvoted_since is None else state.outvoted_since
    if inputs.now - since > ctx.timing.stall_timeout_s:
        return state, [Stop(STALLED, f"{text}. {ctx.majority} of {ctx.n} users must be able to vote.")]
    state = leases.rest(ctx, state._replace(outvoted_since=since), inputs, fresh=True)
    if unchecked:
        state = state._replace(watch_at=inputs.now + ctx.timing.locate_timeout_s)  # they may be asking around right now
    return state, [Note("warning", text)]
