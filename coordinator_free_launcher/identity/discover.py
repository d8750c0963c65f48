"""Invitations on this network, announced and found by multicast DNS. What is announced is an address, not the code."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from zeroconf import ServiceBrowser, ServiceInfo, ServiceStateChange, Zeroconf

from coordinator_free_launcher.identity.channel import InvitationError

SERVICE: Final = "_network-dp._tcp.local."
LOOK_S: Final = 8.0


@contextmanager
def announced(name: str, addresses: list[str], port: int) -> Iterator[None]:
    """Say where the invitation to the plan ``name`` is, while in the block."""
    packed = [socket.inet_aton(address) for address in addresses]
    info = ServiceInfo(SERVICE, f"{name}-{port}.{SERVICE}", port, addresses=packed, server=f"{name}-{port}.local.")
    zeroconf = Zeroconf()
    try:
        zeroconf.register_service(info)
        yield
    finally:
        zeroconf.close()


def find(look_s: float = LOOK_S) -> tuple[str, int]:
    """The one invitation on this network."""
    found: dict[str, tuple[str, int]] = {}
    seen = threading.Event()

    def changed(zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        info = zeroconf.get_service_info(service_type, name) if state_change is ServiceStateChange.Added else None
        if info is not None and info.port is not None and info.parsed_addresses():
            found[name] = (info.parsed_addresses()[0], info.port)
            seen.set()

    zeroconf = Zeroconf()
    try:
        ServiceBrowser(zeroconf, SERVICE, handlers=[changed])
        seen.wait(look_s)
    finally:
        zeroconf.close()
    if len(found) != 1:
        places = ", ".join(f"{host}:{port}" for host, port in found.values()) or "none"
        raise InvitationError(f"invitations found on this network: {places}; say which with --at HOST:PORT")
    return next(iter(found.values()))
