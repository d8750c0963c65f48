from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Why(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WHY_UNSPECIFIED: _ClassVar[Why]
    WHY_FENCED: _ClassVar[Why]
    WHY_DONE: _ClassVar[Why]
    WHY_BUSY: _ClassVar[Why]
    WHY_NO_GRANT: _ClassVar[Why]
    WHY_UNFIT: _ClassVar[Why]
    WHY_MISBEHAVIOUR: _ClassVar[Why]
    WHY_UNCHECKED: _ClassVar[Why]
WHY_UNSPECIFIED: Why
WHY_FENCED: Why
WHY_DONE: Why
WHY_BUSY: Why
WHY_NO_GRANT: Why
WHY_UNFIT: Why
WHY_MISBEHAVIOUR: Why
WHY_UNCHECKED: Why

class Epoch(_message.Message):
    __slots__ = ("counter", "issuer")
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    counter: int
    issuer: int
    def __init__(self, counter: _Optional[int] = ..., issuer: _Optional[int] = ...) -> None: ...

class Context(_message.Message):
    __slots__ = ("run_id", "plan_hash", "epoch", "step")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PLAN_HASH_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    run_id: bytes
    plan_hash: bytes
    epoch: Epoch
    step: int
    def __init__(self, run_id: _Optional[bytes] = ..., plan_hash: _Optional[bytes] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ..., step: _Optional[int] = ...) -> None: ...

class Hop(_message.Message):
    __slots__ = ("epoch", "step")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    step: int
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., step: _Optional[int] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Handoff(_message.Message):
    __slots__ = ("grant", "key", "size", "token")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    grant: bytes
    key: bytes
    size: int
    token: bytes
    def __init__(self, grant: _Optional[bytes] = ..., key: _Optional[bytes] = ..., size: _Optional[int] = ..., token: _Optional[bytes] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class HopRequest(_message.Message):
    __slots__ = ("context", "serial", "offer", "handoff", "chunk")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    HANDOFF_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    context: Context
    serial: int
    offer: Offer
    handoff: Handoff
    chunk: Chunk
    def __init__(self, context: _Optional[_Union[Context, _Mapping]] = ..., serial: _Optional[int] = ..., offer: _Optional[_Union[Offer, _Mapping]] = ..., handoff: _Optional[_Union[Handoff, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ...) -> None: ...

class Granted(_message.Message):
    __slots__ = ("grant",)
    GRANT_FIELD_NUMBER: _ClassVar[int]
    grant: bytes
    def __init__(self, grant: _Optional[bytes] = ...) -> None: ...

class Already(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Declined(_message.Message):
    __slots__ = ("why", "promised")
    WHY_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    why: Why
    promised: Epoch
    def __init__(self, why: _Optional[_Union[Why, str]] = ..., promised: _Optional[_Union[Epoch, _Mapping]] = ...) -> None: ...

class Accepted(_message.Message):
    __slots__ = ("grant",)
    GRANT_FIELD_NUMBER: _ClassVar[int]
    grant: bytes
    def __init__(self, grant: _Optional[bytes] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("why", "promised")
    WHY_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    why: Why
    promised: Epoch
    def __init__(self, why: _Optional[_Union[Why, str]] = ..., promised: _Optional[_Union[Epoch, _Mapping]] = ...) -> None: ...

class HopAnswer(_message.Message):
    __slots__ = ("context", "serial", "granted", "already", "declined", "accepted", "refused")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    ALREADY_FIELD_NUMBER: _ClassVar[int]
    DECLINED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    context: Context
    serial: int
    granted: Granted
    already: Already
    declined: Declined
    accepted: Accepted
    refused: Refused
    def __init__(self, context: _Optional[_Union[Context, _Mapping]] = ..., serial: _Optional[int] = ..., granted: _Optional[_Union[Granted, _Mapping]] = ..., already: _Optional[_Union[Already, _Mapping]] = ..., declined: _Optional[_Union[Declined, _Mapping]] = ..., accepted: _Optional[_Union[Accepted, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("epoch", "end", "token")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    end: bytes
    token: bytes
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ..., end: _Optional[bytes] = ..., token: _Optional[bytes] = ...) -> None: ...

class LocateRequest(_message.Message):
    __slots__ = ("context",)
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    context: Context
    def __init__(self, context: _Optional[_Union[Context, _Mapping]] = ...) -> None: ...

class LocateAnswer(_message.Message):
    __slots__ = ("context", "rank", "responsible", "promised", "taken", "given", "vote", "result", "final")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    RESPONSIBLE_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    VOTE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    context: Context
    rank: Hop
    responsible: bool
    promised: Epoch
    taken: Hop
    given: Hop
    vote: Epoch
    result: Result
    final: bool
    def __init__(self, context: _Optional[_Union[Context, _Mapping]] = ..., rank: _Optional[_Union[Hop, _Mapping]] = ..., responsible: bool = ..., promised: _Optional[_Union[Epoch, _Mapping]] = ..., taken: _Optional[_Union[Hop, _Mapping]] = ..., given: _Optional[_Union[Hop, _Mapping]] = ..., vote: _Optional[_Union[Epoch, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ..., final: bool = ...) -> None: ...

class FenceRequest(_message.Message):
    __slots__ = ("context",)
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    context: Context
    def __init__(self, context: _Optional[_Union[Context, _Mapping]] = ...) -> None: ...

class FenceAnswer(_message.Message):
    __slots__ = ("context", "granted", "why", "promised", "rank", "result", "final")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    context: Context
    granted: bool
    why: Why
    promised: Epoch
    rank: Hop
    result: Result
    final: bool
    def __init__(self, context: _Optional[_Union[Context, _Mapping]] = ..., granted: bool = ..., why: _Optional[_Union[Why, str]] = ..., promised: _Optional[_Union[Epoch, _Mapping]] = ..., rank: _Optional[_Union[Hop, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ..., final: bool = ...) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("context", "end", "final", "everybody", "size", "token")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    EVERYBODY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    context: Context
    end: bytes
    final: bool
    everybody: bool
    size: int
    token: bytes
    def __init__(self, context: _Optional[_Union[Context, _Mapping]] = ..., end: _Optional[bytes] = ..., final: bool = ..., everybody: bool = ..., size: _Optional[int] = ..., token: _Optional[bytes] = ...) -> None: ...

class PublishAnswer(_message.Message):
    __slots__ = ("context", "accepted", "promised")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    context: Context
    accepted: bool
    promised: Epoch
    def __init__(self, context: _Optional[_Union[Context, _Mapping]] = ..., accepted: bool = ..., promised: _Optional[_Union[Epoch, _Mapping]] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("context",)
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    context: Context
    def __init__(self, context: _Optional[_Union[Context, _Mapping]] = ...) -> None: ...

class StatusAnswer(_message.Message):
    __slots__ = ("context", "phase", "final", "wall_time_s", "version")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    WALL_TIME_S_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    context: Context
    phase: str
    final: bool
    wall_time_s: float
    version: str
    def __init__(self, context: _Optional[_Union[Context, _Mapping]] = ..., phase: _Optional[str] = ..., final: bool = ..., wall_time_s: _Optional[float] = ..., version: _Optional[str] = ...) -> None: ...
