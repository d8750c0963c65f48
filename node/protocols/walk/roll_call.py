"""Before the first send or vote of a process: what do others remember of this user? Then its token may go on."""

from __future__ import annotations

from node.protocols.effects import Answered, Log, Note, Stop
from node.protocols.exits import STALLED
from node.protocols.walk import claims, facts, handover, issue, leases, memory, results
from node.protocols.walk.messages import Locate, Located
from node.protocols.walk.state import Arrived, Context, Inputs, Phase, State, Step
from node.protocols.walk.values import NO_EPOCH, NO_HOP, Hop
from node.protocols.walk.view_lines import peer_line


def on_located(ctx: Context, state: State, event: Answered[Locate, Located], inputs: Inputs) -> Step:
    """One more answer to the question of ``check`` (or of ``ask_missing``)."""
    peer, answer = event.peer, event.answer
    state = state._replace(asked=state.asked - {peer})
    if answer is not None:
        state = claims.heard(state, peer, answer)
    final = claims.confirmed(ctx, state)
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
    needed = max(ctx.majority, ctx.min_live) if facts.starts(ctx, state) else ctx.majority
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
        return state, [Stop(STALLED, text + ". Start them, then start this user again.")]
    wait_s = ctx.timing.back_off_s(state.tries) * (1.0 + inputs.dice.unit())
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
    if facts.starts(ctx, state):
        begun = any(a.rank > NO_HOP or a.promised > (0, ctx.me) for a in state.heard.values())
        if begun:  # somebody else started the walk meanwhile
            state = state._replace(phase=Phase.IDLE)
            return (state if state.finals else leases.rest(ctx, state, inputs, fresh=True)), []
        return issue.start_walk(ctx, state, (0, ctx.me), inputs)
    custody = state.durable.custody
    if state.phase is Phase.CHECKING and custody is not None:
        return state._replace(phase=Phase.READY), []
    return state, []


def _empty_handed(state: State) -> State:
    """The disk of a user that rejoined may be an old one again: a token that it has still to compute may have left long
    ago, under other noise. Whoever sent it takes it up again."""
    unsent = isinstance(state.durable.custody, Arrived)
    return state._replace(durable=state.durable._replace(custody=None), draft=None) if unsent else state


def _rejoin(ctx: Context, state: State, inputs: Inputs) -> Step:
    """A lost disk comes back as receiver only: never takes a hop that it may have taken before.

    Those are all up to the furthest anybody knows of; while somebody is missing, all of the epochs so far."""
    durable = state.durable
    promised = max((answer.promised for answer in state.heard.values()), default=NO_EPOCH)
    promised = max(promised, durable.promised)
    furthest = max((answer.rank for answer in state.heard.values()), default=NO_HOP)
    if furthest > durable.high_water:
        durable = durable._replace(high_water=furthest, high_water_digest=b"", high_water_from=facts.SOMEBODY)
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
