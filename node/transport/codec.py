"""Protobuf to values and back, strictly: what does not fit the contract is a ``WireError``, never a guess."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import DecodeError

from node.protocols.walk.messages import (
    Accepted,
    Already,
    Declined,
    Granted,
    HandoffAnswer,
    Located,
    OfferAnswer,
    Promise,
    Publish,
    Published,
    Refused,
    Result,
    Why,
)
from node.protocols.walk.values import NO_HOP, Epoch, Hop
from node.wire.v1 import peer_pb2 as pb

CHUNK_BYTES: Final = 1024 * 1024
INLINE_BYTES: Final = 1024 * 1024
FIRST_BYTES: Final = 16 * 1024  # of a longer token, with its first message: protobuf copies them six times on their way
SECRET_BYTES: Final = 16
KEY_BYTES: Final = 32
HEALTH: Final = "grpc.health.v1.Health"
SERVICE: Final[str] = pb.DESCRIPTOR.services_by_name["Peer"].full_name

_WHY_OUT: Final = {why: getattr(pb, f"WHY_{why.name}") for why in Why}
_WHY_IN: Final = {number: why for why, number in _WHY_OUT.items()}


class WireError(ValueError):
    """A message outside the contract."""


class Frame:
    """The context every message carries, for one run."""

    def __init__(self, run_id: str, plan_hash: str) -> None:
        self.run_id = bytes.fromhex(run_id)
        self.plan_hash = bytes.fromhex(plan_hash)

    def context(self, hop: Hop = NO_HOP) -> Any:
        context = pb.Context()
        self.stamp(context, hop)
        return context

    def stamp(self, context: Any, hop: Hop) -> None:
        """Fill a message's own context in place: a message handed over is copied, which costs as much again."""
        context.run_id = self.run_id
        context.plan_hash = self.plan_hash
        context.epoch.counter, context.epoch.issuer = hop.epoch
        context.step = hop.step

    def check(self, context: Any) -> Hop:
        """The hop of a message of this run; another run or plan is refused."""
        if context.run_id != self.run_id or context.plan_hash != self.plan_hash:
            raise WireError("a message of another run or plan")
        return Hop(epoch_in(context.epoch), _bounded(context.step))


def _bounded(value: int) -> int:
    if not -1 <= value < 2**62:
        raise WireError("a number out of range")
    return value


def epoch_in(message: Any) -> Epoch:
    return _bounded(message.counter), _bounded(message.issuer)


def epoch_out(epoch: Epoch) -> Any:
    return pb.Epoch(counter=epoch[0], issuer=epoch[1])


def request_out(message: Any) -> bytes:
    """For gRPC: a ``HopRequest``, or one that is bytes already (a chunk)."""
    return message if isinstance(message, bytes) else message.SerializeToString()


def request_in(data: bytes) -> Any:
    return message_in(pb.HopRequest, data)


def message_in(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError:
        raise WireError("not a request of this protocol") from None


def question_in(data: bytes) -> Any:
    """An offer, or the first message of a hand-over."""
    request = request_in(data)
    if request.WhichOneof("body") not in ("offer", "handoff"):
        raise WireError("an offer or a hand-over was expected")
    return request


def piece_bytes(size: int) -> int:
    """How long the pieces of so many bytes are: all alike, so that none is sent for the few bytes left."""
    return -(-size // max(1, size // CHUNK_BYTES))


def chunk_head(frame: Frame, hop: Hop, size: int) -> bytes:
    """What stands in front of the data in a chunk's message. The data comes last, so that protobuf, which would copy it
    four times, writes only what is before it; this head goes in front of every chunk of this hop and size."""
    message = pb.HopRequest()
    frame.stamp(message.context, hop)
    data = _field_head(pb.Chunk, "data", size)
    whole: bytes = message.SerializeToString() + _field_head(pb.HopRequest, "chunk", len(data) + size) + data
    return whole


def _field_head(message: Any, name: str, size: int) -> bytes:
    """Number and length of a field that holds ``size`` bytes, as protobuf writes them."""
    number = message.DESCRIPTOR.fields_by_name[name].number
    return bytes([number << 3 | 2]) + _varint(size)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the high bit says that more follow."""
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def chunk_in(data: bytes, head: bytes, size: int) -> bytes | memoryview:
    """The data of a chunk: behind the head that was expected, or wherever protobuf finds it."""
    if len(data) == len(head) + size and data.startswith(head):
        return memoryview(data)[len(head) :]
    found: bytes = request_in(data).chunk.data
    return found


def _hop_in(message: Any) -> Hop:
    return Hop(epoch_in(message.epoch), _bounded(message.step))


def _hop_out(hop: Hop) -> Any:
    return pb.Hop(epoch=epoch_out(hop.epoch), step=hop.step)


def _why_in(number: int) -> Why:
    if number not in _WHY_IN:
        raise WireError("an unknown reason")
    return _WHY_IN[number]


def _sized(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise WireError("a secret of the wrong size")
    return data


def hop_answer_out(frame: Frame, hop: Hop, serial: int, answer: OfferAnswer | HandoffAnswer) -> Any:
    message = pb.HopAnswer(serial=serial)
    frame.stamp(message.context, hop)
    match answer:
        case Granted(grant):
            message.granted.grant = grant
        case Already():
            message.already.SetInParent()
        case Accepted(grant):
            message.accepted.grant = grant
            message.accepted.SetInParent()
        case Declined(why, promised):
            message.declined.MergeFrom(pb.Declined(why=_WHY_OUT[why], promised=epoch_out(promised)))
        case Refused(why, promised):
            message.refused.MergeFrom(pb.Refused(why=_WHY_OUT[why], promised=epoch_out(promised)))
    return message


def hop_answer_in(message: Any) -> OfferAnswer | HandoffAnswer:
    match message.WhichOneof("body"):
        case "granted":
            return Granted(_sized(message.granted.grant, SECRET_BYTES))
        case "already":
            return Already()
        case "accepted":
            grant = message.accepted.grant
            return Accepted(_sized(grant, SECRET_BYTES) if grant else b"")
        case "declined":
            return Declined(_why_in(message.declined.why), epoch_in(message.declined.promised))
        case "refused":
            return Refused(_why_in(message.refused.why), epoch_in(message.refused.promised))
    raise WireError("an empty answer")


def _result_in(message: Any) -> Result:
    return Result(epoch_in(message.epoch), _sized(message.end, SECRET_BYTES), message.token)


def _result_out(result: Result | None, *, with_value: bool = True) -> Any:
    if result is None:
        return None
    return pb.Result(epoch=epoch_out(result.epoch), end=result.end, token=result.token if with_value else b"")


def located_out(frame: Frame, answer: Located) -> Any:
    return pb.LocateAnswer(
        context=frame.context(),
        rank=_hop_out(answer.rank),
        responsible=answer.responsible,
        promised=epoch_out(answer.promised),
        taken=_hop_out(answer.taken),
        given=_hop_out(answer.given),
        vote=epoch_out(answer.vote),
        # Only the value of a final result is told to whoever asks; one still voted on goes into promises.
        result=_result_out(answer.result, with_value=answer.final),
        final=answer.final,
    )


def located_in(message: Any) -> Located:
    return Located(
        rank=_hop_in(message.rank),
        responsible=message.responsible,
        promised=epoch_in(message.promised),
        taken=_hop_in(message.taken),
        given=_hop_in(message.given),
        vote=epoch_in(message.vote),
        result=_result_in(message.result) if message.HasField("result") else None,
        final=message.final,
    )


def promise_out(frame: Frame, answer: Promise) -> Any:
    return pb.FenceAnswer(
        context=frame.context(),
        granted=answer.granted,
        why=_WHY_OUT[answer.why] if answer.why else pb.WHY_UNSPECIFIED,
        promised=epoch_out(answer.promised),
        rank=_hop_out(answer.rank),
        result=_result_out(answer.result),
        final=answer.final,
    )


def promise_in(message: Any) -> Promise:
    return Promise(
        granted=message.granted,
        why=None if message.why == pb.WHY_UNSPECIFIED else _why_in(message.why),
        promised=epoch_in(message.promised),
        rank=_hop_in(message.rank),
        result=_result_in(message.result) if message.HasField("result") else None,
        final=message.final,
    )


def publish_out(frame: Frame, message: Publish) -> list[Any]:
    """One message, or several when the token is long; the first carries everything but the rest of the token."""
    result, token = message.result, message.result.token
    pieces = [token[at : at + CHUNK_BYTES] for at in range(0, len(token), CHUNK_BYTES)] or [b""]
    first = pb.PublishRequest(
        context=frame.context(Hop(result.epoch, -1)),
        end=result.end,
        final=message.final,
        everybody=message.everybody,
        size=len(token),
        token=pieces[0],
    )
    return [first, *(pb.PublishRequest(token=piece) for piece in pieces[1:])]


def published_out(frame: Frame, answer: Published) -> Any:
    return pb.PublishAnswer(context=frame.context(), accepted=answer.accepted, promised=epoch_out(answer.promised))


def published_in(message: Any) -> Published:
    return Published(message.accepted, epoch_in(message.promised))
