"""A TCP proxy with bad habits, between a sender and a receiver: it delays, repeats, throttles, resets or swallows.

It sees ciphertext only; what it can do is what any network between two users can do.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from coordinator_free_launcher.local.ports import free_ports

CHUNK_BYTES = 16 * 1024


class Proxy:
    """Forwards 127.0.0.1:``port`` to ``target``; habits may be changed at any time, from any thread."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self.port = free_ports(1)[0]
        self.delay_s = 0.0  # before each piece
        self.bytes_per_s = float("inf")
        self.repeat_after = -1  # repeat the piece after so many; -1: never
        self.swallow = False  # take bytes from the sender, deliver none
        self.pieces = 0
        self.faults = 0
        self.connections = 0
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10.0)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", self.port))
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        for pair in self._pairs:
            for writer in pair:
                writer.transport.abort()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            there, to = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, to)
        self._pairs.add(pair)
        await asyncio.gather(self._pump(reader, to, forward=True), self._pump(there, writer, forward=False))
        self._pairs.discard(pair)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, forward: bool) -> None:
        try:
            while data := await reader.read(CHUNK_BYTES):
                if self.delay_s or self.bytes_per_s < float("inf"):
                    await asyncio.sleep(self.delay_s + len(data) / self.bytes_per_s)
                self.pieces += 1
                if self.swallow:
                    self.faults += 1
                    continue
                writer.write(data)
                if forward and 0 <= self.repeat_after < self.pieces:
                    self.repeat_after = -1
                    self.faults += 1
                    writer.write(data)
                await writer.drain()
        except OSError:
            pass  # the other end is gone: so is this one
        finally:
            writer.transport.abort()

    def reset(self) -> None:
        """RST on both sides of every connection, in the middle of whatever is on its way."""
        self._call(self._reset)

    def _reset(self) -> None:
        for pair in list(self._pairs):
            self.faults += 1
            for writer in pair:
                sock: Any = writer.get_extra_info("socket")
                with contextlib.suppress(OSError):  # closed meanwhile: its process is gone
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()

    def _call(self, work: Callable[[], None]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (work(), done.set()))
        assert done.wait(10.0)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
