"""Crash on purpose at a given effect: ``--crash-at EFFECT[:N]``, in insecure runs only (fault injection)."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any

from network_dp.plan import Plan
from node.errors import BundleError
from node.protocols.effects import Send

_EFFECTS = ("Persist", "Log", "Reply", "Compute", "Turn", "Finished")
_SENDS = ("Offer", "Handoff", "Locate", "Fence", "Publish", "Block", "Shuffle", "Want")


@dataclass(slots=True)
class CrashAt:
    """Kills the process right before the n-th effect of a kind is carried out."""

    kind: str
    left: int

    @classmethod
    def parse(cls, text: str, plan: Plan) -> CrashAt:
        kind, _, number = text.partition(":")
        if plan.insecure_seed is None:
            raise BundleError("--crash-at is for insecure runs only (a plan with insecure_seed)")
        if kind not in _EFFECTS + _SENDS or (number and not number.isdigit()):
            raise BundleError(f"--crash-at {text}: EFFECT[:N] with EFFECT one of {', '.join(_EFFECTS + _SENDS)}")
        return cls(kind, int(number or 1))

    def __call__(self, effect: Any) -> None:
        name = type(effect.request).__name__ if isinstance(effect, Send) else type(effect).__name__
        if name != self.kind:
            return
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
