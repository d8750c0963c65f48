"""Logs of anonymous rounds: what each says by itself, and, of all of them together, the walk that nobody saw.

Put together the logs show the path: every message has one speaker, and whoever opened it says so. Then a hidden walk
is a walk like any other, told as visits and hand-overs, and the checks of a walk can look at it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from network_dp.plan import Plan
from network_dp.view import Record

Epoch = tuple[int, int]
Key = tuple[Epoch, int]  # of a message: epoch, and the step of its receiver
Lines = Iterable[tuple[int, Record]]
KINDS = frozenset({"round", "attendance", "spoken"})


@dataclass(slots=True)
class Stand:
    """The rounds between one message and the next, as one log saw them: who was missing from any roll."""

    missing: set[str] = field(default_factory=set)
    restarts: int = 0


@dataclass(slots=True)
class RoundsLog:
    """One user's log of anonymous rounds."""

    rounds: int = 0
    starts: int = 0
    attendance: list[tuple[int, int]] = field(default_factory=list)  # line, how many were on the roll
    spoken: list[tuple[int, Record]] = field(default_factory=list)
    stands: dict[Key, Stand] = field(default_factory=dict)  # of the message that was heard last


def _epoch(value: Sequence[int]) -> Epoch:
    return value[0], value[1]


def key_of(record: Record) -> Key:
    return _epoch(record.fields["epoch"]), record.step


def base_of(record: Record) -> Key | None:
    """The message that a visit opened, or that was taken up again."""
    base = record.fields["base"]
    return None if base is None else ((base[0], base[1]), base[2])


def read(plan: Plan, lines: Lines) -> RoundsLog:
    """One log from top to bottom. A roll is logged when it changes, so it stands for what is heard later, too; a
    process that starts may have died after it heard a message and before its next block, so it counts for both."""
    log, everybody = RoundsLog(), frozenset(plan.names)
    heard: Key = ((0, 0), 0)
    away: frozenset[str] = frozenset()
    started = 0
    for line, record in lines:
        match record.kind:
            case "round":
                log.rounds += 1
                heard = key_of(record)
                stand = log.stands.setdefault(heard, Stand())
                stand.missing |= away
                stand.restarts, started = stand.restarts + started, 0
            case "attendance":
                users = record.fields["users"]
                log.attendance.append((line, len(set(users) & everybody)))
                away = everybody - set(users)
                log.stands.setdefault(heard, Stand()).missing |= away
            case "start":
                log.starts += 1
                log.stands.setdefault(heard, Stand()).restarts += 1
                away, started = frozenset(), 1
            case "spoken":
                log.spoken.append((line, record))
    return log


def least_attendance(plan: Plan, logs: Mapping[int, RoundsLog]) -> int:
    """On any roll that any log saw; the plan's own number where none was logged."""
    return min((count for log in logs.values() for _, count in log.attendance), default=plan.walk.min_live)


def epochs(logs: Mapping[int, RoundsLog]) -> dict[Epoch, tuple[int, int]]:
    """Epoch -> first and last step of its messages, said or heard."""
    found: dict[Epoch, tuple[int, int]] = {}
    for log in logs.values():
        for epoch, step in [*log.stands, *(key_of(record) for _, record in log.spoken)]:
            if step:
                first, last = found.get(epoch, (step, step))
                found[epoch] = min(first, step), max(last, step)
    return found


def walked_steps(plan: Plan, logs: Mapping[int, RoundsLog]) -> int:
    """Over all epochs, those that were given up included. Message 1 is the initial token: nobody's step."""
    end = plan.total_steps + 1
    return sum(max(0, min(last, end) - max(first, 2) + 1) for first, last in epochs(logs).values())


def known_steps(plan: Plan, logs: Mapping[int, RoundsLog]) -> dict[int, int]:
    """User -> visits of its own that whoever watched the attendance may know of (THEORY.md#absence): the walk stood
    still before one while the user was away or started again, or was taken up again from before what it said then,
    while the user was away."""
    missing: dict[Key, set[str]] = {}
    for log in logs.values():
        for key, stand in log.stands.items():
            missing.setdefault(key, set()).update(stand.missing)
    taken_up = _taken_up(logs)
    found = {}
    for user, log in logs.items():
        name, count = plan.names[user], 0
        for _, record in log.spoken:
            base, (epoch, step) = base_of(record), key_of(record)
            if record.fields["cause"] != "visit" or base is None:
                continue
            waited = name in missing.get(base, ()) or log.stands.get(base, Stand()).restarts > 0
            count += waited or any(epoch < later and step > at and name in away for later, at, away in taken_up)
        found[user] = count
    return found


def _taken_up(logs: Mapping[int, RoundsLog]) -> list[tuple[Epoch, int, set[str]]]:
    """Of each epoch: the step that its asker named to everybody, and who was missing from a roll just before."""
    heard = [(log, sorted(log.stands)) for log in logs.values()]
    found = []
    for epoch, (first, _) in epochs(logs).items():
        away: set[str] = set()
        for log, keys in heard:
            if before := bisect_left(keys, (epoch, 0)):
                away |= log.stands[keys[before - 1]].missing
        found.append((epoch, first, away))
    return found


@dataclass(frozen=True, slots=True)
class Told:
    """Who spoke and who opened each message, over all logs."""

    plan: Plan
    speaker: Mapping[Key, int]
    opener: Mapping[Key, int]
    issuer: Mapping[Epoch, int]

    def epoch(self, epoch: Epoch) -> list[int]:
        """As a walk's: a count, and who began it."""
        return [epoch[0], self.issuer.get(epoch, 0)]


def told(plan: Plan, logs: Mapping[int, RoundsLog]) -> Told:
    speaker: dict[Key, int] = {}
    opener: dict[Key, int] = {}
    issuer: dict[Epoch, int] = {}
    for user, log in logs.items():
        for _, record in log.spoken:
            key, base = key_of(record), base_of(record)
            speaker.setdefault(key, user)
            if record.fields["cause"] == "visit" and base is not None:
                opener.setdefault(base, user)
            else:
                issuer.setdefault(key[0], user)
    return Told(plan, speaker, opener, issuer)


def _tag(key: Key) -> str:
    return f"{key[0][0]}.{key[0][1]}#{key[1]}"


def as_walk(told: Told, user: int, lines: Lines) -> Iterator[tuple[int, Record]]:
    """One user's log as that of a walk whose path is known."""
    for line, record in lines:
        if record.kind == "spoken":
            yield from _visit(told, user, line, record)
        elif record.kind == "result":
            epoch = told.epoch(_epoch(record.fields["epoch"]))
            yield line, Record("result", {**record.fields, "epoch": epoch})
        elif record.kind not in KINDS:
            yield line, record


def _visit(told: Told, user: int, line: int, record: Record) -> Iterator[tuple[int, Record]]:
    """A message that was fixed: a visit, and what was sent then. Of a message that nobody opened, nobody knows to
    whom it was sealed: it stays with its speaker."""
    fields, key, base, names = record.fields, key_of(record), base_of(record), told.plan.names
    cause, epoch, time = fields["cause"], told.epoch(key[0]), {"time": fields.get("time")}
    real = cause == "visit"
    came: dict[str, Any] = {"epoch": epoch, "step": key[1] - 1, "visit": fields["visit"], "from": None, **time}
    came["cause"] = "handoff" if real else cause
    if real and base is not None:
        speaker = told.speaker.get(base)
        came["from"], came["tag"] = None if speaker is None else names[speaker], _tag(base)
    elif base is not None:
        old, last = told.epoch(base[0]), base[1] > told.plan.total_steps
        came["base"] = [*old, base[1] - 1 if last else base[1]]
    received = fields.get("sent") if cause == "start" else fields.get("received")
    yield line, Record("visit", {**came, "received": received})
    units = 0 if cause == "start" else 1
    sent: dict[str, Any] = {"epoch": epoch, "visit": fields["visit"], "real": real, "units": units, **time}
    sent |= {name: fields.get(name) for name in ("contribution", "noise", "sent")}
    if key[1] > told.plan.total_steps:
        yield line, Record("finish", {**sent, "step": key[1] - 1})
    else:
        to = names[told.opener.get(key, user)]
        yield line, Record("sent", {**sent, "step": key[1], "to": to, "tag": _tag(key)})


def as_shares(name: str, lines: Lines) -> Iterator[tuple[int, Record]]:
    """One user's log of a masked sum: each share as what a visit adds to nothing, and keeps."""
    for line, record in lines:
        if record.kind == "spoken":
            fields = record.fields
            came = {key: fields.get(key) for key in ("epoch", "step", "visit", "time")}
            yield line, Record("visit", {**came, "cause": "start", "from": None})
            parts = {key: fields.get(key) for key in ("contribution", "noise", "sent")}
            yield line, Record("sent", {**came, "to": name, "real": True, "units": 1, **parts})
        elif record.kind not in KINDS:
            yield line, record
