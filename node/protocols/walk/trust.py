"""What is believed of what a peer says: nothing that no honest user can say.

Peers are honest but curious; even so, one of them with a bug or a grudge must not end a run for all. So its words are
held against what is possible before anything is journaled: an absurd number is taken as unsaid, a result that cannot be
read is none. What is possible and false, this does not find out (docs/THREAT_MODEL.md).
"""

from __future__ import annotations

from node.protocols.effects import Answered
from node.protocols.walk import visit
from node.protocols.walk.messages import (
    Answer,
    Declined,
    Fence,
    Handoff,
    Located,
    Offer,
    Promise,
    Publish,
    Published,
    Refused,
    Request,
    Result,
)
from node.protocols.walk.state import Context, Inputs, State
from node.protocols.walk.values import NO_EPOCH, NO_HOP, Epoch, Hop, Octets, TokenError

MAX_JUMP = 1 << 20  # epochs grow by one a bid: nobody honest is further ahead of anybody than this
END_BYTES = 16


def believable(ctx: Context, state: State, epoch: Epoch) -> bool:
    """Can honest users have come to this epoch? Else one message would raise all bids beyond every bound."""
    counter, issuer = epoch
    return 0 <= counter <= _known(state) + MAX_JUMP and 0 <= issuer < ctx.n


def _known(state: State) -> int:
    """The highest epoch this user knows of, or two others do: who slept too long catches up with them."""
    promised = state.durable.promised[0]
    return max(promised, sorted(state.heights.values())[-2]) if len(state.heights) > 1 else promised


def noted(state: State, peer: int, message: Request | Answer | None) -> State:
    """Remember who speaks of an epoch that is too high to believe."""
    match message:
        case Offer(hop) | Handoff(hop):
            epoch = hop.epoch
        case Fence(epoch):
            pass
        case Publish(result):
            epoch = result.epoch
        case Located() | Promise() | Declined() | Refused() | Published():
            epoch = message.promised
        case _:
            return state
    if epoch[0] <= state.durable.promised[0] + MAX_JUMP:
        return state
    return state._replace(heights={**state.heights, peer: epoch[0]})


def trusted(ctx: Context, state: State, event: Answered[Request, Answer], inputs: Inputs) -> Answered[Request, Answer]:
    """The event with an answer that can be believed."""
    answer = _trusted(ctx, state, event.answer, inputs)
    return event if answer is event.answer else event._replace(answer=answer)


def _trusted(ctx: Context, state: State, answer: Answer | None, inputs: Inputs) -> Answer | None:
    """An answer without what nobody honest says: it is taken as unsaid, and the rest as it stands."""
    match answer:
        case Located():
            result = readable(ctx, state, answer.result, inputs, bare=not answer.final)
            return answer._replace(
                rank=_trusted_hop(ctx, state, answer.rank),
                promised=answer.promised if believable(ctx, state, answer.promised) else NO_EPOCH,
                taken=_trusted_hop(ctx, state, answer.taken),
                given=_trusted_hop(ctx, state, answer.given),
                vote=answer.vote if believable(ctx, state, answer.vote) else NO_EPOCH,
                result=result,
                final=answer.final and result is not None,
            )
        case Promise():
            return answer._replace(
                rank=_trusted_hop(ctx, state, answer.rank),
                promised=answer.promised if believable(ctx, state, answer.promised) else NO_EPOCH,
                result=readable(ctx, state, answer.result, inputs),
            )
        case Declined() | Refused() | Published():
            return answer if believable(ctx, state, answer.promised) else answer._replace(promised=NO_EPOCH)
    return answer


def _trusted_hop(ctx: Context, state: State, hop: Hop) -> Hop:
    return hop if believable(ctx, state, hop.epoch) and 0 <= hop.step <= ctx.total + 1 else NO_HOP


def end_of(token: Octets, inputs: Inputs) -> bytes:
    """What is told to all is named by what it is: nobody can tell one end to some and another to others."""
    return inputs.digest(token)[:END_BYTES]


def readable(ctx: Context, state: State, result: Result | None, inputs: Inputs, *, bare: bool = False) -> Result | None:
    """A result that can be journaled and published again, or None. ``bare``: its value may have been left out."""
    if result is None or not believable(ctx, state, result.epoch) or len(result.end) != END_BYTES:
        return None
    if not ctx.release_all or (bare and not result.token):
        return result if not result.token else None
    try:
        visit.read_token(ctx, result.token)
    except TokenError:
        return None
    return result if end_of(result.token, inputs) == result.end else None
