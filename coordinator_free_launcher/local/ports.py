"""Free local ports for demos: below 32768, where outgoing connections do not pick theirs."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Sequence
from dataclasses import replace

from network_dp.plan import Plan, PlanError

LOW, HIGH = 20000, 32000


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """``count`` ports nobody listens on right now, from a random start on."""
    start = secrets.randbelow(HIGH - LOW)
    candidates = (LOW + (start + offset) % (HIGH - LOW) for offset in range(HIGH - LOW))
    found: list[int] = []
    for port in candidates:
        if len(found) == count:
            return found
        if _free(port):
            found.append(port)
    if len(found) < count:
        raise PlanError(f"only {len(found)} free ports between {LOW} and {HIGH}, {count} are needed")
    return found


def with_free_ports(plan: Plan) -> Plan:
    """The plan with every user at a free port of this machine."""
    return at_ports(plan, free_ports(plan.n))


def at_ports(plan: Plan, ports: Sequence[int]) -> Plan:
    """The plan with its users at these ports (addresses are outside the plan's hash)."""
    users = tuple(
        replace(user, address=f"127.0.0.1:{port}", bind=None) for user, port in zip(plan.users, ports, strict=True)
    )
    return replace(plan, users=users)
