"""How a contribution is hidden: the mechanisms a plan can name, each a value that owns its rules.

Nobody else looks at which kind it is: a new one is a class with these members, a line in ``MECHANISMS``, and a sampler
(``node.noise``). Sizes are in data units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Literal

MechanismKind = Literal["gaussian", "laplace", "rr"]
SizeKey = Literal["sigma", "scale", "gamma"]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """What everybody may ask; ``given`` is the size in the plan, None until it is calibrated."""

    given: float | None

    kind: ClassVar[MechanismKind]
    size_key: ClassVar[SizeKey]  # the plan's key of its size
    additive: ClassVar[bool] = True  # noise is added to a value; else the answer itself is drawn
    pure: ClassVar[bool] = False  # its epsilon holds with delta = 0
    by_exposure: ClassVar[bool] = False  # its epsilon is a function of the exposure S (THEORY.md#exposure)
    fixed_grid: ClassVar[float | None] = None  # where the grid is no choice
    steps_allowed: ClassVar[tuple[float, float]] = (0.0, math.inf)  # grid steps that one component may have
    reach: ClassVar[int] = 0  # sizes that one component exceeds with probability below 2^-1000
    std_per_size: ClassVar[float] = 1.0

    @property
    def size(self) -> float:
        assert self.given is not None, "a plan that was not calibrated"
        return self.given

    def unit_size(self, unit_count: int) -> float:
        """Size of one of the ``unit_count`` components that make one full noise."""
        return self.size

    def largest_token(
        self, steps: int, n_users: int, bound: Fraction, components: int, unit_steps: Fraction
    ) -> Fraction:
        """The most that can be in a token: every step a contribution of ``bound`` grid steps, every component at its
        reach, all of one sign."""
        return steps * bound + components * self.reach * unit_steps

    def likeliest(self, unit_size: float, grid: float) -> float:
        """An upper bound on the probability of any one value of a noise component."""
        return 1.0


@dataclass(frozen=True, slots=True)
class Gaussian(Mechanism):
    """Discrete Gaussian noise; the formulas of the continuous one hold from 2^10 grid steps on (THEORY.md#grid)."""

    kind: ClassVar[MechanismKind] = "gaussian"
    size_key: ClassVar[SizeKey] = "sigma"
    by_exposure: ClassVar[bool] = True
    steps_allowed: ClassVar[tuple[float, float]] = (2.0**10, 2.0**50)  # where the formulas hold, the sampler's reach
    reach: ClassVar[int] = 40  # exp(-40^2/2)

    def unit_size(self, unit_count: int) -> float:
        return self.size / math.sqrt(unit_count)

    def likeliest(self, unit_size: float, grid: float) -> float:
        # 1 / sum of exp(-k^2 / 2 sigma^2); by Poisson summation that sum is at least sigma sqrt(2 pi).
        return 1 / max(1.0, unit_size / grid * math.sqrt(2 * math.pi))


@dataclass(frozen=True, slots=True)
class Laplace(Mechanism):
    """Discrete Laplace noise of scale b, for single numbers on a ring."""

    kind: ClassVar[MechanismKind] = "laplace"
    size_key: ClassVar[SizeKey] = "scale"
    pure: ClassVar[bool] = True
    reach: ClassVar[int] = 700  # exp(-700)
    std_per_size: ClassVar[float] = math.sqrt(2.0)

    def likeliest(self, unit_size: float, grid: float) -> float:
        return math.tanh(grid / unit_size / 2)


@dataclass(frozen=True, slots=True)
class RandomisedResponse(Mechanism):
    """The true bucket with probability 1 - gamma, else a uniform one (THEORY.md#histograms)."""

    kind: ClassVar[MechanismKind] = "rr"
    size_key: ClassVar[SizeKey] = "gamma"
    additive: ClassVar[bool] = False
    fixed_grid: ClassVar[float | None] = 1.0

    def largest_token(
        self, steps: int, n_users: int, bound: Fraction, components: int, unit_steps: Fraction
    ) -> Fraction:
        return Fraction(3 * steps + 2 * n_users)


#: As plans name them.
MECHANISMS: Final[Mapping[str, type[Mechanism]]] = {kind.kind: kind for kind in (Gaussian, Laplace, RandomisedResponse)}
