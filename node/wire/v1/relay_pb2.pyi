from node.wire.v1 import peer_pb2 as _peer_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("path", "at", "nonce", "body", "signature")
    PATH_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    path: _containers.RepeatedScalarFieldContainer[int]
    at: int
    nonce: bytes
    body: bytes
    signature: bytes
    def __init__(self, path: _Optional[_Iterable[int]] = ..., at: _Optional[int] = ..., nonce: _Optional[bytes] = ..., body: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("body", "signature", "broken")
    BODY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    BROKEN_FIELD_NUMBER: _ClassVar[int]
    body: bytes
    signature: bytes
    broken: int
    def __init__(self, body: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., broken: _Optional[int] = ...) -> None: ...

class Relayed(_message.Message):
    __slots__ = ("hop", "locate", "fence", "publish")
    HOP_FIELD_NUMBER: _ClassVar[int]
    LOCATE_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    hop: _peer_pb2.HopRequest
    locate: _peer_pb2.LocateRequest
    fence: _peer_pb2.FenceRequest
    publish: _peer_pb2.PublishRequest
    def __init__(self, hop: _Optional[_Union[_peer_pb2.HopRequest, _Mapping]] = ..., locate: _Optional[_Union[_peer_pb2.LocateRequest, _Mapping]] = ..., fence: _Optional[_Union[_peer_pb2.FenceRequest, _Mapping]] = ..., publish: _Optional[_Union[_peer_pb2.PublishRequest, _Mapping]] = ...) -> None: ...

class RelayedAnswer(_message.Message):
    __slots__ = ("hop", "locate", "fence", "publish")
    HOP_FIELD_NUMBER: _ClassVar[int]
    LOCATE_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    hop: _peer_pb2.HopAnswer
    locate: _peer_pb2.LocateAnswer
    fence: _peer_pb2.FenceAnswer
    publish: _peer_pb2.PublishAnswer
    def __init__(self, hop: _Optional[_Union[_peer_pb2.HopAnswer, _Mapping]] = ..., locate: _Optional[_Union[_peer_pb2.LocateAnswer, _Mapping]] = ..., fence: _Optional[_Union[_peer_pb2.FenceAnswer, _Mapping]] = ..., publish: _Optional[_Union[_peer_pb2.PublishAnswer, _Mapping]] = ...) -> None: ...
