"""Does a peer remember more of this user than its own journal does? Then the disk is an old one, or lost."""

from __future__ import annotations

from node.protocols.effects import Stop
from node.protocols.exits import OLD_DISK
from node.protocols.walk.messages import Located
from node.protocols.walk.state import NOBODY, AtBoot, Context, Durable, Planned, State
from node.protocols.walk.values import NO_HOP


def old_disk(ctx: Context, peer: int) -> Stop:
    text = f"{ctx.names[peer]} remembers more of this user than its journal does: an old or lost disk. Use --rejoin."
    return Stop(OLD_DISK, text)


def at_boot(ctx: Context, durable: Durable) -> AtBoot:
    custody = durable.custody
    end = NO_HOP if durable.result is None else ctx.end_hop(durable.result.epoch)
    if custody is None:
        return AtBoot(end=end)
    to = custody.next if isinstance(custody, Planned) else NOBODY
    in_hand = to in (NOBODY, ctx.me) and not durable.ended
    return AtBoot(custody.out_hop, to, custody.hop if in_hand else NO_HOP, end)


def remembers_more(state: State, peer: int, answer: Located) -> bool:
    """Hops only grow, the end of a walk included: nothing later than ``at_boot`` says was ever sent or told to
    anybody, nor is before the check; and while a user has the token in hand, nobody gets further in its epoch."""
    durable, at_boot = state.durable, state.at_boot
    if durable.rejoined:
        return False
    elsewhere = answer.taken == at_boot.sent > at_boot.end and at_boot.to != peer
    passed = answer.rank.epoch == at_boot.held.epoch and answer.rank > at_boot.held
    forgot = answer.given > durable.taken.get(peer, NO_HOP) or answer.vote > durable.promised
    return answer.taken > max(at_boot.sent, at_boot.end) or elsewhere or passed or forgot
