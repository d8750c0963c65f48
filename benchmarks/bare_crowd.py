"""A bare cold walk: a token between as many processes as there are users, to another of them at random each time, and
for every hop connect, handshake, one call, close. Nothing else: no journal, no log, no task, nobody that fails.

``python -m benchmarks.bare_crowd FOLDER HOPS PORT ...``: one process a port, all forked from this one, with the keys of
the provisioned run in FOLDER; prints how many seconds passed until all served, and then how many hops a second.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from benchmarks.bare_member import METHOD

TOKEN_BYTES = 100
SKIPPED = 0.2  # of the hops
_NEWS = struct.Struct("<qd")  # hops made, and when; no hop: somebody serves
_COUNT = struct.Struct("<q")


class Walker:
    """One process."""

    def __init__(self, folder: Path, index: int, ports: Sequence[int], hops: int, news: int) -> None:
        self._index, self._ports, self._hops, self._news = index, ports, hops, news
        mine = folder / "users" / f"user-{index}"
        key, certificate, authority = ((mine / name).read_bytes() for name in ("key.pem", "cert.pem", "ca.pem"))
        self._server_side = grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
        self._client_side = grpc.ssl_channel_credentials(authority, key, certificate)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        server = grpc.aio.server()
        handler: Any = grpc.unary_unary_rpc_method_handler(self._on_token)
        service, name = METHOD.strip("/").split("/")
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: handler}),))
        server.add_secure_port(f"127.0.0.1:{self._ports[self._index]}", self._server_side)
        await server.start()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._forward, 0)
        self._tell(0)
        await server.wait_for_termination()

    def _tell(self, hops: int) -> None:
        os.write(self._news, _NEWS.pack(hops, time.time()))

    async def _on_token(self, token: bytes, context: Any) -> bytes:
        (hops,) = _COUNT.unpack_from(token)
        if hops in (int(SKIPPED * self._hops), self._hops):
            self._tell(hops)
        if hops < self._hops:
            self._forward(hops)
        return b"ok"

    def _forward(self, hops: int) -> None:
        task = asyncio.get_running_loop().create_task(self._send(_COUNT.pack(hops + 1).ljust(TOKEN_BYTES, b"\0")))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, token: bytes) -> None:
        peer = random.choice([index for index in range(len(self._ports)) if index != self._index])
        name = f"user-{peer}.users.network-dp.invalid"
        options = [("grpc.ssl_target_name_override", name), ("grpc.use_local_subchannel_pool", 1)]
        target = f"ipv4:127.0.0.1:{self._ports[peer]}"
        async with grpc.aio.secure_channel(target, self._client_side, options=options) as channel:
            call: Any = channel.unary_unary(METHOD)
            await call(token)


def _hear(news: int) -> tuple[int, float]:
    found: tuple[int, float] = _NEWS.unpack(os.read(news, _NEWS.size))
    return found


def main(folder: Path, hops: int, ports: Sequence[int]) -> None:
    began = time.time()
    news_in, news_out = os.pipe()
    gc.freeze()
    pids: list[int] = []
    try:
        for index in range(len(ports)):
            pid = os.fork()
            if pid == 0:
                try:
                    asyncio.run(Walker(folder, index, ports, hops, news_out).run())
                finally:
                    os._exit(1)
            pids.append(pid)
        served_at = max(_hear(news_in)[1] for _ in pids)
        print(served_at - began, flush=True)
        os.kill(pids[0], signal.SIGUSR1)
        (first, start), (last, end) = _hear(news_in), _hear(news_in)
        print((last - first) / (end - start), flush=True)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    _folder, _hops, *_ports = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    main(Path(_folder), int(_hops), [int(port) for port in _ports])
