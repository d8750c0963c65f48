"""What is computed: the tasks a plan can name, each a value that owns its public rules.

A spec says how large a contribution can be, how far apart two of them are, and what a promise about them needs. Nobody
else looks at which kind it is: a new one is a class with these members, a line in ``plan_reader`` that reads its keys,
and the code that computes it (``node.tasks``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np

from network_dp.errors import PlanError
from network_dp.model_spec import ModelTask
from network_dp.reading import Reading, as_codes
from network_dp.task_rules import ROUNDING, Accounting, Floats, Ints, Rows, Spec, Texts
from network_dp.utility import histogram_std

_PER_VISIT = "visit k contributes row k, after the last row the first again; at most {} rows per user"


@dataclass(frozen=True, slots=True)
class SumTask(Spec):
    """Sum or mean of vectors with every coordinate in [lower, upper]; ``norm`` bounds the L2 norm instead.

    ``rows``: what several rows of one user mean. "average": each row is clipped, and their average is the user's one
    value, the same at every visit. "per_visit": visit k contributes row k, after the last row the first again.
    """

    kind: Literal["sum", "mean"]
    dimension: int
    lower: float
    upper: float
    norm: float | None
    rows: Rows = "average"
    columns: Texts | None = None  # of a table with names, as many as the dimension

    @property
    def reading(self) -> Reading:
        return Reading(self.columns)

    def names(self) -> Sequence[str] | None:
        return self.columns

    def pure_local_std(self, epsilon: float) -> float:
        """Laplace noise on one number."""
        return math.sqrt(2.0) * self.width / epsilon if self.dimension == 1 else math.inf

    @property
    def estimates(self) -> str:  # type: ignore[override]  # two kinds share the class
        return f"{self.kind} over users"

    @property
    def per_user(self) -> bool:  # type: ignore[override]
        return self.kind == "mean"

    @property
    def per_visit(self) -> bool:
        return self.rows == "per_visit"

    @property
    def coordinate_bound(self) -> float:
        return self.norm if self.norm is not None else max(abs(self.lower), abs(self.upper))

    @property
    def width(self) -> float:
        return 2 * self.norm if self.norm is not None else self.upper - self.lower

    @property
    def mean_range(self) -> tuple[float, float] | None:
        return (self.lower, self.upper) if self.norm is None else (-self.norm, self.norm)

    @property
    def bounds_in_words(self) -> str:
        return f"[{self.lower:g}, {self.upper:g}]" if self.norm is None else f"L2 norm {self.norm:g}"

    @property
    def named(self) -> str:
        return f'{self.kind}, rows = "{self.rows}"'

    def mechanisms(self, drawn: bool) -> tuple[str, ...]:
        return ("gaussian",) if drawn else ("gaussian", "laplace")

    def sensitivity_on(self, grid: float) -> float:
        if self.norm is not None:
            return 2.0 * self.norm + math.sqrt(self.dimension) * grid
        low, high = grid_bounds(self.lower, self.upper, grid)
        return math.sqrt(self.dimension) * (high - low)

    def largest_grid(self, sensitivity: float) -> float | None:
        if self.norm is None:  # each bound moves outwards by less than one step
            return self.width / 2.0 * ROUNDING
        return _vector_grid(self.dimension, sensitivity)

    def out_of_bounds(self, contribution: Sequence[float], unit: float, responding: bool) -> str | None:
        if self.norm is not None:
            size = math.hypot(*contribution) * unit
            limit = self.norm + math.sqrt(self.dimension) * unit / 2
            return None if size <= limit * (1 + 1e-12) else f"its contribution has norm {size:.6g} > {limit:.6g}"
        low, high = grid_bounds(self.lower, self.upper, unit)
        good = low / unit <= min(contribution) and max(contribution) <= high / unit
        return None if good else f"its contribution leaves [{low:g}, {high:g}]"

    def remark(self, means: Sequence[float]) -> str | None:
        if self.norm is None:
            return _outside(means, self.lower, self.upper, "means" if len(means) > 1 else "mean")
        length = math.hypot(*means)
        if length <= self.norm:
            return None
        return f"the mean has norm {length:.4g}, above the public bound {self.norm:g}: only noise can take it there"

    def rows_in_words(self, responding: bool, most: int) -> tuple[str, str] | None:
        average = "a user's value is the average of its rows, each clipped to the bounds first"
        return self.rows, _PER_VISIT.format(most) if self.per_visit else average


@dataclass(frozen=True, slots=True)
class HistogramTask(Spec):
    """Counts over buckets 0 .. buckets-1; a row is one bucket index.

    ``rows``: "average" contributes the shares of the user's rows in the buckets (randomised response takes one row
    only); "per_visit": visit k contributes row k, after the last row the first again.
    """

    kind: Literal["histogram"]
    buckets: int
    rows: Rows = "average"
    columns: Texts | None = None  # the one column of a table with names
    categories: Texts | None = None  # bucket k is this text
    edges: tuple[float, ...] | None = None  # bucket k is [edges[k], edges[k+1]), the last one closed

    @property
    def reading(self) -> Reading:
        return Reading(self.columns, as_codes(self.categories), self.edges or ())

    def pure_local_std(self, epsilon: float) -> float:
        """One randomised response: e^epsilon = 1 + L (1 - gamma)/gamma."""
        gamma = self.buckets / (math.expm1(epsilon) + self.buckets)
        return histogram_std(1, self.buckets, gamma)

    def names(self) -> Sequence[str] | None:
        if self.edges is None:
            return self.categories
        return [f"{low:g} to {high:g}" for low, high in pairwise(self.edges)]

    estimates: ClassVar[str] = "share of each bucket"
    means_key: ClassVar[str] = "value"

    @property
    def dimension(self) -> int:
        return self.buckets

    @property
    def per_visit(self) -> bool:
        return self.rows == "per_visit"

    @property
    def coordinate_bound(self) -> float:
        return 1.0

    @property
    def width(self) -> float:
        return 1.0

    @property
    def bounds_in_words(self) -> str:
        if self.edges is not None:
            return f"[{self.edges[0]:g}, {self.edges[-1]:g}]"
        return f"buckets 0 to {self.buckets - 1}"

    @property
    def named(self) -> str:
        return f'{self.kind}, rows = "{self.rows}"'

    def mechanisms(self, drawn: bool) -> tuple[str, ...]:
        return ("rr", "gaussian")

    def sensitivity_on(self, grid: float) -> float:
        """Shares are rounded to sum to one: non-negative vectors with sum 1 are at most sqrt(2) apart."""
        return math.sqrt(2.0)

    def largest_grid(self, sensitivity: float) -> float | None:
        return 1.0  # counts are whole numbers: they must lie on the grid

    def check_grid(self, grid: float) -> None:
        if grid > 1.0:
            raise PlanError(f"noise.grid = {grid!r}: counts are whole numbers, use 1.0 or less")

    def out_of_bounds(self, contribution: Sequence[float], unit: float, responding: bool) -> str | None:
        one, shares = round(1.0 / unit), self.rows == "average" and not responding
        good = min(contribution) >= 0 and sum(contribution) == one and (shares or max(contribution) == one)
        return None if good else f"its contribution is not {'shares of all buckets' if shares else 'one bucket'}"

    def remark(self, means: Sequence[float]) -> str | None:
        return _outside(means, 0.0, 1.0, "shares")

    @property
    def mean_range(self) -> tuple[float, float] | None:
        return 0.0, 1.0

    def coordinate(self, index: int) -> str:
        names = self.names()
        return f"bucket {index}" if names is None else names[index]

    def in_units_of_estimate(self, truth: Sequence[float]) -> tuple[float, ...]:
        """Counts as shares; shares stay what they are."""
        total = sum(truth)
        return tuple(value / total for value in truth) if total > 0 else tuple(truth)

    def rows_in_words(self, responding: bool, most: int) -> tuple[str, str] | None:
        average = "takes one row per user" if responding else "the shares of a user's rows"
        return self.rows, _PER_VISIT.format(most) if self.per_visit else average


@dataclass(frozen=True, slots=True)
class SgdTask(Spec):
    """Projected noisy SGD on a convex loss; rows are scaled to unit L2 norm (THEORY.md#sgd-rows)."""

    kind: Literal["sgd"]
    loss: Literal["logistic", "ridge", "smoothed_hinge"]
    features: int
    intercept: bool
    step_size: float
    schedule: Literal["constant", "inverse_sqrt"]
    radius: float | None
    label_bound: float  # ridge: |y| <= label_bound
    smoothing: float  # smoothed hinge: width of the quadratic part
    columns: Texts | None = None  # the features of a table with names
    label: str | None = None  # and its label
    labels: Texts | None = None  # two texts: the first is -1, the second 1
    ranges: tuple[tuple[float, float], ...] | None = None  # of each feature, which becomes a number from -1 to 1

    def scaled(self, features: Floats) -> tuple[Floats, int]:
        """The features on one scale, and how many lay outside their public ranges and were moved to the end."""
        if self.ranges is None:
            return features, 0
        low, high = np.array(self.ranges).T
        inside = np.clip(features, low, high)
        return (inside - low) / (high - low) * 2.0 - 1.0, int((inside != features).sum())

    @property
    def reading(self) -> Reading:
        names = None if self.columns is None or self.label is None else (*self.columns, self.label)
        return Reading(names, as_codes(self.labels, (-1.0, 1.0) if self.labels else None))

    def names(self) -> Sequence[str] | None:
        return None if self.columns is None else [*self.columns, "intercept"][: self.dimension]

    additive: ClassVar[bool] = False
    accounting: ClassVar[Accounting] = "sgd"
    estimates: ClassVar[str] = "the model"

    @property
    def dimension(self) -> int:
        return self.features + int(self.intercept)

    @property
    def lipschitz(self) -> float:
        """L on unit-norm rows: 1 for logistic and smoothed hinge, radius + label_bound for ridge."""
        if self.loss == "ridge":
            assert self.radius is not None
            return self.radius + self.label_bound
        return 1.0

    @property
    def gradient_bound(self) -> float | None:  # type: ignore[override]
        return self.lipschitz

    @property
    def diameter(self) -> float | None:  # type: ignore[override]
        return None if self.radius is None else 2 * self.radius

    @property
    def loss_in_words(self) -> str:
        names = {"logistic": "logistic loss", "ridge": "squared loss", "smoothed_hinge": "smoothed hinge loss"}
        return names[self.loss]

    @property
    def smoothness(self) -> float:
        """beta on unit-norm rows: 1/4 logistic, 1 ridge, 1/smoothing for the smoothed hinge."""
        return {"logistic": 0.25, "ridge": 1.0, "smoothed_hinge": 1.0 / self.smoothing}[self.loss]

    @property
    def classifies(self) -> bool:  # type: ignore[override]
        return self.loss != "ridge"

    @property
    def has_walk_law(self) -> bool:
        return self.schedule == "constant"

    def forgetting(self, steps: int) -> float:
        terms = steps if self.schedule == "constant" else 2.0 * math.sqrt(steps)
        return self.step_size * self.smoothness * terms

    @property
    def coordinate_bound(self) -> float:
        raise PlanError('task.kind = "sgd": an SGD token is not on a grid')

    @property
    def bounds_in_words(self) -> str:
        if self.ranges is not None:
            return "of task.ranges"
        return f"labels [{-self.label_bound:g}, {self.label_bound:g}]"

    def sensitivity_on(self, grid: float) -> float:
        return 2.0 * self.lipschitz + math.sqrt(self.dimension) * grid

    def eta(self, step: int) -> float:
        """Step size at 1-based step t: constant, or step_size / sqrt(t)."""
        return self.step_size if self.schedule == "constant" else self.step_size / math.sqrt(step)

    def step_sizes(self, steps: Ints) -> Floats | None:
        if self.schedule == "constant":
            return None
        return np.array([self.eta(int(step)) for step in np.maximum(steps, 1)])

    def moved(self, token: Floats, move: Floats, step: int) -> Floats:
        """tau <- Pi(tau - eta (gradient + noise)) (THEORY.md#sgd)."""
        moved = token - self.eta(step) * move
        norm = float(np.linalg.norm(moved))
        return moved * (self.radius / norm) if self.radius is not None and norm > self.radius else moved

    def out_of_bounds(self, contribution: Sequence[float], unit: float, responding: bool) -> str | None:
        size = math.hypot(*contribution)
        good = size <= self.lipschitz * (1 + 1e-9)
        return None if good else f"its gradient has norm {size:.6g} > L = {self.lipschitz:g}"

    def rows_in_words(self, responding: bool, most: int) -> tuple[str, str] | None:
        return "average", "a contribution is the average gradient of all rows of a user"


@dataclass(frozen=True, slots=True)
class CustomTask(Spec):
    """A task of the user's own: ``factory`` is "module:callable", importable where the node runs."""

    kind: Literal["custom"]
    factory: str
    dimension: int
    sensitivity: float
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    own_code: ClassVar[bool] = True
    bounded: ClassVar[bool] = False

    @property
    def coordinate_bound(self) -> float:
        return self.sensitivity

    @property
    def bounds_in_words(self) -> str:
        return "the bounds of the task"

    @property
    def named(self) -> str:
        return f"{self.kind}, code {self.factory}"

    def sensitivity_on(self, grid: float) -> float:
        return self.sensitivity + math.sqrt(self.dimension) * grid

    def largest_grid(self, sensitivity: float) -> float | None:
        return _vector_grid(self.dimension, sensitivity)

    def out_of_bounds(self, contribution: Sequence[float], unit: float, responding: bool) -> str | None:
        return None


TaskSpec = SumTask | HistogramTask | SgdTask | ModelTask | CustomTask


def usual_step(smoothness: float, steps: int) -> float:
    """1/(beta T), or 1/beta for a single step: as long as early steps are not forgotten, the model is the sum of all
    gradients with the sum of all noises, and their ratio does not depend on the step (docs/CHOOSING.md)."""
    return 1.0 / (smoothness * max(1, steps))


def grid_bounds(lower: float, upper: float, grid: float) -> tuple[float, float]:
    """[lower, upper] widened outwards onto the grid, so that clipping in integers is exact."""
    if grid == 0.0:
        return lower, upper
    return math.floor(lower / grid) * grid, math.ceil(upper / grid) * grid


def _vector_grid(dimension: int, sensitivity: float) -> float:
    """Rounding two vectors moves their distance by at most sqrt(d) steps."""
    return sensitivity / math.sqrt(dimension) * ROUNDING


def _outside(means: Sequence[float], low: float, high: float, what: str) -> str | None:
    beyond = [x for x in means if not low <= x <= high]
    if not beyond:
        return None
    furthest = max(beyond, key=lambda x: max(low - x, x - high))
    which = "the mean lies" if what == "mean" else f"{len(beyond)} of {len(means)} {what} lie"
    where = f"outside the public bounds [{low:g}, {high:g}] (furthest: {furthest:.4g})"
    return f"{which} {where}: only noise can take it there"
