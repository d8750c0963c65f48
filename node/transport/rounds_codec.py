"""Messages of anonymous rounds: protobuf to values and back. Sizes are the plan's; anything else is a ``WireError``.

A block's message has one size for all users of a round: every number is of fixed size and always there.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from node.protocols.rounds.labels import POINT_BYTES
from node.protocols.rounds.lives import MOST_OWN
from node.protocols.rounds.messages import BATCH, Answer, Batch, Block, Call, Outcome, Request, Shuffle, Taken, Want
from node.protocols.rounds.pads import LIFE_BYTES
from node.transport.codec import Frame, WireError, message_in
from node.wire.v1 import rounds_pb2 as pb

SERVICE: Final[str] = pb.DESCRIPTOR.services_by_name["Rounds"].full_name
_MEMBER: Final = struct.Struct(f"<I{LIFE_BYTES}s")
_USER: Final = struct.Struct("<I")
_OVERHEAD_BYTES: Final = 4096  # of a message beside its blocks, labels and roll


@dataclass(frozen=True, slots=True)
class Sizes:
    """What bounds every message of a run."""

    n: int
    block_bytes: int

    @property
    def message_bytes_max(self) -> int:
        batch = (self.n + 1) * (BATCH * POINT_BYTES + _USER.size)
        return 2 * self.block_bytes + 2 * self.n * _MEMBER.size + batch + _OVERHEAD_BYTES


class RoundsCodec:
    """For one run. The last roll and the last outcome are kept: of those, an adder and its users see the same again."""

    def __init__(self, frame: Frame, sizes: Sizes) -> None:
        self._frame = frame
        self._sizes = sizes
        self._context: bytes = frame.context().SerializeToString()
        self._roll: tuple[bytes, Mapping[int, bytes]] = (b"", {})
        self._outcome: tuple[Outcome | None, bytes] = (None, b"")

    # ---- out --------------------------------------------------------------------------------------------------

    def request_out(self, serial: int, request: Request) -> bytes:
        message = pb.RoundRequest(serial=serial)
        message.context.MergeFromString(self._context)
        match request:
            case Block(life, counter, promised, accepted, data, news, met, own):
                message.block.MergeFrom(
                    pb.Block(
                        life=life,
                        counter=counter,
                        promised=promised,
                        accepted=accepted,
                        data=data,
                        news=news,
                        met=met,
                        own=own,
                    )
                )
            case Shuffle(batch):
                message.batch.MergeFrom(_batch_out(batch))
            case Want(epoch, number):
                message.want.MergeFrom(pb.Want(epoch=epoch, number=number))
        return bytes(message.SerializeToString())

    def answer_out(self, serial: int, answer: Answer) -> bytes:
        """All users of a round get the same outcome: it is made once, and their serial numbers stand behind it."""
        if self._outcome[0] != answer or not isinstance(answer, Outcome):
            self._outcome = (answer if isinstance(answer, Outcome) else None, self._body_out(answer))
        return self._outcome[1] + bytes(pb.RoundAnswer(serial=serial).SerializeToString())

    def _body_out(self, answer: Answer) -> bytes:
        message = pb.RoundAnswer()
        message.context.MergeFromString(self._context)
        match answer:
            case Outcome():
                message.outcome.MergeFrom(_outcome_out(answer))
            case Shuffle(batch):
                message.batch.MergeFrom(_batch_out(batch))
            case Taken():
                message.taken.SetInParent()
        return bytes(message.SerializeToString())

    # ---- in ---------------------------------------------------------------------------------------------------

    def request_in(self, data: bytes) -> tuple[int, Request]:
        """Serial number and request."""
        message = message_in(pb.RoundRequest, data)
        self._frame.check(message.context)
        match message.WhichOneof("body"):
            case "block":
                return message.serial, self._block_in(message.block)
            case "batch":
                return message.serial, Shuffle(self._batch_in(message.batch))
            case "want":
                return message.serial, Want(_whole(message.want.epoch), _whole(message.want.number))
        raise WireError("an empty request")

    def answer_in(self, data: bytes) -> tuple[int, Answer]:
        message = message_in(pb.RoundAnswer, data)
        self._frame.check(message.context)
        match message.WhichOneof("body"):
            case "outcome":
                return message.serial, self._outcome_in(message.outcome)
            case "batch":
                return message.serial, Shuffle(self._batch_in(message.batch))
            case "taken":
                return message.serial, Taken()
        raise WireError("an empty answer")

    def _block_in(self, message: Any) -> Block:
        block = Block(
            message.life,
            _whole(message.counter),
            _whole(message.promised),
            _whole(message.accepted),
            self._sized(message.data),
            self._sized(message.news),
            message.met,
            message.own,
        )
        if len(block.met) not in (0, self._sizes.n * LIFE_BYTES):
            raise WireError("a table of lives of the wrong size")
        if len(block.own) % LIFE_BYTES or len(block.own) > MOST_OWN * LIFE_BYTES:
            raise WireError("lives of the wrong size")
        beside = block.news or block.met or block.own
        if len(block.life) != LIFE_BYTES or (block.counter == 0) != (not block.data) or (block.data and beside):
            raise WireError("neither a block nor a wish to take part")
        return block

    def _outcome_in(self, message: Any) -> Outcome:
        return Outcome(
            self._sized(message.total),
            self._call_in(message.call) if message.HasField("call") else None,
            self._user(message.adder),
            self._sized(message.news),
            _whole(message.promised),
            _whole(message.promises),
            _whole(message.accepted),
            _whole(message.accepts),
            message.final,
            message.old,
            self._batch_in(message.batch) if message.HasField("batch") else None,
        )

    def _call_in(self, message: Any) -> Call:
        roll: bytes = message.roll
        if roll != self._roll[0]:
            self._roll = roll, self._roll_in(roll)
        return Call(self._user(message.adder), _whole(message.counter), self._roll[1])

    def _roll_in(self, data: bytes) -> Mapping[int, bytes]:
        if len(data) % _MEMBER.size or len(data) > self._sizes.n * _MEMBER.size:
            raise WireError("a roll of the wrong size")
        members = list(_MEMBER.iter_unpack(data))
        roll = {self._user(user): life for user, life in members}
        if list(roll) != sorted(roll) or len(roll) != len(members):
            raise WireError("a roll out of order")
        return roll

    def _batch_in(self, message: Any) -> Batch:
        crowd_bytes, lists = message.crowd, message.lists
        if len(crowd_bytes) % _USER.size or len(crowd_bytes) > self._sizes.n * _USER.size or len(lists) > BATCH:
            raise WireError("a batch of the wrong size")
        crowd = tuple(self._user(user) for (user,) in _USER.iter_unpack(crowd_bytes))
        if any(len(one) != (len(crowd) + 1) * POINT_BYTES for one in lists):
            raise WireError("a list of the wrong size")
        return Batch(
            _whole(message.epoch),
            _whole(message.number),
            crowd,
            _whole(message.first),
            _whole(message.turns),
            tuple(lists),
        )

    def _sized(self, data: bytes) -> bytes:
        if len(data) not in (0, self._sizes.block_bytes):
            raise WireError("a block of the wrong size")
        return data

    def _user(self, value: int) -> int:
        if not 0 <= value < self._sizes.n:
            raise WireError("not a user of this run")
        return value


def _whole(value: int) -> int:
    if not 0 <= value < 2**63:
        raise WireError("a number out of range")
    return value


def _batch_out(batch: Batch) -> Any:
    return pb.Batch(
        epoch=batch.epoch,
        number=batch.number,
        crowd=b"".join(map(_USER.pack, batch.crowd)),
        first=batch.first,
        turns=batch.turns,
        lists=batch.lists,
    )


def _outcome_out(outcome: Outcome) -> Any:
    message = pb.Outcome(
        total=outcome.total,
        adder=outcome.adder,
        news=outcome.news,
        promised=outcome.promised,
        promises=outcome.promises,
        accepted=outcome.accepted,
        accepts=outcome.accepts,
        final=outcome.final,
        old=outcome.old,
    )
    if outcome.batch is not None:
        message.batch.MergeFrom(_batch_out(outcome.batch))
    if outcome.call is not None:
        roll = b"".join(_MEMBER.pack(user, life) for user, life in outcome.call.roll.items())
        message.call.MergeFrom(pb.Call(adder=outcome.call.adder, counter=outcome.call.counter, roll=roll))
    return message
