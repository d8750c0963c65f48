"""slow_link.py QUEUE DELAY_MS JITTER_MS LOSS: a slow, lossy cable for the packets of one netfilter queue.

For kernels without netem. Run inside the network namespace whose packets a rule sends to the queue
(``iptables -A OUTPUT -j NFQUEUE --queue-num QUEUE``). Each packet waits DELAY_MS, give or take JITTER_MS, and is then
let through, or dropped with probability LOSS. Packets never overtake each other. Prints "ready" when it begins.
"""

from __future__ import annotations

import os
import random
import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator

NETLINK_NETFILTER = 12
SOL_NETLINK, NETLINK_NO_ENOBUFS = 270, 5
NFNL_QUEUE = 3  # subsystem; the low byte of a message type is one of:
PACKET, VERDICT, CONFIG = 0, 1, 2
REQUEST, ACK = 1, 4
CONFIG_COMMAND, CONFIG_PARAMETERS, CONFIG_LENGTH = 1, 2, 3
BIND, COPY_METADATA = 1, 1
PACKET_HEADER, VERDICT_HEADER = 1, 2
DROP, ACCEPT = 0, 1
ALIGNED = ~3


def attribute(kind: int, body: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(body), kind) + body + bytes(-len(body) % 4)


class Queue:
    """One netfilter queue over netlink."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self.socket.bind((0, 0))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.setsockopt(SOL_NETLINK, NETLINK_NO_ENOBUFS, 1)
        self._configure(CONFIG_COMMAND, struct.pack(">BBH", BIND, 0, socket.AF_INET))
        self._configure(CONFIG_PARAMETERS, struct.pack(">IB", 0, COPY_METADATA))
        self._configure(CONFIG_LENGTH, struct.pack(">I", 1 << 16))

    def _send(self, kind: int, flags: int, body: bytes) -> None:
        payload = struct.pack(">BBH", 0, 0, self._number) + body
        header = struct.pack("=IHHII", 16 + len(payload), NFNL_QUEUE << 8 | kind, flags, 0, 0)
        self.socket.send(header + payload)

    def _configure(self, kind: int, body: bytes) -> None:
        self._send(CONFIG, REQUEST | ACK, attribute(kind, body))
        (code,) = struct.unpack_from("=i", self.socket.recv(1 << 16), 16)
        if code:
            raise OSError(-code, os.strerror(-code))

    def packets(self) -> Iterator[int]:
        """Numbers of the packets that have come."""
        data, at = self.socket.recv(1 << 16), 0
        while at + 16 <= len(data):
            length, kind = struct.unpack_from("=IH", data, at)
            if kind == NFNL_QUEUE << 8 | PACKET:
                yield self._packet_id(data, at + 20, at + length)
            at += (length + 3) & ALIGNED

    @staticmethod
    def _packet_id(data: bytes, at: int, end: int) -> int:
        while at < end:
            length, kind = struct.unpack_from("=HH", data, at)
            if kind & 0x7FFF == PACKET_HEADER:
                return int(struct.unpack_from(">I", data, at + 4)[0])
            at += (length + 3) & ALIGNED
        raise ValueError("a packet without a number")

    def decide(self, packet: int, verdict: int) -> None:
        self._send(VERDICT, REQUEST, attribute(VERDICT_HEADER, struct.pack(">II", verdict, packet)))


def main(number: int, delay_s: float, jitter_s: float, loss: float) -> None:
    queue = Queue(number)
    print("ready", flush=True)
    waiting: deque[tuple[float, int]] = deque()
    latest = 0.0
    while True:
        patience_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        if select.select([queue.socket], [], [], patience_s)[0]:
            for packet in queue.packets():
                latest = max(latest, time.monotonic() + delay_s + random.uniform(-jitter_s, jitter_s))
                waiting.append((latest, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            queue.decide(waiting.popleft()[1], DROP if random.random() < loss else ACCEPT)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]) / 1e3, float(sys.argv[3]) / 1e3, float(sys.argv[4]))
