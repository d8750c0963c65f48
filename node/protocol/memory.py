"""Does a peer remember more of this user than its own journal does? Then the disk is an old one, or lost."""

from __future__ import annotations

from node.protocol import exits
from node.protocol.effects import Stop
from node.protocol.messages import Located
from node.protocol.state import FINISH, UNROUTED, Context, Durable, State, Woke
from node.protocol.values import NO_HOP


def old_disk(ctx: Context, peer: int) -> Stop:
    text = f"{ctx.names[peer]} remembers more of this user than its journal does: an old or lost disk. Use --rejoin."
    return Stop(exits.OLD_DISK, text)


def woke(ctx: Context, durable: Durable) -> Woke:
    custody = durable.custody
    if custody is None:
        return Woke()
    in_hand = custody.next in (UNROUTED, FINISH, ctx.me) and not durable.ended
    return Woke(custody.out_hop, custody.next, custody.hop if in_hand else NO_HOP)


def remembers_more(state: State, peer: int, answer: Located) -> bool:
    """Hops only grow: nothing later than ``woke.sent`` was ever sent to anybody, and nothing is before the check; and
    while a user has the token in hand, nobody gets further in its epoch."""
    durable, woke = state.durable, state.woke
    if durable.rejoined:
        return False
    elsewhere = answer.taken == woke.sent > NO_HOP and woke.to != peer
    passed = answer.rank.epoch == woke.held.epoch and answer.rank > woke.held
    forgot = answer.given > durable.taken.get(peer, NO_HOP) or answer.vote > durable.promised
    return answer.taken > woke.sent or elsewhere or passed or forgot
