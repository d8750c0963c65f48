"""Who holds the token when, and who may come next: the shapes a walk can have, each a value that owns its rules.

A node asks where a token may go, the analyzer whether a walk kept to it, a plan how long it is. Nobody else looks at
which kind it is: a new one is a class with these methods and a line in ``TOPOLOGIES``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

TopologyKind = Literal["ring", "complete"]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Next(NamedTuple):
    """Users the token may go to, each as likely, and the step they will have. Nobody: the walk ends."""

    users: Sequence[int]
    step: int


class Topology(Protocol):
    """What everybody may ask. Steps count from 1; users are indices of the plan."""

    kind: ClassVar[TopologyKind]
    length_key: ClassVar[Literal["rounds", "steps"]]  # the plan's key that says how long the walk is
    longest: ClassVar[int]  # its largest value
    least_users: ClassVar[int]
    title: ClassVar[str]
    collusion: ClassVar[str]  # what users that pool their views can do, in a sentence; "" where the bounds say it
    drawn: ClassVar[bool]  # is the next user drawn at random, and with it who contributes how often?
    offer_tries: ClassVar[int]  # offers without an answer before a user is taken to be down

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

    def next(self, step: int, alive: Collection[int]) -> Next:
        """Where the token may go from a visit at ``step``, with these users alive."""
        ...

    def may_hold(self, user: int, step: int) -> bool: ...

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
    drawn: ClassVar[bool] = False
    offer_tries: ClassVar[int] = 3  # a skip costs the skipped user its round

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

    def next(self, step: int, alive: Collection[int]) -> Next:
        for position in range(step + 1, self.total_steps + 1):
            holder = self._holder(position)
            if holder in alive:
                return Next((holder,), position)
        return Next((), self.total_steps + 1)

    def may_hold(self, user: int, step: int) -> bool:
        return 1 <= step <= self.total_steps and self._holder(step) == user

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
class Complete:
    """T steps; the next user is drawn uniformly over all users not known to be down, the holder included.

    The starter only draws the first holder (THEORY.md#setting)."""

    n_users: int
    starter: int
    n_steps: int

    kind: ClassVar[TopologyKind] = "complete"
    length_key: ClassVar[Literal["rounds", "steps"]] = "steps"
    longest: ClassVar[int] = 1_000_000_000
    least_users: ClassVar[int] = 2
    title: ClassVar[str] = "a complete graph"
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

    def next(self, step: int, alive: Collection[int]) -> Next:
        ended = step >= self.n_steps
        return Next((), step + 1) if ended else Next(alive if isinstance(alive, Sequence) else sorted(alive), step + 1)

    def may_hold(self, user: int, step: int) -> bool:
        return 1 <= step <= self.n_steps

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


#: As plans name them.
TOPOLOGIES: Final[Mapping[str, type[Ring] | type[Complete]]] = {kind.kind: kind for kind in (Ring, Complete)}
