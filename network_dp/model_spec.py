"""Models of a user's own, convex or not: gradients clipped to a public norm (THEORY.md#models)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from network_dp.errors import PlanError
from network_dp.task_rules import Accounting, Floats, Spec


@dataclass(frozen=True, slots=True)
class ModelTask(Spec):
    """``factory`` is "module:callable", importable where the node runs; it makes the model from ``options``.

    A contribution is the model's gradient on the user's rows, clipped to the L2 norm ``clip`` = C: replacing a user's
    data moves it by at most 2C. Clipping is no contraction, so a known path amplifies nothing: there a model has the
    local guarantee only. With a hidden path every step is a subsampled Gaussian, whatever the loss.
    """

    kind: Literal["model"]
    factory: str
    dimension: int
    clip: float
    step_size: float
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    additive: ClassVar[bool] = False
    own_code: ClassVar[bool] = True
    contracts: ClassVar[bool] = False
    from_zero: ClassVar[bool] = False
    accounting: ClassVar[Accounting] = "sgd"
    estimates: ClassVar[str] = "the model"
    without_law: ClassVar[str] = (
        'task.kind = "model": on a known path a loss that need not be convex has the local guarantee only; use '
        'walk.path = "hidden", or noise.against = "local" with caps.contributions'
    )

    @property
    def lipschitz(self) -> float:
        return self.clip

    @property
    def radius(self) -> float | None:
        return None

    @property
    def has_walk_law(self) -> bool:
        return False

    @property
    def coordinate_bound(self) -> float:
        raise PlanError('task.kind = "model": its token is not on a grid')

    @property
    def bounds_in_words(self) -> str:
        return f"gradients clipped to L2 norm {self.clip:g}"

    @property
    def named(self) -> str:
        return f"{self.kind}, code {self.factory}"

    def sensitivity_on(self, grid: float) -> float:
        return 2.0 * self.clip

    def eta(self, step: int) -> float:
        return self.step_size

    def moved(self, token: Floats, move: Floats, step: int) -> Floats:
        return np.asarray(token - self.step_size * move, dtype=np.float64)

    def out_of_bounds(self, contribution: Sequence[float], unit: float, responding: bool) -> str | None:
        size = math.hypot(*contribution)
        good = size <= self.clip * (1 + 1e-9)
        return None if good else f"its gradient has norm {size:.6g} > C = {self.clip:g}"

    def rows_in_words(self, responding: bool, most: int) -> tuple[str, str] | None:
        return "average", f"a contribution is the model's gradient on all rows of a user, clipped to norm {self.clip:g}"
