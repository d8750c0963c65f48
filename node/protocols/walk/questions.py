"""What a user asks others: where the token is, and what they remember of it. Their answers are events like any other
(``roll_call``, ``election``)."""

from __future__ import annotations

from node.protocols.effects import Send
from node.protocols.walk import claims, facts
from node.protocols.walk.messages import Fence, Locate
from node.protocols.walk.state import Context, Inputs, Phase, State, Step, Watch

FIRST_ASKED = 8  # how many users are asked first where the token is
CHECK_SAMPLE = 48
FIRST_LIFE_SAMPLE = 6  # a user whose life began with this process can only be a copy of an untouched disk


def check(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Before the first send or vote of this process: ask everybody. A peer that remembers more than the journal
    means an old or lost disk."""
    if state.phase is not Phase.IDLE or facts.starts(ctx, state):
        state = state._replace(phase=Phase.CHECKING)
    if state.check_until == 0.0:
        timeout_s = ctx.timing.start_timeout_s / 2 if facts.starts(ctx, state) else 0.0
        state = state._replace(check_until=inputs.now + timeout_s)
    # These questions take the place of a search that was under way: its lease must go on.
    watch_at = inputs.now + ctx.timing.lease_s if state.watch_at is None else state.watch_at
    state = state._replace(retry_at=None, watch=Watch.RESTING, watch_at=watch_at, heard={})
    if state.unheard:
        return ask(state, state.unheard, Locate())
    # A lost disk must hear of every promise it may have given: a sample is not enough for that.
    if state.durable.rejoined:
        count = ctx.n
    elif state.first_life and not facts.starts(ctx, state):
        count = FIRST_LIFE_SAMPLE
    else:
        count = ctx.n if ctx.n <= facts.CHECK_EVERYBODY_UP_TO else CHECK_SAMPLE
    return ask(state, some(sorted(ctx.others), count, inputs), Locate())


def ask_missing(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Too few users were alive: are those that were found down back? Asked again if the answers go astray."""
    again_at = inputs.now + ctx.timing.retry_max_s + 2.0 * ctx.timing.locate_timeout_s
    state = state._replace(watch=Watch.RESTING, heard={}, retry_at=again_at)
    return ask(state, frozenset(state.down), Locate())


def ask_about(ctx: Context, state: State, peer: int, inputs: Inputs) -> Step:
    """``peer`` says something that others must know of as well: ask a few of them, if this user has nothing to do."""
    if state.phase is not Phase.IDLE or state.watch is not Watch.RESTING or state.asked:
        return state, []
    return ask(state._replace(heard={}), some(sorted(ctx.others - {peer}), FIRST_ASKED, inputs), Locate())


def ensure_checked(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Somebody wants a vote of an idle user that has not asked around yet: do so now."""
    waiting = bool(state.asked) or state.retry_at is not None
    if state.checked or state.phase is not Phase.IDLE or waiting:
        return state, []
    return check(ctx, state, inputs)


def locate(ctx: Context, state: State, inputs: Inputs) -> Step:
    """Ask a few users, then more: in a large run that goes well the first few know of progress; nobody is flooded."""
    state = state._replace(watch=Watch.LOCATING, watch_at=None, heard={}, to_ask=frozenset(), query=state.query + 1)
    return ask_more(ctx, state, inputs)


def confirm(ctx: Context, state: State, peer: int, inputs: Inputs) -> Step:
    """``peer`` says that a result is final: search, and ask as many others first as must say so too."""
    if state.phase is not Phase.IDLE or state.asked:
        return state, []  # whoever answers what is asked already says so as well
    few = some(sorted(ctx.others - {peer}), claims.witnesses_needed(ctx), inputs)
    state, effects = ask(state._replace(heard={}), few, Locate())
    return state._replace(watch=Watch.LOCATING, watch_at=None), effects


def ask_more(ctx: Context, state: State, inputs: Inputs) -> Step:
    batch = some(sorted(ctx.others - state.to_ask), max(FIRST_ASKED, len(state.to_ask)), inputs)
    state = state._replace(asked=batch, to_ask=state.to_ask | batch)
    return state, [Send(peer, state.query, Locate()) for peer in sorted(batch)]


def ask(state: State, users: frozenset[int], request: Locate | Fence) -> Step:
    query = state.query + 1
    state = state._replace(query=query, asked=users, to_ask=users)
    return state, [Send(peer, query, request) for peer in sorted(users)]


def some(users: list[int], count: int, inputs: Inputs) -> frozenset[int]:
    """``count`` of the users, drawn uniformly."""
    left = list(users)
    return frozenset(left.pop(inputs.dice.below(len(left))) for _ in range(min(count, len(left))))
