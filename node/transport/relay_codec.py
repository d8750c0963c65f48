"""Requests and answers of the walk as the body of a relayed message, strictly."""

from __future__ import annotations

from typing import Any

from node.protocols.walk.messages import Answer, Fence, Handoff, Locate, Offer, Publish, Request, Result
from node.protocols.walk.values import NO_HOP, Hop
from node.transport import codec
from node.transport.codec import Frame, WireError
from node.wire.v1 import peer_pb2 as pb
from node.wire.v1 import relay_pb2 as relay


def request_out(frame: Frame, request: Request) -> bytes:
    message = relay.Relayed()
    match request:
        case Offer(hop):
            frame.stamp(message.hop.context, hop)
            message.hop.offer.SetInParent()
        case Handoff(hop, grant, key, token):
            frame.stamp(message.hop.context, hop)
            head = message.hop.handoff
            head.grant, head.key, head.size, head.token = grant, key, len(token), bytes(token)
        case Locate():
            frame.stamp(message.locate.context, NO_HOP)
        case Fence(epoch):
            frame.stamp(message.fence.context, Hop(epoch, -1))
        case Publish():
            (whole,) = codec.publish_out(frame, request)  # relayed plans have no long tokens
            message.publish.CopyFrom(whole)
    return bytes(message.SerializeToString())


def request_in(frame: Frame, body: bytes, token_bytes: int) -> tuple[Request, Hop]:
    """The request, and the hop of its context."""
    message = codec.message_in(relay.Relayed, body)
    kind = message.WhichOneof("body")
    if kind is None:
        raise WireError("an empty message")
    part = getattr(message, kind)
    hop = frame.check(part.context)
    match kind:
        case "locate":
            return Locate(), hop
        case "fence":
            return Fence(hop.epoch), hop
        case "publish":
            return _publish(part, hop, token_bytes), hop
        case _:
            return _hop(part, hop, token_bytes), hop


def _publish(part: Any, hop: Hop, token_bytes: int) -> Publish:
    if part.size != len(part.token) or part.size not in (0, token_bytes) or len(part.end) != codec.SECRET_BYTES:
        raise WireError("a result of the wrong size")
    return Publish(Result(hop.epoch, part.end, part.token), part.final, part.everybody)


def _hop(part: Any, hop: Hop, token_bytes: int) -> Offer | Handoff:
    match part.WhichOneof("body"):
        case "offer":
            return Offer(hop)
        case "handoff":
            given = part.handoff
            if not given.size == len(given.token) == token_bytes or len(given.key) != codec.KEY_BYTES:
                raise WireError("a token of the wrong size")
            return Handoff(hop, given.grant, given.key, given.token)
    raise WireError("an offer or a hand-over was expected")


def answer_out(frame: Frame, request: Request, hop: Hop, answer: Answer) -> bytes:
    message = relay.RelayedAnswer()
    found: Any = answer
    match request:
        case Offer() | Handoff():
            message.hop.CopyFrom(codec.hop_answer_out(frame, hop, 0, found))
        case Locate():
            message.locate.CopyFrom(codec.located_out(frame, found))
        case Fence():
            message.fence.CopyFrom(codec.promise_out(frame, found))
        case Publish():
            message.publish.CopyFrom(codec.published_out(frame, found))
    return bytes(message.SerializeToString())


def answer_in(frame: Frame, request: Request, body: bytes) -> Answer:
    """The answer to ``request``; to another question it is none."""
    message = codec.message_in(relay.RelayedAnswer, body)
    wanted = {Offer: "hop", Handoff: "hop", Locate: "locate", Fence: "fence", Publish: "publish"}[type(request)]
    if message.WhichOneof("body") != wanted:
        raise WireError("an answer to another question")
    part: Any = getattr(message, wanted)
    frame.check(part.context)
    if isinstance(part, pb.HopAnswer):
        return codec.hop_answer_in(part)
    if isinstance(part, pb.LocateAnswer):
        return codec.located_in(part)
    return codec.promise_in(part) if isinstance(part, pb.FenceAnswer) else codec.published_in(part)
