"""The parent of users of whom one is curious, and others may have a bug: ``python -m ...planted RUN``, for audits.

RUN/audit.json says which. A bug is refused unless the plan says INSECURE: users of a real run have another parent
(``node.many.zygote``), and in their code there is nothing to switch on. The curious user is an attacker and not a bug:
it keeps every copy of a token that reaches it, and fails before it journals the first ones: they are sent again.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from network_dp.noise_rule import NoiseRule
from network_dp.plan_reader import load
from node.hashing import digest_on_two_cores
from node.many import zygote
from node.noise import Source
from node.protocols.effects import Answered, Received
from node.protocols.walk import visit
from node.protocols.walk.messages import Handoff
from node.protocols.walk.state import Context, Planned
from node.tasks.base import Noise
from node.walk import Walk
from node.worker import BoundTask, NoiseDraw

Bug = Literal["none", "half_noise", "redrawn_noise", "skipped_duty"]
SETTING: Final = "audit.json"
COPIES: Final = "copies.jsonl"


@dataclass(frozen=True, slots=True)
class Setting:
    """``culprit`` skips its duty (other bugs are everybody's); ``copies``: how many the observer wants of each hop."""

    bug: Bug
    culprit: int
    observer: int
    copies: int

    def write(self, run: Path) -> None:
        values = {"bug": self.bug, "culprit": self.culprit, "observer": self.observer, "copies": self.copies}
        (run / SETTING).write_text(json.dumps(values) + "\n")


class _Idle(NoiseRule):
    """Owes nothing to anybody."""

    def missing(self, noise_units: int, last_seen: int) -> int:
        return 0


class _NotNowError(RuntimeError):
    """The curious user's stumble."""


def plant(run: Path) -> None:
    """Give users of this process's children what the setting says."""
    setting, plan = Setting(**json.loads((run / SETTING).read_text())), load(run / "plan.toml")
    if setting.bug != "none" and plan.insecure_seed is None:
        raise SystemExit("a bug is planted into insecure runs only (a plan with insecure_seed)")
    if setting.bug == "half_noise":
        _halve_noise()
    _wrap_walk(setting, run / "users" / plan.names[setting.observer] / "state" / COPIES)


def _halve_noise() -> None:
    whole = BoundTask.supplies

    def halved(self: BoundTask, source: Source) -> list[NoiseDraw]:
        return [NoiseDraw(Noise(draw.noise.units // 2), source) for draw in whole(self, source)]

    BoundTask.supplies = halved  # type: ignore[method-assign]


def _wrap_walk(setting: Setting, copies: Path) -> None:
    begin, step, seen = Walk.__init__, Walk.step, dict[Any, int]()

    def begun(self: Walk, ctx: Context, *more: Any) -> None:
        if setting.bug == "skipped_duty" and ctx.me == setting.culprit:
            ctx = replace(ctx, rule=_Idle(ctx.rule.full, ctx.rule.share, ctx.rule.by_ledger))
        begin(self, ctx, *more)

    def stepped(self: Walk, state: Any, event: Any, now: float) -> Any:
        if setting.copies and self._ctx.me == setting.observer and isinstance(event, Received):
            _keep(self._ctx, event.request, setting.copies, seen, copies)
        state, effects = step(self, state, event, now)
        if setting.bug == "redrawn_noise" and isinstance(event, Answered) and event.answer is None:
            state = _redrawn(self, state, event.request)
        return state, effects

    Walk.__init__, Walk.step = begun, stepped  # type: ignore[method-assign,assignment]


def _keep(ctx: Context, request: Any, wanted: int, seen: dict[Any, int], copies: Path) -> None:
    if not isinstance(request, Handoff):
        return
    seen[request.hop] = seen.get(request.hop, 0) + 1
    token = visit.read_arrival(ctx, request.token, request.hop.step)
    with copies.open("a") as file:
        file.write(json.dumps({"step": request.hop.step, "received": token.payload.tolist()}) + "\n")
    if seen[request.hop] < wanted:
        raise _NotNowError


def _redrawn(walk: Walk, state: Any, request: Any) -> Any:
    """The bytes of an unanswered hop with fresh noise in place of the old: what a journal is there to prevent."""
    custody, ctx = state.durable.custody, walk._ctx
    if not isinstance(request, Handoff) or not isinstance(custody, Planned) or not custody.units:
        return state
    token, fields = visit.read_token(ctx, custody.out), custody.sent.fields
    bare = token.payload - np.array(fields["noise"], token.payload.dtype)
    supply = ctx.worker.enough(walk._take_noise(), custody.units, walk._take_noise)
    mixed = ctx.worker.mix(bare, None, supply, custody.units, custody.hop.step, False)
    assert mixed.noise is not None
    out = token._replace(payload=mixed.payload).encode()
    sent = custody.sent._replace(fields={**fields, "noise": mixed.noise.tolist(), "sent": mixed.payload.tolist()})
    changed = custody._replace(out=out, out_digest=digest_on_two_cores(out), sent=sent)
    return state._replace(durable=state.durable._replace(custody=changed))


if __name__ == "__main__":
    plant(Path(sys.argv[1]))
    sys.exit(zygote.main())
