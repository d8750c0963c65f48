"""Who is calling: always from the certificate of the connection, against the keys the plan pins."""

from __future__ import annotations

import time
from collections.abc import Callable

from cryptography import x509

from node.config import Public
from node.pins import pin_of


class NotInPlanError(Exception):
    """The caller's key is not one the plan pins, or its certificate has expired."""


class Directory:
    """Certificates seen so far; parsing one costs more than a hop."""

    def __init__(self, public: Public, wall_time: Callable[[], float] = time.time) -> None:
        self._pins = public.pins
        self._names = public.plan.names
        self._wall_time = wall_time
        self._known: dict[bytes, tuple[int, float]] = {}

    def user(self, pem: bytes) -> int:
        """The user behind a certificate (PEM), or ``NotInPlanError``. Expiry is looked at every time."""
        if pem not in self._known:
            self._known[pem] = self._look_up(pem)
        index, expires_at = self._known[pem]
        if self._wall_time() >= expires_at:
            raise NotInPlanError(f"the certificate of {self._names[index]} has expired")
        return index

    def valid(self, pem: bytes) -> bool:
        """Is the certificate of a user found before still good?"""
        return self._wall_time() < self._known[pem][1]

    def _look_up(self, pem: bytes) -> tuple[int, float]:
        try:
            certificate = x509.load_pem_x509_certificate(pem)
            pin = pin_of(certificate)
        except ValueError:
            raise NotInPlanError("the certificate cannot be read") from None
        if pin not in self._pins:
            raise NotInPlanError("the key is not in the plan")
        return self._pins[pin], certificate.not_valid_after_utc.timestamp()


def pem_of(auth_context: dict[str, list[bytes]] | object) -> bytes:
    """The peer's certificate from a gRPC call's auth context."""
    values = auth_context.get("x509_pem_cert") if isinstance(auth_context, dict) else None
    if not values:
        raise NotInPlanError("no certificate")
    return bytes(values[0])
