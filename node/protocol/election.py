"""When the token may be lost: look for it, and only with a majority's promises take it up again.

Everybody who ever sent the token keeps its last bytes and watches. When the lease ends the user asks where it is;
the one with the furthest hop among the reachable acts, the others wait on. It asks for promises to refuse every older
epoch; with a majority it publishes the result if anybody reports one, else it re-issues its last bytes with one full
fresh noise of its own (THEORY.md#one-token). Two majorities meet, so two results can never both become final.
"""

from __future__ import annotations

from node.protocol import exits, handover, issue, memory, results, trust
from node.protocol.effects import Effect, Log, Note, Reply, Send, Stop
from node.protocol.messages import Fence, Locate, Located, Promise, Why
from node.protocol.state import (
    HOLDING,
    UNROUTED,
    Context,
    Custody,
    Durable,
    Inputs,
    Phase,
    State,
    Watch,
)
from node.protocol.values import NO_EPOCH, NO_HOP, Epoch, Hop
from node.protocol.view_lines import abandoned_line, peer_line
from node.protocol.visit import Step

FIRST_ASKED = 8  # how many users are asked first where the token is
CHECK_EVERYBODY_UP_TO = 64  # beyond, a restarted user asks a sample what it forgot: n users asking n would be a flood
CHECK_SAMPLE = 48
FIRST_LIFE_SAMPLE = 6  # a user whose life began with this process can only be a copy of an untouched disk
MAX_RENEWALS = 4  # the lease of a token that is seen alive grows up to this factor
MAX_DEFERRALS = 3  # then a user acts although somebody else got further: that one may not be able to
SOMEBODY = -1  # a lost disk does not know from whom it took the last hop
PROBES_BELIEVED = 1  # how often who took the token is believed without any progress; then others are asked
MAX_BELIEVED = 4  # how often anybody at all is
DOUBTED = 3  # how often more votes are waited for when one user alone says that the walk has ended


# ---- what this user tells others -----------------------------------------------------------------------------


def rank(ctx: Context, state: State) -> Hop:
    """The furthest hop this user could take up again."""
    durable = state.durable
    if durable.rejoined:
        return NO_HOP
    end = NO_HOP if durable.result is None else Hop(durable.result.epoch, ctx.total + 1)
    return max(end, _furthest_sent(durable))


def _furthest_sent(durable: Durable) -> Hop:
    return NO_HOP if durable.custody is None else durable.custody.out_hop


def responsible(ctx: Context, state: State) -> bool:
    """Is this user alive with a token of a valid epoch in hand (or about to start, or publishing)?"""
    custody = state.durable.custody
    current = custody is None or custody.hop.epoch >= state.durable.promised
    return (in_hand(ctx, state) and current) or state.phase in (Phase.PUBLISHING, Phase.DONE)


def in_hand(ctx: Context, state: State) -> bool:
    """Does this user surely hold the token? Not while its bytes may be with somebody else."""
    custody = state.durable.custody
    if state.phase in (Phase.COMPUTING, Phase.STALLED):
        return True
    return state.phase in HOLDING and (custody is None or not state.handed or custody.next == ctx.me)


def fresh(ctx: Context, durable: Durable) -> bool:
    """Nothing was journaled yet, so there is nothing to have forgotten (a lost disk is found out at start)."""
    return durable.mark.step < 0 and durable.promised == (0, ctx.start) and not durable.rejoined


def worth_asking(ctx: Context, state: State) -> bool:
    """May a few peers know that this user, new to all appearance, is the copy of an untouched disk? In a large crowd
    those that do are too few to be found by asking a few. The starter always asks: it must not start twice."""
    return ctx.n <= CHECK_EVERYBODY_UP_TO or starts(ctx, state)


def located(ctx: Context, state: State, peer: int, ticket: int) -> Step:
    durable = state.durable
    answer = Located(
        rank(ctx, state),
        responsible(ctx, state),
        durable.promised,
        durable.taken.get(peer, NO_HOP),
        durable.given.get(peer, NO_HOP),
        durable.votes.get(peer, NO_EPOCH),
        durable.result,
        durable.final,
    )
    return state, [Reply(ticket, answer)]


def fenced(ctx: Context, state: State, peer: int, ticket: int, fence: Fence, inputs: Inputs) -> Step:
    """Vote: promise to refuse every older epoch, also as holder. Journaled before the answer leaves."""
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
        state, effects = give_up(ctx, state, fence.epoch, inputs)
    durable = state.durable
    answer = Promise(why is None, why, durable.promised, rank(ctx, state), durable.result, durable.final)
    if why is Why.UNCHECKED:
        state, more = ensure_checked(ctx, state, inputs)
        effects = effects + more
    return state, [*effects, Reply(ticket, answer)]


def give_up(ctx: Context, state: State, epoch: Epoch, inputs: Inputs) -> Step:
    """A newer epoch rules: whatever this user has in hand of an older one is abandoned, and said so in its log."""
    custody = state.durable.custody
    live_branch = state.phase in HOLDING or state.phase in (Phase.HANDING, Phase.WAITING, Phase.PUBLISHING)
    effects: list[Effect] = []
    if live_branch and custody is not None and custody.hop.epoch < epoch:
        effects = [Log(abandoned_line(custody, epoch, inputs))]
    state = state._replace(
        durable=state.durable._replace(promised=epoch),
        phase=Phase.IDLE,
        watch=Watch.RESTING,
        draft=None,
        handed=True,
        grants={},
        standing={},
        retry_at=None,
        asked=frozenset(),
        publishing=frozenset(),
        stalled_since=None,
        deferred=0,
    )
    return _rest(ctx, state, inputs, fresh=True), effects


# ---- after a start: what do others remember? -----------------------------------------------------------------


def check(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Before the first send or vote of this process: ask everybody. A peer that remembers more than the journal
    means an old or lost disk."""
    if state.phase is not Phase.IDLE or starts(ctx, state):
        state = state._replace(phase=Phase.CHECKING)
    if state.check_until == 0.0:
        patience = ctx.timing.start_timeout_s / 2 if starts(ctx, state) else 0.0
        state = state._replace(check_until=inputs.now + patience)
    # These questions take the place of a search that was under way: its lease must go on.
    watch_at = inputs.now + ctx.timing.lease_s if state.watch_at is None else state.watch_at
    state = state._replace(retry_at=None, watch=Watch.RESTING, watch_at=watch_at, heard={})
    if state.unheard:
        return _ask(state, state.unheard, Locate())
    # A lost disk must hear of every promise it may have given: a sample is not enough for that.
    if state.durable.rejoined:
        count = ctx.n
    elif state.first_life and not starts(ctx, state):
        count = FIRST_LIFE_SAMPLE
    else:
        count = ctx.n if ctx.n <= CHECK_EVERYBODY_UP_TO else CHECK_SAMPLE
    return _ask(state, _some(sorted(ctx.others), count, inputs), Locate())


def ask_missing(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Too few users were alive: are those that were found down back? Asked again if the answers go astray."""
    again_at = inputs.now + ctx.timing.retry_max_s + 2.0 * ctx.timing.locate_timeout_s
    state = state._replace(watch=Watch.RESTING, heard={}, retry_at=again_at)
    return _ask(state, frozenset(state.down), Locate())


def ask_about(ctx: Context, state: State, peer: int, inputs: Inputs) -> Step:
    """``peer`` says something that others must know of as well: ask a few of them, if this user has nothing to do."""
    if state.phase is not Phase.IDLE or state.watch is not Watch.RESTING or state.asked:
        return state, []
    return _ask(state._replace(heard={}), _some(sorted(ctx.others - {peer}), FIRST_ASKED, inputs), Locate())


def ensure_checked(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Somebody wants a vote of an idle user that has not asked around yet: do so now."""
    waiting = bool(state.asked) or state.retry_at is not None
    if state.checked or state.phase is not Phase.IDLE or waiting:
        return state, []
    return check(ctx, state, inputs)


def starts(ctx: Context, state: State) -> bool:
    durable = state.durable
    return ctx.me == ctx.start and not durable.started and durable.mark.step < 0 and not durable.rejoined


def _some(users: list[int], count: int, inputs: Inputs) -> frozenset[int]:
    """``count`` of the users, drawn uniformly."""
    left = list(users)
    return frozenset(left.pop(inputs.dice.below(len(left))) for _ in range(min(count, len(left))))


def _ask(state: State, users: frozenset[int], request: Locate | Fence) -> Step:
    query = state.query + 1
    state = state._replace(query=query, asked=users, to_ask=users)
    return state, [Send(peer, query, request) for peer in sorted(users)]


def checked(ctx: Context, state: State, peer: int, answer: Located | None, inputs: Inputs) -> Step:
    """One more answer to the question of ``check`` (or of ``ask_missing``)."""
    state = state._replace(asked=state.asked - {peer})
    if answer is not None:
        state = results.heard(state, peer, answer)
    final = results.confirmed(ctx, state)
    if final is not None and (state.checked or not state.asked):
        return results.learn(ctx, state, final, inputs)
    if state.phase is Phase.STALLED:
        return handover.found(ctx, state, peer, answer is not None, inputs)
    if final is None and answer is not None and not state.checked and memory.remembers_more(state, peer, answer):
        return state, [memory.old_disk(ctx, peer)]
    if state.asked:
        return state, []
    if state.checked and state.unheard and state.phase is Phase.IDLE:
        return _rejoin(ctx, state, inputs)
    if state.checked and state.phase is Phase.IDLE:
        return state, []  # it was only asked about something
    missing = state.to_ask - state.heard.keys()
    needed = max(ctx.majority, ctx.min_live) if starts(ctx, state) else ctx.majority
    needed = min(needed, len(state.to_ask) // 2 + 1) if len(state.to_ask) < len(ctx.others) else needed
    enough = int(not state.durable.rejoined) + len(state.heard) >= needed  # a lost disk cannot speak for itself
    if enough and (not missing or inputs.now >= state.check_until):
        return _checked_enough(ctx, state, inputs)
    return _wait_for_more(ctx, state, missing, needed, inputs)


def _wait_for_more(ctx: Context, state: State, missing: frozenset[int], needed: int, inputs: Inputs) -> Step:
    """Ask again after a while. With a token in hand the wait is bounded: give up the process, never the token."""
    names = ", ".join(ctx.names[user] for user in sorted(missing))[:400]
    since = inputs.now if state.stalled_since is None else state.stalled_since
    if state.durable.custody is not None and inputs.now - since > ctx.timing.stall_timeout_s:
        text = f"{1 + len(state.heard)} users alive, {needed} needed; keeping the token. Not answering: {names}"
        return state, [Stop(exits.STALLED, text + ". Start them, then start this user again.")]
    wait_s = min(ctx.timing.retry_max_s, ctx.timing.retry_base_s * 2.0 ** min(state.tries, 16))
    wait_s *= 1.0 + inputs.dice.unit()
    state = state._replace(tries=state.tries + 1, retry_at=inputs.now + wait_s, stalled_since=since)
    return state, [Note("info", f"waiting for {len(missing)} users: {names}")]


def _checked_enough(ctx: Context, state: State, inputs: Inputs) -> Step:
    state = state._replace(checked=True, tries=0, stalled_since=None)
    if state.finals:  # the run is over: whoever can say so may leave soon
        state = state._replace(watch_at=inputs.now + ctx.timing.retry_base_s)
    if state.durable.rejoined:
        return _rejoin(ctx, _empty_handed(state), inputs)
    state, lines = _take_silent_for_down(ctx, state, inputs)
    state, effects = _go_on(ctx, state, inputs)
    return state, [*lines, *effects]


def _take_silent_for_down(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Who did not answer the roll-call gets no token for a while, unless its offers find that out. It bends the law
    of the next draws, so it is logged."""
    silent = frozenset() if ctx.topology.offer_tries > 1 else state.to_ask - state.heard.keys()
    down = {**state.down, **dict.fromkeys(silent, inputs.now + ctx.timing.down_ttl_s)}
    return state._replace(down=down), [Log(peer_line(ctx, user, "down", inputs)) for user in sorted(silent)]


def _go_on(ctx: Context, state: State, inputs: Inputs) -> Step:
    """The roll-call is over: start the walk, or send what is in hand."""
    if starts(ctx, state):
        begun = any(a.rank > NO_HOP or a.promised > (0, ctx.me) for a in state.heard.values())
        if begun:  # somebody else started the walk meanwhile
            return _rest(ctx, state._replace(phase=Phase.IDLE), inputs, fresh=True), []
        return issue.start_walk(ctx, state, (0, ctx.me), inputs)
    custody = state.durable.custody
    if state.phase is Phase.CHECKING and custody is not None:
        return handover.dispatch(ctx, state, inputs)
    return state, []


def _empty_handed(state: State) -> State:
    """The disk of a user that rejoined may be an old one again: a token that it has still to compute may have left long
    ago, under other noise. Whoever sent it takes it up again."""
    custody = state.durable.custody
    unsent = custody is not None and custody.next == UNROUTED
    return state._replace(durable=state.durable._replace(custody=None), draft=None) if unsent else state


def _rejoin(ctx: Context, state: State, inputs: Inputs) -> Step:
    """A lost disk comes back as receiver only: never takes a hop that it may have taken before.

    Those are all up to the furthest anybody knows of; while somebody is missing, all of the epochs so far."""
    durable = state.durable
    promised = max((answer.promised for answer in state.heard.values()), default=NO_EPOCH)
    promised = max(promised, durable.promised)
    furthest = max((answer.rank for answer in state.heard.values()), default=NO_HOP)
    if furthest > durable.mark:
        durable = durable._replace(mark=furthest, mark_digest=b"", mark_from=SOMEBODY)
    unheard = state.to_ask - state.heard.keys()
    barrier = state.barrier if state.unheard else Hop(promised, ctx.total + 1)
    state = state._replace(
        durable=durable._replace(promised=promised),
        phase=Phase.IDLE,
        unheard=unheard,
        barrier=barrier if unheard else NO_HOP,
        retry_at=inputs.now + ctx.timing.retry_max_s * (1.0 + inputs.dice.unit()) if unheard else None,
    )
    return state, []


def mark(state: State) -> Hop:
    """The furthest hop that this user has taken, or may have."""
    return max(state.durable.mark, state.barrier)


# ---- the watch -----------------------------------------------------------------------------------------------


def _rest(ctx: Context, state: State, inputs: Inputs, *, fresh: bool = False) -> State:
    """Look again after a lease (a little later each time the token is seen alive)."""
    if state.unheard and state.retry_at is None and state.phase is Phase.IDLE:
        state = state._replace(retry_at=inputs.now + ctx.timing.retry_max_s)
    rounds = 0 if fresh else state.watch_round + 1
    lease = ctx.timing.lease_s * min(MAX_RENEWALS, 2**rounds) * (1.0 + 0.25 * inputs.dice.unit())
    return state._replace(
        watch=Watch.RESTING, watch_at=inputs.now + lease, watch_round=min(rounds, 8), asked=frozenset()
    )


def watch(ctx: Context, state: State, inputs: Inputs) -> Step:
    """The lease has ended."""
    if state.watch is not Watch.RESTING or (state.asked and not state.checked):
        return state._replace(watch_at=inputs.now + ctx.timing.locate_timeout_s), []  # an answer is still awaited
    if in_hand(ctx, state) or state.phase in (Phase.PUBLISHING, Phase.DONE):
        return _rest(ctx, state, inputs, fresh=True), []
    custody = state.durable.custody
    if state.durable.result is None and custody is not None and state.durable.acked and custody.next != ctx.me:
        query = state.query + 1
        state = state._replace(watch=Watch.PROBING, watch_at=None, query=query, asked=frozenset({custody.next}))
        return state, [Send(custody.next, query, Locate())]
    return _locate(ctx, state, inputs)


def _locate(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Ask a few users, then more: in a large run that goes well the first few know of progress; nobody is flooded."""
    state = state._replace(watch=Watch.LOCATING, watch_at=None, heard={}, to_ask=frozenset(), query=state.query + 1)
    return _ask_more(ctx, state, inputs)


def confirm(ctx: Context, state: State, peer: int, inputs: Inputs) -> Step:
    """``peer`` says that a result is final: search, and ask as many others first as must say so too."""
    if state.phase is not Phase.IDLE or state.asked:
        return state, []  # whoever answers what is asked already says so as well
    few = _some(sorted(ctx.others - {peer}), results.witnesses_needed(ctx), inputs)
    state, effects = _ask(state._replace(heard={}), few, Locate())
    return state._replace(watch=Watch.LOCATING, watch_at=None), effects


def _ask_more(ctx: Context, state: State, inputs: Inputs) -> Step:
    batch = _some(sorted(ctx.others - state.to_ask), max(FIRST_ASKED, len(state.to_ask)), inputs)
    state = state._replace(asked=batch, to_ask=state.to_ask | batch)
    return state, [Send(peer, state.query, Locate()) for peer in sorted(batch)]


def probed(ctx: Context, state: State, peer: int, answer: Located | None, inputs: Inputs) -> Step:
    """The user the token went to knows of it or of a later hop: it is responsible from there on."""
    custody = state.durable.custody
    state = state if answer is None else results.heard(state, peer, answer)
    if answer is None or answer.final or custody is None or answer.rank < custody.out_hop:
        return _locate(ctx, state, inputs)
    if answer.rank <= state.seen and state.believed >= PROBES_BELIEVED:
        return _locate(ctx, state, inputs)
    return _rest(ctx, _believing(state, answer.rank), inputs), []


def _believing(state: State, rank: Hop) -> State:
    """Somebody says that the token is alive. Progress proves it; a word alone is believed a few times in a row."""
    if rank <= state.seen:
        return state._replace(believed=state.believed + 1)
    return state._replace(seen=rank, believed=0, outvoted_since=None)


def locating(ctx: Context, state: State, peer: int, answer: Located | None, inputs: Inputs) -> Step:
    """One more answer; somebody alive with the token, or any progress, ends the search, else the last one decides."""
    state = state._replace(asked=state.asked - {peer})
    if answer is not None:
        state = results.heard(state, peer, answer)
        if (final := results.confirmed(ctx, state)) is not None:
            return results.learn(ctx, state, final, inputs)
        if not state.checked and memory.remembers_more(state, peer, answer):
            return state, [memory.old_disk(ctx, peer)]
        if _is_alive(ctx, state, answer):
            state = _believing(state, answer.rank)._replace(deferred=0, stalled_since=None)
            return _rest(ctx, state, inputs), []
    if state.asked:
        return state, []
    if len(state.to_ask) < len(ctx.others):
        return _ask_more(ctx, state, inputs)
    answers = state.heard.values()
    ended = state.durable.result is not None or any(answer.result is not None for answer in answers)
    needed = ctx.majority if ended else max(ctx.majority, ctx.min_live)
    if 1 + len(answers) < needed:
        return _too_few(ctx, state, needed, inputs)
    if state.durable.rejoined:
        return _rest(ctx, state._replace(stalled_since=None), inputs), []
    state = state._replace(checked=True)
    mine = (rank(ctx, state), -ctx.me)
    others = [(answer.rank, -user) for user, answer in state.heard.items()]
    nobody_acts = state.believed >= MAX_BELIEVED or any(answer.final for answer in answers)
    if not nobody_acts and state.deferred < MAX_DEFERRALS and any(other > mine for other in others):
        return _rest(ctx, state._replace(deferred=state.deferred + 1), inputs), []
    return _bid(ctx, state, inputs)


def _is_alive(ctx: Context, state: State, answer: Located) -> bool:
    """Is the token with somebody who goes on with it? Whoever says that the run is over does not."""
    if answer.final:
        return False
    if answer.rank > max(state.seen, _furthest_sent(state.durable)):
        return True
    return answer.responsible and state.believed < MAX_BELIEVED


def _too_few(ctx: Context, state: State, needed: int, inputs: Inputs) -> Step:
    missing = ", ".join(ctx.names[user] for user in sorted(ctx.others - state.heard.keys()))
    text = f"the token may be lost; {needed} of {ctx.n} users must be alive to go on. Missing: {missing[:400]}"
    since = state.stalled_since if state.stalled_since is not None else inputs.now
    if inputs.now - since > ctx.timing.stall_timeout_s:
        return state, [Stop(exits.STALLED, text + ". Start them, then start this user again.")]
    return _rest(ctx, state._replace(stalled_since=since), inputs, fresh=True), [Note("warning", text)]


def _bid(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Ask for promises. The last sent line must be in the log now: a re-issue will build on it and replace it."""
    seen = [state.durable.promised[0], *(answer.promised[0] for answer in state.heard.values())]
    bid = (max(seen) + 1, ctx.me)
    custody = state.durable.custody
    lines: list[Effect] = []
    if custody is not None and custody.sent_line and not _sent_is_logged(state, custody):
        lines = [Log(custody.sent_line)]
    state, effects = give_up(ctx, state, bid, inputs)
    state = state._replace(watch=Watch.FENCING, watch_at=None, bid=bid)
    state, questions = _ask(state._replace(promises={}), ctx.others, Fence(bid))
    return state, [*lines, *effects, *questions]


def _sent_is_logged(state: State, custody: Custody) -> bool:
    """Logged when its bytes left (surely so if they were acknowledged), or by an earlier bid with the same bytes."""
    left = state.durable.acked or (state.handed and state.phase is not Phase.IDLE)  # IDLE: perhaps given up unsent
    return left or custody.hop.epoch < state.bid


def voted(ctx: Context, state: State, peer: int, answer: Promise | None, inputs: Inputs) -> Step:
    """One more vote; the last one decides."""
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
    end = results.reported(ctx, state, granted)
    if end is not None and not end.sure and state.believed < DOUBTED:
        return _lost_bid(ctx, state._replace(believed=state.believed + 1), inputs)
    state = state._replace(watch=Watch.RESTING, watch_at=inputs.now + ctx.timing.lease_s, outvoted_since=None)
    if end is not None:
        return results.publish(ctx, state, end.result._replace(epoch=state.bid), inputs)
    further = max((vote.rank for vote in granted.values() if vote.result is None), default=NO_HOP)
    if further > _furthest_sent(state.durable) and state.believed < MAX_BELIEVED:
        return _rest(ctx, _believing(state, further), inputs), []  # it will see that nobody else acts
    state, lines = issue.take_unreliable_for_down(ctx, state, inputs)
    state, effects = issue.reissue(ctx, state, inputs)
    return state, [*lines, *effects]


def _lost_bid(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Bid again after a while, for a bounded time: users whose disks are lost never vote again."""
    highest = max((vote.promised for vote in state.promises.values()), default=NO_EPOCH)
    if highest > state.durable.promised:
        state = state._replace(durable=state.durable._replace(promised=highest))
    unchecked = {user for user, vote in state.promises.items() if vote.why is Why.UNCHECKED}
    parts = [
        ("not answering", ctx.others - state.promises.keys()),
        ("cannot vote (lost disk, or restarted)", unchecked),
    ]
    named = [f"{what}: {', '.join(ctx.names[user] for user in sorted(users))[:400]}" for what, users in parts if users]
    text = "; ".join(["no majority for taking the token up again", *named])
    since = inputs.now if state.outvoted_since is None else state.outvoted_since
    if inputs.now - since > ctx.timing.stall_timeout_s:
        return state, [Stop(exits.STALLED, f"{text}. {ctx.majority} of {ctx.n} users must be able to vote.")]
    state = _rest(ctx, state._replace(outvoted_since=since), inputs, fresh=True)
    if unchecked:
        state = state._replace(watch_at=inputs.now + ctx.timing.locate_timeout_s)  # they may be asking around right now
    return state, [Note("warning", text)]
