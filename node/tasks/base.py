"""What a task is: the part of a run that knows what the token means.

A task is pure: no clock, no socket, no file, no state. Randomness comes in as a `Source`, so a seed replays it. One
visit of the token, in order:

1. `draw`, before the token arrives: everything random of this visit, blind to data and token (THEORY.md#noise-source).
2. `validate` what was received.
3. `contribution`: what the user's data says.
4. `noise_sum`: what the noise adds. How many components it takes may depend on who comes next (the ring's noise
   rule); the components are never drawn again.
5. `apply`: the payload to send.

To add a task, write one file with a subclass of `AdditiveTask` (or a class with these members) and name it in the plan:
`[task] kind = "custom"`, `factory = "module:callable"`, where the callable makes the task from the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from network_dp.errors import UserError
from node.noise import Source
from node.tasks.data import Table

Payload = NDArray[np.int64] | NDArray[np.float64]


class TaskError(UserError, ValueError):
    """A task cannot work with what it was given. The text holds no value (THEORY.md#no-side-channel)."""


class PayloadError(TaskError):
    """A received payload that no user following the plan could have sent: refuse the token."""


@dataclass(frozen=True)
class Noise:
    """All randomness of one visit, drawn once (THEORY.md#noise-once).

    `units` has one row per noise component; a visit that needs j components uses the first j rows, so a change of
    mind about j adds or drops components but redraws none.
    """

    units: Payload


@dataclass(frozen=True)
class LocalData:
    """One user's checked data, in the form its task works on; `clipped` of `checked` values lay outside the bounds."""

    rows: Payload
    labels: NDArray[np.float64] | None
    clipped: int
    checked: int = 0

    def row(self, index: int) -> Payload:
        """x^index (1-based): a user with one value repeats it, a sequence starts again after its last element."""
        row: Payload = self.rows[(index - 1) % len(self.rows)]
        return row


@dataclass(frozen=True)
class Tally:
    """What the token's header counts: real contributions, and cover elements in their place."""

    contributions: int
    cover: int


def require_full_noise(units: int, contribution: Payload | None) -> None:
    """For tasks with noise at every visit: a contribution takes its one component, nothing takes none or one."""
    if units not in ((0, 1) if contribution is None else (1,)):
        raise TaskError(f"{units} noise components asked for; each visit of this task has exactly 1")


class Task(Protocol):
    """The public interface between a task and whatever moves the token."""

    dtype: Literal["int64", "float64"]  # of the payload
    dimension: int  # of the payload
    payload_max: float  # no coordinate of an honest walk is ever larger; `validate` lets three times as much pass
    quick: bool  # cheap enough to compute before the receipt is acknowledged; must not depend on the data
    noise_every_visit: bool  # True: each visit needs its own noise on every topology, False: the ring's rule may decide
    noise_only_is_cover: bool  # True: a visit past the cap adds one cover element
    opening_cover: int  # cover elements in `initial`
    closing_cover: int  # cover elements in `closing`

    def prepare(self, table: Table) -> LocalData:
        """Check and clip the user's data, before the run (THEORY.md#blind-routing); DataError names file, row and
        column."""
        ...

    def initial(self, source: Source) -> Payload:
        """The payload the walk starts from: zeros, plus `opening_cover` cover elements."""
        ...

    def draw(self, source: Source) -> Noise:
        """Everything random of one visit."""
        ...

    def draw_many(self, source: Source, count: int) -> list[Noise]:
        """As ``count`` times `draw`, each for one visit of its own; cheaper together for a short payload."""
        ...

    def validate(self, payload: Payload) -> None:
        """Raise PayloadError unless an honest user could have sent it. Depends on the payload only."""
        ...

    def contribution(self, received: Payload, data: LocalData, index: int) -> Payload:
        """What the data says in this user's index-th contribution (1-based), without noise."""
        ...

    def noise_sum(self, noise: Noise, units: int, contribution: Payload | None) -> Payload:
        """What the first `units` components add to the contribution, or on their own when it is None."""
        ...

    def apply(self, received: Payload, contribution: Payload | None, noise: Payload | None, step: int) -> Payload:
        """The next payload, a new array, at the token's 1-based `step`. Both None: forwarded unchanged."""
        ...

    def closing(self, source: Source) -> Payload | None:
        """Cover elements the last user adds before a release (THEORY.md#cover-elements), or None when the task has
        none."""
        ...

    def finish(self, payload: Payload, tally: Tally) -> Mapping[str, Any]:
        """The estimate, ready for JSON; the main answer is under "value"."""
        ...
