"""What each other user saw of this one on the walk so far, as far as this one's own log can tell (THEORY.md#exposure).

A user knows which steps it held, from whom it had the token and to whom it gave it; who held the others it does not
know, nor who refused what others sent. Whoever looks more often sees no less. So a peer's exposure is at least that of
the steps known to be its own, and at most that of all steps not known to be somebody else's, and of all tokens that it
refused or may have refused. That holds for what the log shows so far: a fork not heard of yet is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from network_dp import exposure
from network_dp.accounting import bounds
from network_dp.plan import Plan
from network_dp.promise import aim, noise_at_every_step
from network_dp.view import Record

ME, PEER, OTHERS = range(3)
REST: Final = ""  # no user's name: everybody this user never met


class Range(NamedTuple):
    """The epsilon that all logs together will show lies in it."""

    least: float
    most: float


@dataclass(slots=True)
class OwnWalk:
    """``take`` records in the order of the log."""

    held: dict[int, int] = field(default_factory=dict)  # my visits -> their steps; after a fork several at one step
    gave: set[int] = field(default_factory=set)  # the visits that contributed
    near: dict[int, dict[str, bool]] = field(default_factory=dict)  # steps before and after them -> who, and for sure?
    disturbed: bool = False  # the token was taken up again: what a peer saw before and after adds up otherwise
    lost: bool = False  # my own log may have forgotten a contribution
    final: bool = False

    def take(self, record: Record) -> None:
        fields = record.fields
        match record.kind:
            case "visit":
                self.disturbed |= record.epoch[0] > 0
                self.held[fields["visit"]] = record.step
                if (sender := fields["from"]) is not None:
                    self.near.setdefault(record.step - 1, {})[sender] = True
            case "sent" | "finish":
                self.held.setdefault(fields["visit"], record.step - ("to" in fields))
                if fields["real"]:
                    self.gave.add(fields["visit"])
                if "to" in fields:  # refused first, then sent elsewhere: both may have looked
                    self.near.setdefault(record.step, {}).setdefault(fields["to"], False)
            case "accepted":
                self.near.setdefault(record.step, {})[fields["to"]] = True
            case "abandoned":
                self.disturbed = True
            case "rejoined":
                self.lost = True
            case "result":
                self.disturbed |= record.epoch[0] > 0
                self.final = True

    @property
    def contributions(self) -> int:
        return len(self.gave)

    def exposures(self, plan: Plan, names: Iterable[str]) -> dict[str, tuple[float, float]]:
        """S towards each of these, at least and at most, and towards everybody never met under ``REST``."""
        most = float(self.contributions)  # each under its own noise, as if every message were seen
        if self.disturbed or not noise_at_every_step(plan):
            return dict.fromkeys((*names, REST), (0.0, most))
        last = max(self.held.values(), default=0)
        reached = plan.total_steps if self.final else min(plan.total_steps, last + 2)
        return {
            name: (self._seen(plan, name, reached, OTHERS), self._seen(plan, name, reached, PEER))
            for name in (*names, REST)
        }

    def _seen(self, plan: Plan, name: str, reached: int, unknown: int) -> float:
        """S towards one user if somebody held every step that I know nothing of."""
        walk = np.full(reached, unknown)
        gave, looked = np.zeros((2, reached), dtype=np.bool_)  # looked: before this step, without holding it
        for step, users in self.near.items():
            if 1 <= step <= reached:
                sure = users.get(name)
                walk[step - 1] = OTHERS if sure is None else PEER if sure else unknown
        for visit, step in self.held.items():
            if 1 <= step <= reached:
                walk[step - 1], gave[step - 1] = ME, visit in self.gave
                looked[step - 1] = name in self.near.get(step, ())  # it refused, and then I drew myself
        if unknown == PEER:  # a look is a step of the peer that adds nothing
            looked[1:] |= walk[:-1] == OTHERS  # it may have refused what somebody else sent
            looks = np.flatnonzero(looked)
            walk, gave = np.insert(walk, looks, PEER), np.insert(gave, looks, False)
        return _of_path(plan, walk, gave, self.final and plan.walk.release == "all")


def _of_path(plan: Plan, walk: NDArray[np.int64], gave: NDArray[np.bool_], released: bool) -> float:
    return float(next(exposure.rows(walk, OTHERS + 1, plan.task.accounting, released, gave))[PEER])


def ranges(plan: Plan, walk: OwnWalk, met: Iterable[str]) -> Mapping[str, Range] | None:
    """epsilon towards each user met, and under ``REST`` towards any other; None where one log tells nothing about one
    peer that it does not tell about all: on a ring, in rounds, for responses, after a lost disk."""
    if plan.walk.anonymous or walk.lost or not (plan.topology.drawn and plan.mechanism.by_exposure):
        return None
    found: dict[float, float] = {}

    def epsilon(seen: float) -> float:
        if seen not in found:
            found[seen] = bounds.exposure_epsilon(seen, plan.mechanism.size, plan.sensitivity, aim(plan))
        return found[seen]

    return {name: Range(*map(epsilon, seen)) for name, seen in walk.exposures(plan, met).items()}
