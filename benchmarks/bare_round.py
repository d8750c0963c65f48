"""A bare round: every user one gRPC stream over mutual TLS to one process that adds and answers. Nothing else: no pads,
no labels, no journal, no log, nobody that fails.

``python -m benchmarks.bare_round FOLDER PORT BYTES SECONDS``: as many processes as the provisioned run in FOLDER has
users, all forked from this one; prints rounds per second.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np

METHOD = "/bare.Round/Add"


def _files(folder: Path, index: int) -> tuple[bytes, bytes, bytes]:
    user = folder / "users" / f"user-{index}"
    key, certificate, ca = ((user / name).read_bytes() for name in ("key.pem", "cert.pem", "ca.pem"))
    return key, certificate, ca


async def _add(folder: Path, port: int, size: int, seconds: float, n: int) -> float:
    """The adder: one sum when all blocks are there, the same bytes for everybody."""
    waiting: list[tuple[Any, bytes]] = []
    rounds, over, began = 0, asyncio.Event(), [0.0]

    async def add(_: object, context: Any) -> None:
        nonlocal rounds
        while (data := await context.read()) is not grpc.aio.EOF:
            done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            waiting.append((done, data))
            if len(waiting) == n:
                began[0] = began[0] or time.monotonic()
                blocks = [np.frombuffer(block, np.uint64) for _, block in waiting]
                total = np.sum(blocks, axis=0, dtype=np.uint64).tobytes()
                rounds += 1
                if time.monotonic() - began[0] >= seconds:
                    over.set()
                answered, waiting[:] = [one for one, _ in waiting], []
                for one in answered:
                    one.set_result(total)
            await context.write(await done)

    server = grpc.aio.server()
    handler: Any = grpc.stream_stream_rpc_method_handler(add)
    server.add_registered_method_handlers("bare.Round", {"Add": handler})
    key, certificate, ca = _files(folder, 0)
    server.add_secure_port(f"127.0.0.1:{port}", grpc.ssl_server_credentials([(key, certificate)], ca, True))
    await server.start()
    await over.wait()
    return (rounds - 1) / (time.monotonic() - began[0])


async def _send(folder: Path, port: int, size: int, index: int) -> None:
    key, certificate, _ = _files(folder, index)
    root = (folder / "users" / "user-0" / "cert.pem").read_bytes()
    options = [("grpc.ssl_target_name_override", "user-0.users.network-dp.invalid"), ("grpc.enable_http_proxy", 0)]
    credentials = grpc.ssl_channel_credentials(root, key, certificate)
    channel = grpc.aio.secure_channel(f"ipv4:127.0.0.1:{port}", credentials, options=options)
    call: Any = channel.stream_stream(METHOD)(wait_for_ready=True)
    while True:
        await call.write(bytes(size))
        await call.read()


def main() -> None:
    folder, port, size, seconds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    n = len(list((folder / "users").iterdir()))
    users = []
    for index in range(1, n):
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(_send(folder, port, size, index))
            finally:
                os._exit(0)
        users.append(pid)
    try:
        print(asyncio.run(_add(folder, port, size, seconds, n - 1)), flush=True)
    finally:
        for pid in users:
            os.kill(pid, signal.SIGKILL)
        os._exit(0)


if __name__ == "__main__":
    main()
