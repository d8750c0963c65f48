"""One process of a bare token ring: the least a transport can do, to measure against.

No identity checks, no exactly-once. Kinds: ``unary`` (one grpc.aio call a hop on a warm channel), ``synced`` (the same,
with one record on the disk a hop: all others have no durability), ``stream`` (one long grpc.aio stream, tokens in
chunks), ``kept`` (the same, using freed memory again), ``cold`` (a new channel, handshake and one unary call a hop) and
``tls`` (asyncio streams). The first member starts the token, writes down when it came back (``Seat.rounds``), and says
so when there were enough hops.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import struct
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

METHOD = "/bare.Ring/Pass"
STREAM = "/bare.Ring/Stream"
CHUNK_BYTES = 512 * 1024
TLS_BUFFER_BYTES = 1 << 26
_SIZE = struct.Struct("<Q")
TIME = struct.Struct("<d")  # seconds since 1970


@dataclass(frozen=True, slots=True)
class Seat:
    """Who a member is: its files and its successor, from a provisioned run's bundles."""

    folder: Path
    index: int
    ports: tuple[int, ...]
    size: int
    hops: int

    @property
    def rounds(self) -> Path:
        """Where the first member writes when it had the token: no two rings have the same ports."""
        return self.folder / f"rounds-{self.ports[0]}"

    @property
    def _names(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "users").iterdir())

    @property
    def mine(self) -> Path:
        return self.folder / "users" / self._names[self.index]

    @property
    def successor(self) -> int:
        return (self.index + 1) % len(self.ports)

    @property
    def next_name(self) -> str:
        return self._names[self.successor] + ".users.network-dp.invalid"

    @property
    def next_certificate(self) -> bytes:
        return (self.folder / "users" / self._names[self.successor] / "cert.pem").read_bytes()


class Member(ABC):
    """Counts rounds at the first member, and waits for its starter's word at its standard input."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self._rounds_seen = 0
        self._done = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def serve(self) -> None:
        """Listen."""

    @abstractmethod
    async def connect(self) -> None:
        """Reach the successor, where the kind keeps its connections."""

    @abstractmethod
    async def send(self, token: bytes) -> None:
        """One hop."""

    async def run(self) -> None:
        await self.serve()
        print("up", flush=True)
        await _word()
        await self.connect()
        print("connected", flush=True)
        await _word()
        if self.seat.index == 0:
            self._file = os.open(self.seat.rounds, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._mark()
            self.forward(bytes(self.seat.size))
            await self._done.wait()
            print("done", flush=True)
        await _word()

    def _mark(self) -> None:
        os.write(self._file, TIME.pack(time.time()))

    def forward(self, token: bytes) -> None:
        """Pass on what arrived; the first member ends the walk after enough hops."""
        task = asyncio.get_running_loop().create_task(self.send(token))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def arrived(self, token: bytes) -> None:
        if self.seat.index == 0:
            self._mark()
            self._rounds_seen += 1
            if self._rounds_seen * len(self.seat.ports) >= self.seat.hops:
                self._done.set()
                return
        self.forward(token)


async def _word() -> None:
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


# ---- gRPC ----------------------------------------------------------------------------------------------------


def _handler(method: str, handler: Any) -> grpc.GenericRpcHandler:
    service, name = method.strip("/").split("/")
    return grpc.method_handlers_generic_handler(service, {name: handler})


class Unary(Member):
    """A warm channel, one unary call a hop."""

    LIMITS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))

    async def serve(self) -> None:
        seat = self.seat
        key, certificate = (seat.mine / "key.pem").read_bytes(), (seat.mine / "cert.pem").read_bytes()
        authority = (seat.mine / "ca.pem").read_bytes()
        self._server = grpc.aio.server(options=list(self.LIMITS))
        unary: Any = grpc.unary_unary_rpc_method_handler(self._on_unary)
        stream: Any = grpc.stream_stream_rpc_method_handler(self._on_stream)
        self._server.add_generic_rpc_handlers((_handler(METHOD, unary), _handler(STREAM, stream)))
        credentials = grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
        self._server.add_secure_port(f"127.0.0.1:{seat.ports[seat.index]}", credentials)
        await self._server.start()
        self._credentials = grpc.ssl_channel_credentials(seat.next_certificate, key, certificate)

    def new_channel(self) -> grpc.aio.Channel:
        options = [
            *self.LIMITS,
            ("grpc.ssl_target_name_override", self.seat.next_name),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        target = f"ipv4:127.0.0.1:{self.seat.ports[self.seat.successor]}"
        return grpc.aio.secure_channel(target, self._credentials, options=options)

    async def connect(self) -> None:
        self._channel = self.new_channel()
        self._call: Any = self._channel.unary_unary(METHOD)
        await self._channel.channel_ready()

    async def send(self, token: bytes) -> None:
        await self._call(token)

    async def _on_unary(self, token: bytes, context: Any) -> bytes:
        self.arrived(token)
        return b"ok"

    async def _on_stream(self, pieces: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        left = 0
        async for piece in pieces:
            if left == 0:
                (left,) = _SIZE.unpack_from(piece)
                parts, piece = [], piece[_SIZE.size :]
            parts.append(piece)
            left -= len(piece)
            if left == 0:
                yield b"ok"
                self.arrived(b"".join(parts))


class Synced(Unary):
    """The same, with a record of the token on the disk before it goes on: what durability costs by itself."""

    RECORDS_BYTES = 1 << 22

    async def serve(self) -> None:
        await super().serve()
        self._journal = os.open(self.seat.mine / "bare-journal", os.O_RDWR | os.O_CREAT, 0o600)
        os.posix_fallocate(self._journal, 0, self.RECORDS_BYTES)
        self._at = 0

    def forward(self, token: bytes) -> None:
        os.pwrite(self._journal, token, self._at)
        os.fdatasync(self._journal)
        self._at = (self._at + len(token)) % (self.RECORDS_BYTES - len(token))
        super().forward(token)


class Stream(Unary):
    """One long stream on the warm channel, tokens in chunks, each token acknowledged."""

    async def connect(self) -> None:
        await super().connect()
        self._out: Any = self._channel.stream_stream(STREAM)()
        self._turn = asyncio.Lock()  # the token may come round before its last acknowledgement is read

    async def send(self, token: bytes) -> None:
        async with self._turn:
            await self._out.write(_SIZE.pack(len(token)) + token[:CHUNK_BYTES])
            for at in range(CHUNK_BYTES, len(token), CHUNK_BYTES):
                await self._out.write(token[at : at + CHUNK_BYTES])
            await self._out.read()


class Kept(Stream):
    """The same, with the C library asked to use freed blocks again, as our users ask it: the best bare stream."""

    async def connect(self) -> None:
        from node.many.memory import (
            keep_long_blocks,  # not above: loading ``node`` chooses gRPC's poller, for every kind
        )

        keep_long_blocks()
        await super().connect()


class StreamClosed(Unary):
    """Connect, handshake, one call, close: at every hop (one credentials object for all of them)."""

    async def connect(self) -> None:
        """Nothing is kept."""

    async def send(self, token: bytes) -> None:
        async with self.new_channel() as channel:
            call: Any = channel.unary_unary(METHOD)
            await call(token)


# ---- asyncio TLS ---------------------------------------------------------------------------------------------


class Tls(Member):
    """asyncio streams over mutual TLS, no answer to a hop."""

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.load_cert_chain(self.seat.mine / "cert.pem", self.seat.mine / "key.pem")
        context.load_verify_locations(self.seat.mine / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    async def serve(self) -> None:
        port = self.seat.ports[self.seat.index]
        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        self._server = await asyncio.start_server(self._on_peer, "127.0.0.1", port, ssl=context, limit=TLS_BUFFER_BYTES)

    async def connect(self) -> None:
        port = self.seat.ports[self.seat.successor]
        context = self._context(ssl.PROTOCOL_TLS_CLIENT)
        name = self.seat.next_name
        _, self._writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)

    async def send(self, token: bytes) -> None:
        self._writer.write(_SIZE.pack(len(token)) + token)
        await self._writer.drain()

    async def _on_peer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
                token = await reader.readexactly(size)
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            self.arrived(token)


KINDS = {"unary": Unary, "synced": Synced, "stream": Stream, "kept": Kept, "cold": StreamClosed, "tls": Tls}


async def _main(kind: str, seat: Seat) -> None:
    member: Member = KINDS[kind](seat)
    await member.run()
    # Nothing here outlives the ring: leaving at once leaves no half-closed call to complain about.
    os._exit(0)


if __name__ == "__main__":
    _kind, _folder, _size, _hops, _index, *_ports = sys.argv[1:]
    _seat = Seat(Path(_folder), int(_index), tuple(int(port) for port in _ports), int(_size), int(_hops))
    asyncio.run(_main(_kind, _seat))
