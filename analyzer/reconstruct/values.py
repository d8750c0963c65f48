"""What the logged values say, line by line: conservation and public bounds (the noise they contain: ``draws``).

Values are looked at once, while a log streams by, and only sums stay (``ValueReport``). Together with
"what was sent is what was received" (lineage), step-by-step conservation gives the whole: the final token is, to the
last bit, the sum of all contributions, noises and cover elements of the accepted branch (THEORY.md#grid).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from network_dp.plan import Plan

Payload = list[int] | list[float]

_SMALL: Final = 1 << 62
_CLOSE: Final = 1e-12


class ValueFormatError(ValueError):
    """A payload that is not a list of numbers of the plan's length."""


def value_unit(plan: Plan) -> float:
    """Data units per logged integer: the grid for sums, 1 for SGD (float64) and for randomised response (counts)."""
    return (plan.mechanism.fixed_grid or plan.noise.grid or 1.0) if plan.task.additive else 1.0


def read_payload(value: Any, plan: Plan, exact: bool) -> Payload | None:
    """A logged payload as plain numbers: integers when ``exact``, else float64; None when there is none."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != plan.task.dimension:
        raise ValueFormatError(f"a payload must be a list of {plan.task.dimension} numbers")
    if exact:
        if set(map(type, value)) != {int}:
            raise ValueFormatError("a payload of this task must hold whole numbers")
        return value
    if not set(map(type, value)) <= {int, float}:
        raise ValueFormatError("a payload must hold numbers")
    return list(map(float, value))


def digest(payload: Payload | None) -> int:
    """64 bits that are equal exactly when the numbers are, bit for bit; 0 when there is no payload."""
    if payload is None:
        return 0
    if len(payload) == 1 and type(payload[0]) is int and abs(payload[0]) < _SMALL:
        return (2 * payload[0] + 1) % 2**64  # one number that fits is its own digest
    return 1 | int.from_bytes(hashlib.blake2b(repr(payload).encode(), digest_size=8).digest(), "little")


def text_digest(text: object) -> int:
    """64 bits of a tag, by Python's keyed hash: nobody can aim at a collision; 0 when there is none."""
    return 0 if text is None else hash(str(text)) % 2**64 | 1


class StepRule:
    """The public arithmetic of one step of a task: from the token received to the token sent."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.exact = plan.task.additive

    def mismatch(self, received: Payload, step: int, fields: Mapping[str, Payload | None], real: bool) -> float:
        """0 when ``sent`` follows bit for bit; else the largest difference relative to the size of the token."""
        parts = [fields["noise"], fields["contribution"] if real else None, fields["cover"]]
        sent = fields["sent"]
        assert sent is not None
        if self.exact:
            expected: Payload = received
            for part in parts:
                if part is not None:
                    expected = [a + b for a, b in zip(expected, part, strict=True)]
            if expected == sent:
                return 0.0
            return float(max(abs(a - b) for a, b in zip(expected, sent, strict=True)))
        return self._sgd_mismatch(received, step, parts, sent)

    def _sgd_mismatch(self, received: Payload, step: int, parts: Sequence[Payload | None], sent: Payload) -> float:
        """tau <- Pi(tau - eta (gradient + noise)) in float64, in the node's order of operations (THEORY.md#sgd)."""
        noise, gradient = parts[0], parts[1]
        token = np.array(received, dtype=np.float64)
        if noise is None and gradient is None:
            expected = token  # forwarded unchanged
        else:
            move = np.zeros(len(token)) if gradient is None else np.array(gradient, dtype=np.float64)
            if noise is not None:
                move = move + np.array(noise, dtype=np.float64)
            expected = self._plan.task.moved(token, move, step)
        difference = float(np.max(np.abs(expected - np.array(sent, dtype=np.float64))))
        return difference / max(1e-300, float(np.max(np.abs(expected))), float(np.max(np.abs(token))))

    def is_close(self, mismatch: float) -> bool:
        """SGD only: equal up to the rounding of a differently compiled norm."""
        return not self.exact and mismatch <= _CLOSE


def out_of_bounds(plan: Plan, contribution: Payload) -> str | None:
    """Why a contribution breaks the public bounds its sensitivity relies on; None when it keeps them."""
    return plan.task.out_of_bounds(contribution, value_unit(plan), not plan.mechanism.additive)
