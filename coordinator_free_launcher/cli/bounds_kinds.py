"""What `network-dp bounds` and `calibrate` ask of a kind of walk: each answers for itself, nobody asks which it is.

A new kind is a class with these methods and a line in ``KINDS``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from coordinator_free_launcher.cli.bounds_tasks import TASKS, Adding
from coordinator_free_launcher.cli.rows import Row
from network_dp import calibrate, printed, utility
from network_dp.accounting import bounds
from network_dp.errors import require
from network_dp.mechanism import Gaussian, RandomisedResponse
from network_dp.noise_rule import cover_elements
from network_dp.topology import Complete, Ring

COMPARED: Final = "the paper's formula: for comparison only"
HIDDEN: Final = "only if nobody can tell who else held the token; TLS alone does not give it"
_UNCOVERED: Final = "most hops of a ring carry no noise of their own"


@dataclass(frozen=True)
class BoundsQuery:
    """The options of a bounds or calibrate command, checked."""

    task: str
    topology: str
    users: int
    length: int  # rounds of a ring, steps of the complete graph
    delta: float
    sensitivity: float = 1.0
    lipschitz: float | None = None
    buckets: int | None = None
    sigma: float | None = None
    gamma: float | None = None
    colluders: int = 1
    released: bool = False
    cap: int | None = None
    reissues: int = 0  # ring: how often the token may be lost and taken up again

    def __post_init__(self) -> None:
        require(self.task in TASKS, f"--task must be one of {', '.join(TASKS)}")
        require(self.topology in KINDS, f"--topology must be {' or '.join(KINDS)}")
        require(self.users >= 2, "--users must be at least 2")
        require(self.length >= 1, "--rounds (ring) or --steps (complete) must be at least 1")
        self.asked.check(self)
        require(not self.responding or self.buckets is not None, "--gamma needs --buckets")
        require(self.gamma is None or self.responding, "--gamma is for a histogram without --sigma: give one of them")
        require(self.reissues >= 0, "--reissues must be at least 0")
        require(self.colluders < self.users, "--colluders: of all users at least one must be left to protect")
        self.kind.check(self)

    @property
    def kind(self) -> Kind:
        return KINDS[self.topology]

    @property
    def asked(self) -> Adding:
        return TASKS[self.task]

    @property
    def responding(self) -> bool:
        """A histogram by randomised response (a histogram with --sigma is a vector sum with Gaussian noise)."""
        return self.asked.responds and self.sigma is None

    @property
    def total_sensitivity(self) -> float:
        return self.asked.sensitivity(self)

    @property
    def theorem(self) -> printed.Theorem:
        """What the paper printed on such a walk."""
        walk = printed.Walk(
            topology=self.topology,
            task=self.asked.walk,
            mechanism=RandomisedResponse.kind if self.responding else Gaussian.kind,
            n_users=self.users,
            length=self.length,
            delta=self.delta,
            sensitivity=self.total_sensitivity,
            n_buckets=self.buckets or 2,
            lipschitz=self.lipschitz,
            cap=self.cap,
        )
        assert walk.theorem is not None  # of all that these options allow
        return walk.theorem

    @property
    def observer(self) -> str:
        return "any one user" if self.colluders == 1 else f"any {self.colluders} users together"


class Kind(ABC):
    """The answers of one kind of walk."""

    option: ClassVar[str]  # that gives its length
    needs_length: ClassVar[str]
    foreign_length: ClassVar[str]
    axis: ClassVar[str]
    unhidden: ClassVar[str]  # why there is no number for a hidden path
    reissues: ClassVar[int]  # that a plan reserves for by default (docs/adr/0019)
    printed_note: ClassVar[str] = COMPARED

    @abstractmethod
    def check(self, query: BoundsQuery) -> None:
        """Refuse options that make no sense for it."""

    @abstractmethod
    def contributions(self, query: BoundsQuery) -> int:
        """How often one user contributes, at most: always, or but for half of delta."""

    def local_delta(self, query: BoundsQuery) -> float:
        """What is left of delta when contributions are counted."""
        return query.delta

    @abstractmethod
    def epsilon(self, query: BoundsQuery, sigma: float) -> tuple[float, str]:
        """The valid network epsilon with Gaussian noise, and what it means."""

    def hidden(self, query: BoundsQuery, sigma: float) -> float | None:
        return None

    @abstractmethod
    def local(self, query: BoundsQuery, sigma: float) -> tuple[float, str]: ...

    @abstractmethod
    def local_sigma(self, query: BoundsQuery, epsilon: float) -> tuple[float, str]: ...

    @abstractmethod
    def length(self, query: BoundsQuery) -> dict[str, Any]:
        """As the accountant's functions take it."""

    def hidden_sigma(self, query: BoundsQuery, epsilon: float) -> float | None:
        return None

    def extras(self, query: BoundsQuery) -> list[Row]:
        return []

    @abstractmethod
    def response_epsilon(self, query: BoundsQuery, buckets: int, gamma: float) -> float: ...

    @abstractmethod
    def answers(self, query: BoundsQuery, gamma: float) -> tuple[int, int]:
        """Responses in the final token, and cover elements beside them."""


class RingKind(Kind):
    option = "--rounds"
    needs_length = "a ring needs --rounds"
    foreign_length = "--steps is for the complete graph"
    axis = "rounds K"
    unhidden = "the path of a ring is public"
    reissues = 1
    printed_note = "advanced composition: valid, very loose"

    def check(self, query: BoundsQuery) -> None:
        require(query.users >= Ring.least_users, f"a ring needs at least {Ring.least_users} users")
        require(query.asked.hidden_on_ring, "sgd on a ring has no amplification; use complete")
        require(query.cap is None, "--cap is for the complete graph; a ring has --rounds")

    def contributions(self, query: BoundsQuery) -> int:
        return query.length

    def epsilon(self, query: BoundsQuery, sigma: float) -> tuple[float, str]:
        if query.colluders > 1:
            return math.inf, "two users around a third read its raw values: a ring resists no collusion"
        reach = query.total_sensitivity
        value = bounds.ring_epsilon(query.length, sigma, reach, query.delta, query.reissues)
        return value, f"{query.observer} about any other: sqrt(K + {query.reissues} re-issues) Delta/sigma, exact"

    def local(self, query: BoundsQuery, sigma: float) -> tuple[float, str]:
        return math.inf, _UNCOVERED

    def local_sigma(self, query: BoundsQuery, epsilon: float) -> tuple[float, str]:
        return math.inf, _UNCOVERED

    def length(self, query: BoundsQuery) -> dict[str, Any]:
        return {"topology": Ring.kind, "n_rounds": query.length}

    def extras(self, query: BoundsQuery) -> list[Row]:
        noises = utility.ring_noises(query.users, query.length, query.released)
        return [Row("noises", "full noises", float(noises), "in the final token")]

    def response_epsilon(self, query: BoundsQuery, buckets: int, gamma: float) -> float:
        from network_dp.accounting import shuffle

        if query.colluders > 1:
            return shuffle.local_epsilon(query.length, buckets, gamma, query.delta)
        size = (query.users, query.length, buckets, gamma)
        return shuffle.ring_epsilon(*size, query.delta, query.released, query.reissues)

    def answers(self, query: BoundsQuery, gamma: float) -> tuple[int, int]:
        ends = 2 if query.released else 1
        return query.users * query.length, ends * cover_elements(gamma, query.users)


class CompleteKind(Kind):
    option = "--steps"
    needs_length = "the complete graph needs --steps"
    foreign_length = "--rounds is for a ring"
    axis = "steps T"
    unhidden = "a cap makes contributions depend on the visit count: no hidden-path bound"
    reissues = 0

    def check(self, query: BoundsQuery) -> None:
        require(query.reissues == 0, "--reissues is for a ring")

    def contributions(self, query: BoundsQuery) -> int:
        return query.cap if query.cap is not None else bounds.visits(query.users, query.length, query.delta / 2)

    def local_delta(self, query: BoundsQuery) -> float:
        return query.delta if query.cap is not None else query.delta / 2

    def epsilon(self, query: BoundsQuery, sigma: float) -> tuple[float, str]:
        found = self._bound(query, sigma, "known", query.released)
        watcher = f"{query.observer} about any other, even if it knows the whole path"
        return found.epsilon, f"{watcher}; by: {found.name}" if found.name else watcher

    def hidden(self, query: BoundsQuery, sigma: float) -> float | None:
        return None if query.cap is not None else self._bound(query, sigma, "hidden", False).epsilon

    def _bound(self, query: BoundsQuery, sigma: float, path: bounds.Path, released: bool) -> bounds.NetworkBound:
        size = (query.users, query.length, sigma, query.total_sensitivity, query.delta, released, query.colluders)
        return bounds.network_bound(query.asked.walk, *size, query.cap, path)

    def local(self, query: BoundsQuery, sigma: float) -> tuple[float, str]:
        count = self.contributions(query)
        value = bounds.local_epsilon(count, sigma, query.total_sensitivity, self.local_delta(query))
        return value, f"exact, for {count} contributions of one user"

    def local_sigma(self, query: BoundsQuery, epsilon: float) -> tuple[float, str]:
        count, reach = self.contributions(query), query.total_sensitivity
        value = calibrate.sigma(epsilon, self.local_delta(query), reach, privacy="local", n_contributions=count)
        return value, f"for {count} contributions of one user"

    def length(self, query: BoundsQuery) -> dict[str, Any]:
        return {"topology": Complete.kind, "n_steps": query.length}

    def hidden_sigma(self, query: BoundsQuery, epsilon: float) -> float | None:
        if query.cap is not None:
            return None
        walk = {"n_users": query.users, "n_steps": query.length, "colluders": query.colluders}
        reach = query.total_sensitivity
        return calibrate.sigma(epsilon, query.delta, reach, task=query.asked.walk, path="hidden", **walk)  # type: ignore[arg-type]

    def response_epsilon(self, query: BoundsQuery, buckets: int, gamma: float) -> float:
        from network_dp.accounting import shuffle

        size = (query.users, query.length, buckets, gamma)
        return shuffle.complete_epsilon(*size, query.delta, query.released, query.colluders)

    def answers(self, query: BoundsQuery, gamma: float) -> tuple[int, int]:
        return query.length, 0


KINDS: Final[Mapping[str, Kind]] = {Ring.kind: RingKind(), Complete.kind: CompleteKind()}
