from node.wire.v1 import peer_pb2 as _peer_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Block(_message.Message):
    __slots__ = ("life", "counter", "promised", "accepted", "data", "news", "own", "met")
    LIFE_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    NEWS_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    MET_FIELD_NUMBER: _ClassVar[int]
    life: bytes
    counter: int
    promised: int
    accepted: int
    data: bytes
    news: bytes
    own: bytes
    met: bytes
    def __init__(self, life: _Optional[bytes] = ..., counter: _Optional[int] = ..., promised: _Optional[int] = ..., accepted: _Optional[int] = ..., data: _Optional[bytes] = ..., news: _Optional[bytes] = ..., own: _Optional[bytes] = ..., met: _Optional[bytes] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("epoch", "number", "crowd", "first", "turns", "lists")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CROWD_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    LISTS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    number: int
    crowd: bytes
    first: int
    turns: int
    lists: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, epoch: _Optional[int] = ..., number: _Optional[int] = ..., crowd: _Optional[bytes] = ..., first: _Optional[int] = ..., turns: _Optional[int] = ..., lists: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Want(_message.Message):
    __slots__ = ("epoch", "number")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    number: int
    def __init__(self, epoch: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class RoundRequest(_message.Message):
    __slots__ = ("context", "serial", "block", "batch", "want")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    context: _peer_pb2.Context
    serial: int
    block: Block
    batch: Batch
    want: Want
    def __init__(self, context: _Optional[_Union[_peer_pb2.Context, _Mapping]] = ..., serial: _Optional[int] = ..., block: _Optional[_Union[Block, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ..., want: _Optional[_Union[Want, _Mapping]] = ...) -> None: ...

class Call(_message.Message):
    __slots__ = ("adder", "counter", "roll")
    ADDER_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    ROLL_FIELD_NUMBER: _ClassVar[int]
    adder: int
    counter: int
    roll: bytes
    def __init__(self, adder: _Optional[int] = ..., counter: _Optional[int] = ..., roll: _Optional[bytes] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("total", "call", "adder", "news", "promised", "promises", "accepted", "accepts", "final", "old", "batch")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    ADDER_FIELD_NUMBER: _ClassVar[int]
    NEWS_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    PROMISES_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    OLD_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    total: bytes
    call: Call
    adder: int
    news: bytes
    promised: int
    promises: int
    accepted: int
    accepts: int
    final: bool
    old: bool
    batch: Batch
    def __init__(self, total: _Optional[bytes] = ..., call: _Optional[_Union[Call, _Mapping]] = ..., adder: _Optional[int] = ..., news: _Optional[bytes] = ..., promised: _Optional[int] = ..., promises: _Optional[int] = ..., accepted: _Optional[int] = ..., accepts: _Optional[int] = ..., final: bool = ..., old: bool = ..., batch: _Optional[_Union[Batch, _Mapping]] = ...) -> None: ...

class Taken(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RoundAnswer(_message.Message):
    __slots__ = ("context", "serial", "outcome", "batch", "taken")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    context: _peer_pb2.Context
    serial: int
    outcome: Outcome
    batch: Batch
    taken: Taken
    def __init__(self, context: _Optional[_Union[_peer_pb2.Context, _Mapping]] = ..., serial: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ..., taken: _Optional[_Union[Taken, _Mapping]] = ...) -> None: ...
