"""A seeded schedule of faults: everything that will go wrong in one run, fixed before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal, NamedTuple

from simulator.faults.dice import seeded
from simulator.faults.network import CALM, Weather
from simulator.faults.scenario import GRAPHS, LONG_RINGS, SCENARIOS, STAGES

#: Effects before which a process may be killed, with what a Send or Reply carries as its name.
EFFECTS = (
    "Persist",
    "Log",
    "Offer",
    "Handoff",
    "Locate",
    "Fence",
    "Publish",
    "Granted",
    "Accepted",
    "Already",
    "Declined",
    "Located",
    "Promise",
    "Published",
    "Compute",
    "Finished",
)
_COMMON = ("Persist", "Persist", "Log", "Handoff", "Handoff", "Accepted", "Publish", "Fence")
QUIET_S = 25.0  # from here on nothing goes wrong any more


class Kill(NamedTuple):
    """Kill whoever is about to carry out the ``nth`` effect of a kind; None: its disk is gone for good."""

    effect: str
    nth: int
    restart_after_s: float | None
    machine: bool


class Timed(NamedTuple):
    """Something that happens at a time."""

    at_s: float
    what: Literal["split", "heal", "full", "free", "jump", "late", "kill", "stop", "old disk"]
    user: int
    value: float = 0.0
    group: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Schedule:
    """One disaster, whole."""

    seed: int
    scenario: int
    weather: Weather = CALM
    kills: tuple[Kill, ...] = ()
    timed: tuple[Timed, ...] = ()
    quiet_s: float = QUIET_S
    drops: tuple[tuple[str, int], ...] = ()  # lose the n-th message of a kind

    def __str__(self) -> str:
        return f"seed {self.seed}: {STAGES[self.scenario].name}; {self.weather}; {self.kills}; {self.timed}"


def _kill(random: Random) -> Kill:
    effect = random.choice(_COMMON if random.random() < 0.7 else EFFECTS)
    nth = 1 + int(random.random() ** 2 * 24)
    gone = random.random() < 0.4
    return Kill(effect, nth, None if gone else random.choice((0.1, 1.0, 3.0, 8.0, 14.0)), random.random() < 0.4)


def _weather(random: Random) -> Weather:
    if random.random() < 0.4:
        return CALM
    loss, duplicate, delay = (random.choice((0.02, 0.1, 0.3)) * random.random() for _ in range(3))
    return Weather(loss, duplicate, delay)


def _timed(random: Random, n: int) -> list[Timed]:
    start, user = 0.05 + 6.0 * random.random() ** 3, random.randrange(n)  # an undisturbed walk is over in half a second
    until = start + random.choice((0.2, 0.5, 3.0, 8.0, 15.0))
    match random.choice(("split", "split", "full", "full", "full", "jump", "late", "kill", "kill", "stop")):
        case "split":
            group = frozenset(random.sample(range(n), random.randint(1, n // 2)))
            return [Timed(start, "split", user, group=group), Timed(until, "heal", user)]
        case "full":
            return [Timed(start, "full", user), Timed(until, "free", user)]
        case "jump":
            return [Timed(start, "jump", user, random.choice((0.4, 2.0, 6.0, 60.0)))]
        case "late":
            return [Timed(0.0, "late", user, random.choice((1.0, 5.0, 12.0)))]
        case "stop":
            return [Timed(start, "stop", user), Timed(start + 0.5, "kill", user, until - start)]
        case _:
            return [Timed(start, "kill", user, until - start)]


def _flicker(random: Random, n: int) -> list[Timed]:
    """Disks that are full for a moment, again and again: tokens are refused while copies of them are under way."""
    events = []
    for user in range(n):
        start = random.random() * 0.4
        for _ in range(3):
            end = start + 0.05 + random.random() * 0.3
            events += [Timed(start, "full", user), Timed(end, "free", user)]
            start = end + random.random() * 0.4
    return events


def _outages(random: Random, n: int) -> list[Timed]:
    """Users that are down for some rounds, one after the other, and take part again."""
    events, start = [], 0.05
    for _ in range(random.randint(4, 10)):
        start += random.random() * 0.3
        events.append(Timed(start, "kill", random.randrange(n), random.choice((1.0, 2.0, 3.0))))
    return events


def _among_peers(seed: int, otherwise: int) -> int:
    """One walk in ten is on a graph."""
    random = seeded("graph", seed)
    if random.random() >= 0.1:
        return otherwise
    return len(SCENARIOS) + len(LONG_RINGS) + random.randrange(len(GRAPHS))


def draw(seed: int) -> Schedule:
    """The schedule of a seed. In twenty: one calm, one with users away for some rounds of a long ring, two with an old
    disk put back, two with flickering disks, two in which who just had the token is lost, twelve with anything."""
    random = seeded("schedule", seed)
    scenario = _among_peers(seed, random.randrange(len(SCENARIOS)))
    n = STAGES[scenario].plan.n
    kind = random.random()
    if kind < 0.05:
        scenario = len(SCENARIOS) + random.randrange(len(LONG_RINGS))
        return Schedule(seed, scenario, timed=tuple(_outages(random, STAGES[scenario].plan.n)))
    if kind < 0.1:
        return Schedule(seed, scenario)
    kills = tuple(_kill(random) for _ in range(random.choice((0, 1, 1, 2, 3))))
    if kind < 0.2:
        # Three things no protocol can make good, and so no schedule asks for (docs/THREAT_MODEL.md, Lost disks): that
        # who remembers cannot be asked (the disk comes back into a calm world with everybody up); that nobody does,
        # because who saw the bytes refused them or was killed before it journaled them; and that too many disks are
        # lost or old for a majority of voters (one is old, and nobody else is lost).
        kills = tuple(
            kill._replace(
                effect="Log" if kill.effect == "Persist" else kill.effect, restart_after_s=kill.restart_after_s or 1.0
            )
            for kill in kills
        )
        at = 0.05 + random.random() * random.choice((0.4, 0.8, 5.0))
        return Schedule(seed, scenario, CALM, kills, (Timed(at, "old disk", random.randrange(n), random.random()),), at)
    if kind < 0.3:
        storm = tuple(sorted(_flicker(random, n), key=lambda event: event.at_s))
        return Schedule(seed, scenario, Weather(0.02, 0.5, 0.1), kills[:1], storm)
    if kind < 0.4:
        effect = random.choice(("Handoff", "Accepted", "Offer", "Persist"))
        gone = Kill(effect, random.randint(2, 10), None, machine=False)
        return Schedule(seed, scenario, CALM, (gone, *kills[:1]))
    timed = [event for _ in range(random.choice((0, 0, 1, 2, 4))) for event in _timed(random, n)]
    return Schedule(seed, scenario, _weather(random), kills, tuple(sorted(timed, key=lambda event: event.at_s)))
