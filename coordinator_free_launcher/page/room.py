"""The room of a run on one machine: a fold of all users' records, without any I/O.

Files are read one after the other, so a record can be seen before the one that caused it. Records of the walk wait for
one more reading: whatever caused them has been written by then, and they are taken in the order of the walk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Final

from coordinator_free_launcher.page.costs import error_at
from coordinator_free_launcher.page.events import Event, fault_of
from network_dp.in_words import way
from network_dp.plan import Plan
from network_dp.view import Epoch, Record

TRAIL: Final = 60
EVENTS: Final = 30
POINTS: Final = 200  # of the estimate's curve
EDGES: Final = 1000
PLACED: Final = 200  # users of a graph that springs lay out; more stay on a circle
SPEED_S: Final = 3.0

Key = tuple[Epoch, int]
#: payload, contributions and cover elements to one number of the estimate
Estimate = Callable[[Sequence[float], int, int], float | None]


class Room:
    """``read`` what all logs have gained, ``picture`` at any moment."""

    def __init__(self, plan: Plan, estimate: Estimate | None = None) -> None:
        self._plan, self._estimate = plan, estimate
        self._hidden = plan.walk.anonymous  # nobody learns who holds the token, whoever looks at the room neither
        self._waiting: list[tuple[Key, int, Record]] = []
        self._newest: Key = ((0, 0), -1)  # of what was read
        self._at: Key = ((0, 0), -1)  # of what was taken
        self._holder: int | None = None
        self._hops = 0
        self._rounds = 0  # of a hidden walk, which shows no hops
        self._last_round: tuple[Epoch, int] = ((0, 0), -1)
        self._roll = list(range(plan.n))
        self._trail: deque[tuple[int, int, int]] = deque(maxlen=TRAIL)
        self._real: dict[int, tuple[int, Key]] = {}  # user -> its last contribution: visit, where
        self._contributions = 0
        self._cover = 0
        self._points: list[tuple[int, float, float]] = []
        self._speed: deque[tuple[float, int]] = deque()
        self._events: deque[Event] = deque(maxlen=EVENTS)
        self.final: set[str] = set()

    @property
    def step(self) -> int:
        return min(max(0, self._at[1]), self._plan.total_steps)  # anonymous rounds end one further

    def read(self, records: Iterable[tuple[str, Record]], now: float) -> None:
        """All that was read in one go, in the order of each log; ``now`` in seconds."""
        horizon, newest = self._newest, self._newest
        for name, record in records:
            user = self._plan.index(name)
            if (event := fault_of(name, record)) is not None:
                self._events.append(event)
            if record.kind in ("visit", "sent", "finish"):
                key = (record.epoch, record.step)
                self._waiting.append((key, user, record))
                newest = max(newest, key)
            elif record.kind == "abandoned":
                self._give_up(user, (record.epoch, record.step))
            elif record.kind == "round":
                self._hear(record)
            elif record.kind == "attendance":
                self._roll = sorted(self._plan.index(one) for one in record.fields["users"])
            elif record.kind == "result":
                self.final.add(name)
        self._newest = newest
        self._waiting.sort(key=lambda one: one[0])
        ready = [one for one in self._waiting if one[0] <= horizon or newest == horizon]
        self._waiting = self._waiting[len(ready) :]
        for key, user, record in ready:
            self._take(key, user, record)
        self._speed.append((now, self._rounds if self._hidden else self._hops))
        while len(self._speed) > 2 and now - self._speed[0][0] > SPEED_S:  # looks may be further apart than that
            self._speed.popleft()

    def _hear(self, record: Record) -> None:
        """One user's block for one call; a call is counted when the first block of it is seen."""
        call = (record.epoch, int(record.fields["counter"]))
        if call > self._last_round:
            self._last_round, self._rounds = call, self._rounds + 1
        self._at = max(self._at, (record.epoch, record.step))

    def _take(self, key: Key, user: int, record: Record) -> None:
        fields = record.fields
        if record.kind == "visit":
            if key >= self._at:
                self._at, self._holder = key, user
            return
        if record.kind == "sent" and fields["to"] in self._plan.names:
            self._hops += 1
            self._trail.append((self._hops, user, self._plan.index(fields["to"])))
        if fields["real"] and self._real.get(user, (None,))[0] != fields["visit"]:
            self._real[user] = (fields["visit"], key)
            self._contributions += 1
        cover = fields.get("cover")
        self._cover += round(sum(cover)) if cover else 0  # counts of cover elements, one a bucket
        if key >= self._at and (payload := fields.get("sent")):
            self._draw(payload)

    def _give_up(self, user: int, key: Key) -> None:
        """A contribution that left from the visit at ``key`` is on no branch that counts."""
        visit, sent = self._real.get(user, (0, ((0, 0), -1)))
        if sent in (key, (key[0], key[1] + 1)):
            self._real[user] = (visit, ((0, 0), -1))
            self._contributions -= 1

    def _draw(self, payload: Sequence[float]) -> None:
        """One more point of the estimate, if the last one is far enough behind."""
        last = self._points[-1][0] if self._points else 0
        due = (
            self.step - last >= self._plan.total_steps / POINTS
            or self.step < last
            or self.step == self._plan.total_steps
        )
        if self._estimate is None or not due or not self._contributions:
            return
        value, std = self._estimate(payload, self._contributions, self._cover), error_at(self._plan, self.step)
        if value is not None and std is not None:
            self._points = [*(point for point in self._points if point[0] < self.step), (self.step, value, std)]

    @cached_property
    def _edges(self) -> list[tuple[int, int]]:
        """Who can meet whom, where a plan lists it; more lines than this would be one grey disk."""
        index = self._plan.index
        pairs = {(index(user.name), index(peer)) for user in self._plan.users for peer in user.peers or ()}
        found = sorted(pair for pair in pairs if pair[0] < pair[1])
        return found if len(found) <= EDGES else []

    @cached_property
    def _places(self) -> list[tuple[float, float]] | None:
        """Where a graph's users stand, each number in -1 .. 1: peers near each other. None: on a circle."""
        if not self._edges or self._plan.n > PLACED:
            return None
        import networkx as nx

        drawn: nx.Graph[int] = nx.Graph()
        drawn.add_nodes_from(range(self._plan.n))
        drawn.add_edges_from(self._edges)
        found = nx.spring_layout(drawn, pos=nx.circular_layout(drawn), iterations=200)
        return list(zip(*(_across([found[user][axis] for user in found]) for axis in (0, 1)), strict=True))

    @property
    def hops_per_second(self) -> float:
        if len(self._speed) < 2:
            return 0.0
        (first, few), (last, many) = self._speed[0], self._speed[-1]
        return (many - few) / (last - first) if last > first else 0.0

    def picture(self) -> dict[str, Any]:
        plan = self._plan
        return {
            "view": "room",
            "run": plan.run_id,
            "name": plan.name,
            "about": f"{plan.task.kind} {way(plan)}",
            "drawn": plan.topology.drawn,
            "edges": self._edges,
            "places": self._places,
            "estimated": self._estimate is not None,
            "rounds": self._rounds if self._hidden else None,
            "roll": self._roll if self._hidden else None,
            "names": list(plan.names),
            "step": self.step,
            "total": plan.total_steps,
            "holder": None if self._hidden else self._holder,
            "trail": [] if self._hidden else list(self._trail),
            "hops_per_second": round(self.hops_per_second, 1),
            "contributions": self._contributions,
            "points": self._points,
            "final": len(self.final),
            "events": list(self._events),
        }


def _across(numbers: Sequence[float]) -> list[float]:
    """From end to end of -1 .. 1."""
    low, high = min(numbers), max(numbers)
    middle, half = (low + high) / 2, (high - low) / 2 or 1.0
    return [round(float((number - middle) / half), 3) for number in numbers]
