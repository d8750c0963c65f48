"""What the view logs say: of every token that may have left, which contributions and noises are in it.

A token's content is known by name: a contribution or a noise component is named after the visit that made it. So
"counted twice", "redrawn" and "without foreign noise" are questions about sets, exactly as the analyzer would ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from network_dp import view
from node.protocols.walk.state import Context
from node.tasks import Task
from node.tasks.sgd import Sgd

Visit = tuple[int, int, int]  # user, era (a new one when its disk was lost), number
Numbers = Sequence[float] | None


class ViolationError(Exception):
    """An invariant does not hold."""


class Content(NamedTuple):
    """What is in a token: names of contributions (visits), and of noise components (visit and number)."""

    contributions: frozenset[Visit]
    noise: frozenset[tuple[int, int, int, int]]

    def foreign(self, user: int) -> Content:
        """Without what ``user`` put in itself."""
        return Content(
            frozenset(name for name in self.contributions if name[0] != user),
            frozenset(name for name in self.noise if name[0] != user),
        )

    def within(self, later: Content) -> bool:
        return self.contributions <= later.contributions and self.noise <= later.noise


EMPTY = Content(frozenset(), frozenset())


class Sent(NamedTuple):
    visit: Visit
    to: str | None
    content: Content
    payload: Numbers
    real: bool


class _Visit(NamedTuple):
    step: int
    cause: str
    content: Content
    received: Numbers
    origin: Visit | None  # the visit whose token it took, or takes up again


class _Base(NamedTuple):
    """What a user held or sent at a hop, and in which visit."""

    content: Content
    visit: Visit


class Evidence:
    """All view logs of one run, read line by line as they are written."""

    def __init__(self, contexts: Sequence[Context], task: Task) -> None:
        self._contexts = contexts
        self._task = task
        self._additive = not isinstance(task, Sgd)
        self._gaussian = not task.noise_only_is_cover  # a truthful response adds nothing to the truth
        self.eras = [0] * len(contexts)
        self.sent: dict[str, Sent] = {}  # by tag
        self.finishes: dict[Visit, Sent] = {}
        self._visits: dict[Visit, _Visit] = {}
        self._lines: dict[tuple[int, str], Visit | None] = {}  # lines are written again after a restart
        self._current: dict[tuple[int, int], Visit] = {}  # user, number -> its visit of that number
        self._at: dict[tuple[int, int, int, int], _Base] = {}  # user, epoch, step -> what it held or sent there
        self._taken: dict[Visit, tuple[str, Visit]] = {}  # visit -> the tag of its one token taken, and where
        self._reached: set[Visit] = set()  # visits of which anything reached another user
        self._reached_by: set[tuple[Visit, str | None]] = set()
        self._noise: dict[tuple[Visit, int, int], tuple[Any, Any]] = {}
        self.real: dict[int, set[Visit]] = {}  # user -> visits whose contribution may have left
        self.edges: dict[tuple[int, str], set[Visit]] = {}

    def log(self, user: int, line: str) -> view.Record:
        record = view.decode(line)
        known = self._lines.get((user, line))
        if record.kind == "visit":
            key = known or (user, self.eras[user], record.fields["visit"])
            self._lines[user, line] = self._current[user, record.fields["visit"]] = key
            if known is None:
                self._visited(user, key, record)
        elif record.kind in ("sent", "finish") and known is None:
            visit = self._current.get((user, record.fields["visit"]))
            if visit is None:
                raise ViolationError(f"u{user} sends from a visit that is not in its log: {record}")
            self._lines[user, line] = visit
            self._leaving(user, visit, record)
        return record

    def is_known(self, visit: Visit) -> bool:
        """Has anybody else seen anything of it?"""
        return visit in self._reached

    def reached(self, sent: Sent) -> None:
        """Bytes reach another user: what is in them is known elsewhere, and no old disk takes that back."""
        user, key = sent.visit[0], sent.visit
        self._reached_by.add((key, sent.to))
        if sent.real:
            self._count(user, key, sent.to)
        origin: Visit | None = key
        while origin is not None and origin[0] == user and origin not in self._reached:
            self._reached.add(origin)
            if origin in sent.content.contributions:
                self._count(user, origin, None)
            origin = self._visits[origin].origin

    def forget(self, user: int, visits: int) -> None:
        """An old disk, with so many visits in its journal, takes its user back to an earlier moment.

        What it did since, and what no byte of reached anybody, is undone with it: nobody can know of it, and when the
        user does the same anew there is no second copy and no second contribution anywhere. So only what others have
        seen is held against it. What is still in its journal counts again when it reaches somebody."""
        self.eras[user] += 1
        self.real[user] = self.real.get(user, set()) & self._reached
        for (sender, to), edge in self.edges.items():
            if sender == user:
                edge.intersection_update({visit for visit, receiver in self._reached_by if receiver == to})
        gone = {taker for _, taker in self._taken.values() if taker[0] == user and taker[2] > visits} - self._reached
        self._taken = {visit: taken for visit, taken in self._taken.items() if taken[1] not in gone}

    def finish_of(self, user: int, number: int) -> Sent | None:
        visit = self._current.get((user, number))
        return None if visit is None else self.finishes.get(visit)

    def _visited(self, user: int, key: Visit, record: view.Record) -> None:
        fields = record.fields
        content, received, origin = EMPTY, fields.get("received"), None
        if fields["cause"] == "handoff":
            sent = self.sent.get(fields["tag"])
            if sent is None:
                raise ViolationError(f"u{user} received a token that no log says was sent: {record}")
            if (sent.to, sent.payload) != (f"u{user}", received):
                raise ViolationError(f"u{user} received other bytes: {record}")
            content, origin = sent.content, sent.visit
            tag, _ = self._taken.setdefault(origin, (fields["tag"], key))
            if tag != fields["tag"]:
                raise ViolationError(f"u{user} takes a second copy of the token of visit {sent.visit}: a silent fork")
        elif fields["cause"] == "reissue":
            counter, issuer, step = fields["base"]
            base = self._at.get((user, counter, issuer, step))
            if base is None:
                raise ViolationError(f"u{user} re-issues a token that is not in its log: {record}")
            content, origin = base
        if key in self._visits:
            raise ViolationError(f"u{user} logged two different visits {key}")
        self._visits[key] = _Visit(record.step, fields["cause"], content, received, origin)
        if fields["cause"] != "reissue":
            self._at[(user, *record.epoch, record.step)] = _Base(content, key)

    def _leaving(self, user: int, key: Visit, record: view.Record) -> None:
        fields = record.fields
        visit = self._visits[key]
        if visit.cause == "reissue" and fields["units"] < self._contexts[user].rule.full:
            raise ViolationError(f"u{user} takes a token up again without one full fresh noise: {record}")
        self._same_noise(key, record)
        self._adds_up(user, visit, record)
        noise = visit.content.noise | {(*key, k) for k in range(fields["units"])}
        contributions = visit.content.contributions
        if fields["real"]:
            if key in contributions:
                raise ViolationError(f"the contribution of visit {key} is in the token already")
            contributions = contributions | {key}
            self._count(user, key, fields.get("to"))
        sent = Sent(key, fields.get("to"), Content(contributions, noise), fields.get("sent"), fields["real"])
        if record.kind == "finish":
            self.finishes[key] = sent
        else:
            self.sent[fields["tag"]] = sent
        # An end that was planned and given up is taken up again with all that is in it, like a token that was sent.
        self._at[(user, *record.epoch, record.step)] = _Base(sent.content, key)

    def _count(self, user: int, key: Visit, to: str | None) -> None:
        ctx = self._contexts[user]
        real = self.real.setdefault(user, set())
        real.add(key)
        if ctx.cap is not None and len(real) > ctx.cap:
            raise ViolationError(f"u{user} contributed {len(real)} times, cap {ctx.cap}")
        if ctx.edge_cap is not None and to is not None and to != ctx.names[user]:
            edge = self.edges.setdefault((user, to), set())
            edge.add(key)
            if len(edge) > ctx.edge_cap:
                raise ViolationError(f"u{user} sent {len(edge)} contributions to {to}, cap {ctx.edge_cap}")

    def _same_noise(self, key: Visit, record: view.Record) -> None:
        """All tokens of one visit carry the same draw: equal where equally many components are in them."""
        fields = record.fields
        if self._gaussian and fields["units"] and not any(fields.get("noise") or ()):
            raise ViolationError(f"visit {key} claims {fields['units']} noise components, and adds nothing")
        drawn = (fields.get("noise"), fields.get("cover") if record.kind == "sent" else None)
        known = self._noise.setdefault((key, self.eras[key[0]], fields["units"]), drawn)
        if known != drawn and not (record.kind == "finish" and known[0] == drawn[0]):
            raise ViolationError(f"noise redrawn for visit {key}: {known} then {drawn}")

    def _adds_up(self, user: int, visit: _Visit, record: view.Record) -> None:
        """received + contribution + noise + cover = sent, to the last bit."""
        fields = record.fields
        parts = [fields.get(name) for name in ("contribution", "noise", "cover")]
        received, sent = visit.received, fields.get("sent")
        assert received is not None
        if self._additive:
            total: Any = [sum(column) for column in zip(received, *(p for p in parts if p is not None), strict=True)]
        else:
            arrays = [None if part is None else np.array(part, np.float64) for part in parts]
            total = self._task.apply(np.array(received, np.float64), arrays[0], arrays[1], max(visit.step, 1)).tolist()
        if total != sent:
            raise ViolationError(f"u{user}: what it sent is not what it received plus what it added: {record}")
