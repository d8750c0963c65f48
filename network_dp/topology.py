"""Who holds the token when, and who may come next: the shapes a walk can have, each a value that owns its rules.

A node asks where a token may go, the analyzer whether a walk kept to it, a plan how long it is. Nobody else looks at
which kind it is: a new one is a class with these methods and a line in ``TOPOLOGIES``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import ClassVar, Final, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

TopologyKind = Literal["ring", "complete", "graph"]
Weights = Literal["metropolis", "simple"]
Peers = tuple[tuple[int, ...], ...]  # of every user, in ascending order, without itself
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

MOST_SOLVED: Final = 512  # users of a graph whose eigenvalues a node computes


class Next(NamedTuple):
    """Users the token may go to and the step they will have; beyond the last one the walk ends. ``weights``: how likely
    each user is, in whole numbers; None: all alike."""

    users: Sequence[int]
    step: int
    weights: Sequence[int] | None = None


class Topology(Protocol):
    """What everybody may ask. Steps count from 1; users are indices of the plan."""

    kind: ClassVar[TopologyKind]
    length_key: ClassVar[Literal["rounds", "steps"]]  # the plan's key that says how long the walk is
    longest: ClassVar[int]  # its largest value
    least_users: ClassVar[int]
    title: ClassVar[str]
    collusion: ClassVar[str]  # what users that pool their views can do, in a sentence; "" where the bounds say it
    uniform: ClassVar[
        bool
    ]  # is the next user drawn uniformly over all, so that the law of THEORY.md#before-a-run holds?
    drawn: ClassVar[bool]  # is the next user drawn at random, and with it who contributes how often?
    offer_tries: ClassVar[int]  # offers without an answer before a user is taken to be down
    listed: ClassVar[bool]  # does every user have a list of peers, and meets nobody else?

    @classmethod
    def of(cls, n_users: int, starter: int, length: int, peers: Peers, weights: Weights) -> Self:
        """As a plan says it; a kind takes of ``peers`` and ``weights`` what it needs."""
        ...

    @property
    def n_users(self) -> int: ...

    @property
    def starter(self) -> int: ...

    @property
    def length(self) -> str:
        """In words."""
        ...

    @property
    def total_steps(self) -> int:
        """Steps of an undisturbed walk."""
        ...

    @property
    def first_step(self) -> int:
        """Where the starter stands: 0 if it only draws the first holder."""
        ...

    @property
    def rounds(self) -> int | None:
        """Contributions of everybody in an undisturbed walk; None where chance decides."""
        ...

    @property
    def turn_every(self) -> int | None:
        """Steps from one turn of a user to its next; None where chance decides."""
        ...

    @property
    def most_skipped(self) -> int:
        """How many steps one hop may leave out, because their users are down."""
        ...

    def next(self, holder: int, step: int, alive: Collection[int]) -> Next:
        """Where the token may go from ``holder``'s visit at ``step``, with these users alive."""
        ...

    def awaited(self, holder: int, step: int, alive: Collection[int]) -> Sequence[int]:
        """Users of whom one must be alive for the token to leave ``holder``; nobody where it can."""
        ...

    def holds_together(self, alive: Collection[int]) -> bool:
        """Can the token still get from any of these users to any other, through them alone?"""
        ...

    def may_hold(self, user: int, step: int) -> bool: ...

    def may_pass(self, sender: int, receiver: int, step: int) -> bool:
        """May one user hand the token to another for this step?"""
        ...

    def share(self, user: int) -> tuple[int, int]:
        """Numerator and denominator, at most 1, of what a visit counts: a user met more often counts for less."""
        ...

    @property
    def correction(self) -> float:
        """What the mean over all visits, each with its ``share``, is multiplied by to be the mean over users."""
        ...

    @property
    def sampling_factor(self) -> float | None:
        """How much larger the error of the walk's own chance is, at most, than that of independent draws; None: not
        computed for so many users."""
        ...

    def passed_by(self, after: int, before: int) -> Sequence[int]:
        """Users whose turns lie strictly between two steps; whoever has several is named several times."""
        ...

    def has_turn(self, users: Ints, steps: Ints) -> Bools:
        """``may_hold`` for many; steps beyond the last are not looked at."""
        ...

    def turns_between(self, users: Ints, after: Ints, before: Ints) -> Ints:
        """How many turns of each user lie strictly between two steps."""
        ...

    def most_turns(self, step: int) -> int:
        """Turns that one user can have had up to ``step``."""
        ...

    def contribution_number(self, step: int, made: int) -> int:
        """Which of its contributions, from 1, a user makes at ``step`` after ``made`` others."""
        ...


@dataclass(frozen=True, slots=True)
class Ring:
    """Positions 1, 2, 3, ... over all users in the plan's order from the starter on, dead ones included, K rounds.

    A user that is down is passed by and misses its round (THEORY.md#ring)."""

    n_users: int
    starter: int
    n_rounds: int

    kind: ClassVar[TopologyKind] = "ring"
    length_key: ClassVar[Literal["rounds", "steps"]] = "rounds"
    longest: ClassVar[int] = 1_000_000
    least_users: ClassVar[int] = 3
    title: ClassVar[str] = "a ring"
    collusion: ClassVar[str] = "A ring resists no collusion: two users around a third can read its raw contribution."
    uniform: ClassVar[bool] = False
    drawn: ClassVar[bool] = False
    offer_tries: ClassVar[int] = 3  # a skip costs the skipped user its round
    listed: ClassVar[bool] = False

    @classmethod
    def of(cls, n_users: int, starter: int, length: int, peers: Peers, weights: Weights) -> Self:
        return cls(n_users, starter, length)

    @property
    def length(self) -> str:
        return f"{self.n_rounds} round{'s' * (self.n_rounds != 1)}"

    @property
    def total_steps(self) -> int:
        return self.n_rounds * self.n_users

    @property
    def first_step(self) -> int:
        return 1

    @property
    def rounds(self) -> int | None:
        return self.n_rounds

    @property
    def turn_every(self) -> int | None:
        return self.n_users

    @property
    def most_skipped(self) -> int:
        return self.n_users - 1

    def next(self, holder: int, step: int, alive: Collection[int]) -> Next:
        for position in range(step + 1, self.total_steps + 1):
            following = self._holder(position)
            if following in alive:
                return Next((following,), position)
        return Next((), self.total_steps + 1)

    def awaited(self, holder: int, step: int, alive: Collection[int]) -> Sequence[int]:
        return ()

    def holds_together(self, alive: Collection[int]) -> bool:
        return True

    def may_hold(self, user: int, step: int) -> bool:
        return 1 <= step <= self.total_steps and self._holder(step) == user

    def may_pass(self, sender: int, receiver: int, step: int) -> bool:
        return True  # whoever skips the dead may be anybody

    def share(self, user: int) -> tuple[int, int]:
        return 1, 1

    @property
    def correction(self) -> float:
        return 1.0

    @property
    def sampling_factor(self) -> float | None:
        return 1.0

    def passed_by(self, after: int, before: int) -> Sequence[int]:
        return [self._holder(position) for position in range(after + 1, before)]

    def has_turn(self, users: Ints, steps: Ints) -> Bools:
        return np.asarray((self.starter + steps - 1) % self.n_users == users, dtype=np.bool_)

    def turns_between(self, users: Ints, after: Ints, before: Ints) -> Ints:
        first = (users - self.starter) % self.n_users + 1
        return np.asarray((before - 1 - first) // self.n_users - (after - first) // self.n_users, dtype=np.int64)

    def most_turns(self, step: int) -> int:
        return (step - 1) // self.n_users + 1

    def contribution_number(self, step: int, made: int) -> int:
        return self.most_turns(step)

    def _holder(self, position: int) -> int:
        return (self.starter + position - 1) % self.n_users


@dataclass(frozen=True, slots=True)
class _Drawn:
    """T steps whose users are drawn one after the other. The starter only draws the first (THEORY.md#setting)."""

    n_users: int
    starter: int
    n_steps: int

    length_key: ClassVar[Literal["rounds", "steps"]] = "steps"
    longest: ClassVar[int] = 1_000_000_000
    least_users: ClassVar[int] = 2
    collusion: ClassVar[str] = ""
    drawn: ClassVar[bool] = True
    offer_tries: ClassVar[int] = 1

    @property
    def length(self) -> str:
        return f"{self.n_steps} step{'s' * (self.n_steps != 1)}"

    @property
    def total_steps(self) -> int:
        return self.n_steps

    @property
    def first_step(self) -> int:
        return 0

    @property
    def rounds(self) -> int | None:
        return None

    @property
    def turn_every(self) -> int | None:
        return None

    @property
    def most_skipped(self) -> int:
        return 0

    def awaited(self, holder: int, step: int, alive: Collection[int]) -> Sequence[int]:
        return ()

    def holds_together(self, alive: Collection[int]) -> bool:
        return True

    def may_hold(self, user: int, step: int) -> bool:
        return 1 <= step <= self.n_steps

    def may_pass(self, sender: int, receiver: int, step: int) -> bool:
        return True

    def share(self, user: int) -> tuple[int, int]:
        return 1, 1

    @property
    def correction(self) -> float:
        return 1.0

    @property
    def sampling_factor(self) -> float | None:
        return 1.0

    def passed_by(self, after: int, before: int) -> Sequence[int]:
        return ()

    def has_turn(self, users: Ints, steps: Ints) -> Bools:
        return np.ones(len(users), dtype=np.bool_)

    def turns_between(self, users: Ints, after: Ints, before: Ints) -> Ints:
        return np.zeros(len(users), dtype=np.int64)

    def most_turns(self, step: int) -> int:
        return step

    def contribution_number(self, step: int, made: int) -> int:
        return made + 1


@dataclass(frozen=True, slots=True)
class Complete(_Drawn):
    """The next user is drawn uniformly over all users not known to be down, the holder included."""

    kind: ClassVar[TopologyKind] = "complete"
    title: ClassVar[str] = "a complete graph"
    uniform: ClassVar[bool] = True
    listed: ClassVar[bool] = False

    @classmethod
    def of(cls, n_users: int, starter: int, length: int, peers: Peers, weights: Weights) -> Self:
        return cls(n_users, starter, length)

    def next(self, holder: int, step: int, alive: Collection[int]) -> Next:
        ended = step >= self.n_steps
        return Next((), step + 1) if ended else Next(alive if isinstance(alive, Sequence) else sorted(alive), step + 1)


@dataclass(frozen=True)  # no slots: rows are worked out once
class Graph(_Drawn):
    """The holder draws among its peers and itself, by public weights (THEORY.md#graphs).

    Metropolis: P_xy = 1/(1 + max(d_x, d_y)), the rest at x: symmetric, so every user is met equally often. Simple:
    1/d_x each: a user is met in proportion to its degree, and its visits count for less (``share``). The first holder
    is drawn from the stationary law. Peers that are down are left out of the draw, and the others keep their
    proportions; when all are down the holder waits: alone with itself it would use up the walk."""

    peers: Peers
    weights: Weights = "metropolis"

    kind: ClassVar[TopologyKind] = "graph"
    title: ClassVar[str] = "a graph"
    uniform: ClassVar[bool] = False
    listed: ClassVar[bool] = True

    @classmethod
    def of(cls, n_users: int, starter: int, length: int, peers: Peers, weights: Weights) -> Self:
        return cls(n_users, starter, length, peers, weights)

    def next(self, holder: int, step: int, alive: Collection[int]) -> Next:
        if step >= self.n_steps:
            return Next((), step + 1)
        row = self._first() if step < 1 else self.row(holder)
        live = {user: weight for user, weight in row.items() if user in alive}
        return Next(tuple(live), step + 1, tuple(live.values()))

    def awaited(self, holder: int, step: int, alive: Collection[int]) -> Sequence[int]:
        others = self.peers[holder] if 1 <= step < self.n_steps else ()
        return () if any(user in alive for user in others) else others

    def holds_together(self, alive: Collection[int]) -> bool:
        left = tuple(
            tuple(other for other in others if other in alive) if user in alive else ()
            for user, others in enumerate(self.peers)
        )
        found = distances_from(left, min(alive))
        return all(found[user] >= 0 for user in alive)

    def may_pass(self, sender: int, receiver: int, step: int) -> bool:
        """The first holder may be anybody: what it is handed is public."""
        return step == 1 or sender == receiver or sender in self.peers[receiver]

    def share(self, user: int) -> tuple[int, int]:
        """d_min / d_u under simple weights, which is as 1 / pi_u."""
        return (1, 1) if self.weights == "metropolis" else (min(map(len, self.peers)), len(self.peers[user]))

    @property
    def correction(self) -> float:
        """The mean degree over the least: E over the stationary law of the shares, inverted."""
        degrees = [len(others) for others in self.peers]
        return 1.0 if self.weights == "metropolis" else sum(degrees) / (self.n_users * min(degrees))

    def row(self, holder: int) -> Mapping[int, int]:
        """Row ``holder`` of P over a common denominator; who is never drawn is not in it."""
        if holder not in self._rows:
            self._rows[holder] = _row(self.peers, self.weights, holder)
        return self._rows[holder]

    @cached_property
    def _rows(self) -> dict[int, Mapping[int, int]]:
        return {}

    def _first(self) -> Mapping[int, int]:
        """The stationary law."""
        alike = self.weights == "metropolis"
        return {user: 1 if alike else len(others) for user, others in enumerate(self.peers)}

    def transition(self) -> Floats:
        """P, each row what a holder draws from."""
        matrix = np.zeros((self.n_users, self.n_users))
        for user in range(self.n_users):
            row = self.row(user)
            matrix[user, list(row)] = np.array(list(row.values()), dtype=np.float64) / sum(row.values())
        return matrix

    def stationary(self) -> Floats:
        """The law of the first holder, and of every later one."""
        law = np.array(list(self._first().values()), dtype=np.float64)
        return np.asarray(law / law.sum())

    @cached_property
    def sampling_factor(self) -> float | None:
        """sqrt(1/T sum over steps s, t of l^|s-t|), l the second largest eigenvalue of P: the error of the function on
        users that forgets where it came from most slowly."""
        if self.n_users > MOST_SOLVED:
            return None
        root = np.sqrt(self.stationary())
        slow, steps = np.linalg.eigvalsh(self.transition() * root[:, None] / root)[-2], self.n_steps
        if slow <= 0.0:
            return 1.0
        whole = (1 + slow) / (1 - slow) - 2 * slow * (1 - slow**steps) / (steps * (1 - slow) ** 2)
        return float(np.sqrt(max(1.0, whole)))

    def distances(self) -> Ints:
        """Hops between any two users."""
        return np.array([distances_from(self.peers, user) for user in range(self.n_users)], dtype=np.int64)


def _row(peers: Peers, weights: Weights, holder: int) -> Mapping[int, int]:
    mine = peers[holder]
    if weights == "simple":
        return dict.fromkeys(mine, 1)
    parts = {user: 1 + max(len(mine), len(peers[user])) for user in mine}
    whole = lcm(*parts.values())
    row = {user: whole // part for user, part in parts.items()}
    return dict(sorted({**row, holder: whole - sum(row.values())}.items()))


def distances_from(peers: Peers, start: int) -> list[int]:
    """Hops from one user to every other; -1: there is no way."""
    found = [-1] * len(peers)
    found[start], queue = 0, deque([start])
    while queue:
        user = queue.popleft()
        for other in peers[user]:
            if found[other] < 0:
                found[other] = found[user] + 1
                queue.append(other)
    return found


#: As plans name them.
TOPOLOGIES: Final[Mapping[str, type[Ring] | type[Complete] | type[Graph]]] = {
    kind.kind: kind for kind in (Ring, Complete, Graph)
}
