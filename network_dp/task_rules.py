"""What every task must say of itself, with what holds unless it says otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from network_dp.reading import PLAIN, Reading

Rows = Literal["average", "per_visit"]
Accounting = Literal["sum", "sgd"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Texts = tuple[str, ...]

#: Keys that say how tables are read. Left out of the hash of a plan that has none of them.
READING_KEYS: Final = ("columns", "categories", "edges", "label", "labels", "ranges")

#: Rounding the data to the grid adds at most this much to the sensitivity, relatively.
ROUNDING: Final = 2.0**-10


class Spec:
    """What holds unless a task says otherwise."""

    __slots__ = ()

    additive: ClassVar[bool] = True  # the token is the sum of the contributions; else an iterate they move
    own_code: ClassVar[bool] = False  # made by code of the users, which only they can judge
    bounded: ClassVar[bool] = True  # what a contribution may be can be told from the plan
    contracts: ClassVar[bool] = True  # later steps make earlier shifts no larger (THEORY.md#sgd)
    from_zero: ClassVar[bool] = True  # the walk starts with a token of zeros; else with what the users' code says
    accounting: ClassVar[Accounting] = "sum"  # what an observer sees: sums (exact), or iterates of a contraction
    estimates: ClassVar[str] = "mean of contributions"
    per_user: ClassVar[bool] = True  # the estimate is a mean over users; else their sum
    gradient_bound: ClassVar[float | None] = None  # L, where contributions are gradients
    diameter: ClassVar[float | None] = None  # of the ball that iterates are projected to
    without_law: ClassVar[str] = (  # why its target cannot be met by calculation on a known path
        'task.schedule: the target is met by calculation for "constant" steps only; give noise.sigma instead of '
        'noise.epsilon, or use noise.against = "local"'
    )
    means_key: ClassVar[str] = "mean"  # where a result keeps the estimate per contribution

    @property
    def reading(self) -> Reading:
        """How a user's table becomes numbers."""
        return PLAIN

    def names(self) -> Sequence[str] | None:
        """What to call each coordinate of the estimate, where it has a name."""
        return None

    classifies: ClassVar[bool] = False  # the estimate tells two classes apart

    def pure_local_std(self, epsilon: float) -> float:
        """Error of the best answer of one user alone under pure local DP; infinite: none is better than Gaussian."""
        return math.inf

    def forgetting(self, steps: int) -> float:
        """How often contraction divides by e what early steps did, at most: sum of eta_t beta over all steps."""
        return 0.0

    @property
    def loss_in_words(self) -> str:
        return "loss"

    @property
    def has_walk_law(self) -> bool:
        """Is the law of its exposure over random walks known (THEORY.md#before-a-run)?"""
        return True

    @property
    def width(self) -> float:
        """Of what one coordinate of a contribution can be; infinite: not known."""
        return math.inf

    def mechanisms(self, drawn: bool) -> tuple[str, ...]:
        """What can hide its contributions, the usual first; ``drawn``: on a walk whose users are drawn."""
        return ("gaussian",)

    @property
    def per_visit(self) -> bool:
        """Does a contribution depend on how often its user was visited before?"""
        return False

    def largest_grid(self, sensitivity: float) -> float | None:
        """The coarsest grid on which rounding the data costs next to nothing; None: only the noise decides."""
        return None

    def check_grid(self, grid: float) -> None:
        """Raise PlanError for a grid that contributions cannot lie on."""

    def step_sizes(self, steps: Ints) -> Floats | None:
        """Sizes of the moves at these steps, where they differ."""
        return None

    def moved(self, token: Floats, move: Floats, step: int) -> Floats:
        """The token after a contribution and its noise."""
        return token + move

    def remark(self, means: Sequence[float]) -> str | None:
        """On an estimate per contribution that lies outside what contributions can be; None if inside."""
        return None

    @property
    def mean_range(self) -> tuple[float, float] | None:
        """Where every coordinate of a mean over contributions lies; None: not known."""
        return None

    def coordinate(self, index: int) -> str:
        """Name of one coordinate of the estimate."""
        names = self.names()
        return f"number {index + 1}" if names is None else names[index]

    def in_units_of_estimate(self, truth: Sequence[float]) -> tuple[float, ...]:
        """True values as the task estimates them."""
        return tuple(truth)

    def rows_in_words(self, responding: bool, most: int) -> tuple[str, str] | None:
        """What several rows of one user mean: the rule's name and a sentence; None: the task decides it itself."""
        return None

    @property
    def named(self) -> str:
        """As users are told before they take part."""
        return str(getattr(self, "kind", ""))
