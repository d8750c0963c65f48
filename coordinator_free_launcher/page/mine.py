"""One user's own picture: a fold of the records of its own view log, without any I/O."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from coordinator_free_launcher.page.events import Event, fault_of
from coordinator_free_launcher.page.own_walk import OwnWalk
from network_dp.in_words import way
from network_dp.plan import Plan
from network_dp.view import Record

EVENTS: Final = 30
NUMBERS: Final = 8  # of a payload, on the screen


@dataclass(slots=True)
class Peer:
    """What this user knows of one other: hand-overs in both directions, and whether it was found up or down."""

    handed: int = 0
    got: int = 0
    link: str = "unknown"

    @property
    def met(self) -> bool:
        return bool(self.handed or self.got) or self.link != "unknown"


class Mine:
    """``take`` records in the order of the log; ``picture`` at any moment."""

    def __init__(self, plan: Plan, user: str, *, values: bool = False) -> None:
        """``values``: put numbers that depend on data into the picture."""
        self._plan, self._user, self._values = plan, user, values
        self._peers = {name: Peer() for name in plan.names if name != user}
        self._events: deque[Event] = deque(maxlen=EVENTS)
        self._last: dict[str, Any] = {}
        self._visit = -1
        self._withheld = plan.walk.anonymous and not values
        self.step = self.visits = self.contributions = 0
        self.walk = OwnWalk()
        self.final = False

    @property
    def met(self) -> list[str]:
        return [name for name, peer in self._peers.items() if peer.handed or peer.got]

    def take(self, record: Record) -> None:
        fields = record.fields
        self.walk.take(record)
        match record.kind:
            case "visit":
                self.visits += 1
                self.step = max(self.step, record.step)
                if (peer := self._peers.get(fields["from"])) is not None:
                    peer.got, peer.link = peer.got + 1, "up"
                self._keep(fields, "received")
            case "sent" | "finish":
                self._gave(fields)
            case "round":
                self.step = max(self.step, record.step)
            case "spoken" if self._values:  # when this user held the token is what a hidden walk hides
                self.visits += 1
                self.contributions += fields.get("contribution") is not None
                self._keep(fields, "received", "contribution", "noise", "sent")
            case "accepted":
                self._link(fields["to"], "up")
            case "peer":
                self._link(fields["peer"], fields["state"])
            case "result":
                self.final = True
        if (event := fault_of(self._user, record)) is not None:
            self._events.append(event)

    def _gave(self, fields: Any) -> None:
        if (peer := self._peers.get(fields.get("to"))) is not None:
            peer.handed += 1
        # Refused first, then sent elsewhere: one visit gives one contribution.
        if fields["real"] and fields["visit"] != self._visit:
            self.contributions += 1
            self._visit = fields["visit"]
        self._keep(fields, "contribution", "noise", "sent")

    def _link(self, name: Any, state: str) -> None:
        if name in self._peers:
            self._peers[name].link = state

    def _keep(self, fields: Any, *names: str) -> None:
        if self._values:
            for name in names:
                numbers = fields.get(name)
                self._last[name] = None if numbers is None else numbers[:NUMBERS]

    def picture(self) -> dict[str, Any]:
        plan = self._plan
        return {
            "view": "mine",
            "run": plan.run_id,
            "name": plan.name,
            "about": f"{plan.task.kind} {way(plan)}",
            "user": self._user,
            "step": min(self.step, plan.total_steps),
            "total": plan.total_steps,
            "visits": None if self._withheld else self.visits,
            "contributions": None if self._withheld else self.contributions,
            "final": self.final,
            "peers": [
                {"name": name, "handed": peer.handed, "got": peer.got, "link": peer.link}
                for name, peer in self._peers.items()
                if peer.met or len(self._peers) <= EVENTS
            ],
            "others": len(self._peers),
            "values": self._last if self._values else None,
            "events": list(self._events),
        }
