"""What tasks have in common whose contributions are gradients: tau <- Pi(tau - eta_t (gradient + noise)).

Gradient and noise are multiples of a grid of about 2^-40 sigma, and float64 holds their sum exactly, so the noisy
gradient has no low-order digits for the data to shine through (THEORY.md#grid).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from network_dp.plan import ModelTask, Plan, PlanError, SgdTask
from node.noise import Source, discrete_gaussian
from node.tasks.additive import add
from node.tasks.base import Noise, Payload, PayloadError, TaskError, require_full_noise
from node.tasks.fixed_point import REISSUES_MAX, to_grid

GRID_BITS = 40
EXACT_MAX = 1 << 52  # multiples of the grid up to here, and sums of two, are exact in float64
BALL_SLACK = 1e-9  # a projected point may lie outside its ball by rounding


class GradientTask:
    """The payload is the model, a contribution a gradient of norm at most ``spec.lipschitz``."""

    dtype: Literal["int64", "float64"] = "float64"
    noise_every_visit = True
    noise_only_is_cover = False
    opening_cover = 0
    closing_cover = 0

    def __init__(self, plan: Plan, spec: SgdTask | ModelTask) -> None:
        if plan.noise.sigma is None:
            raise PlanError("noise.sigma is missing: provisioning must compute it before a run")
        self._spec = spec
        self.dimension = spec.dimension
        self.sigma = plan.noise.sigma
        self.grid = math.ldexp(0.5, math.frexp(self.sigma)[1] - GRID_BITS)
        self.unit_scale = Fraction(self.sigma) / Fraction(self.grid)
        if spec.lipschitz / self.grid > EXACT_MAX:
            raise PlanError(f"noise.sigma = {self.sigma:g}: too small beside gradients of norm {spec.lipschitz:g}")
        # Reach of an honest walk, but for a probability below 2^-1000 (see fixed_point.headroom).
        stride = spec.eta(1) * (spec.lipschitz + plan.mechanism.reach * self.sigma)
        self.payload_max = (plan.total_steps + REISSUES_MAX) * stride

    def draw(self, source: Source) -> Noise:
        return self.draw_many(source, 1)[0]

    def draw_many(self, source: Source, count: int) -> list[Noise]:
        steps = discrete_gaussian(self.unit_scale, (count, 1, self.dimension), source)
        return [Noise(units) for units in steps.astype(np.float64) * self.grid]

    def validate(self, payload: Payload) -> None:
        if payload.dtype != np.float64 or payload.shape != (self.dimension,) or not np.isfinite(payload).all():
            raise PayloadError(f"the payload must be {self.dimension} finite numbers")
        if (np.abs(payload) > 3.0 * self.payload_max).any():
            raise PayloadError("the payload is larger than this plan can make it")
        if self._spec.radius is not None and np.linalg.norm(payload) > self._spec.radius * (1 + BALL_SLACK):
            raise PayloadError("the payload lies outside the plan's ball")

    def noise_sum(self, noise: Noise, units: int, contribution: Payload | None) -> Payload:
        require_full_noise(units, contribution)
        return floats(noise.units[0]) * units

    def apply(self, received: Payload, contribution: Payload | None, noise: Payload | None, step: int) -> Payload:
        if noise is None:
            if contribution is not None:
                raise TaskError("a gradient must not leave without noise")
            return received.copy()
        return self.projected(floats(received) - self._spec.eta(step) * floats(add(noise, contribution)))

    def closing(self, source: Source) -> Payload | None:
        return None

    def projected(self, model: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest point of the plan's ball: a projection never moves two models apart."""
        length = float(np.linalg.norm(model))
        if self._spec.radius is None or length <= self._spec.radius:
            return model
        return model * (self._spec.radius / length)

    def on_grid(self, gradient: NDArray[np.float64]) -> Payload:
        return to_grid(gradient, self.grid).astype(np.float64) * self.grid


def floats(values: Payload) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)
