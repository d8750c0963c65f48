"""The two laws, and for each the stacks of bricks under which its mass function is drawn (see `discrete`)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BRICKS_BITS = 16
BRICKS = 1 << BRICKS_BITS
CELLS_PER_SCALE_MIN = 32  # flatter steps refuse less; more cells leave more bricks undecided

# Relative half-width of the float64 enclosure of exp(-phi). The relative error of phi is below 2^-50, so for
# phi < 2^10 the exponent is off by less than 2^-40, and numpy's exp by a few units in the last place of 2^-52. For a
# larger phi the value is below 2^-1000 and an absolute slack covers it.
MARGIN = 2.0**-35


class Density(Protocol):
    """An unnormalised probability mass exp(-phi(|y|)) on the integers, phi convex with phi(0) = 0."""

    @property
    def scale(self) -> Fraction: ...

    @property
    def width(self) -> int:
        """Integer w with phi(w V) >= V ln 2 for every integer V >= 0."""
        ...

    @property
    def reach(self) -> int:
        """Integer r with phi(r) >= 16: what lies beyond is left to the tail."""
        ...

    def phi(self, magnitude: NDArray[np.int64]) -> NDArray[np.float64]:
        """phi to within a relative error of 2^-50."""
        ...

    def phi_exact(self, magnitude: int) -> Fraction: ...


@dataclass(frozen=True)
class Gaussian:
    scale: Fraction

    @property
    def width(self) -> int:
        return int(self.scale * Fraction(1178, 1000)) + 1  # 1.178^2 > 2 ln 2; V = 1 is the tightest case

    @property
    def reach(self) -> int:
        return int(6 * self.scale) + 1

    def phi(self, magnitude: NDArray[np.int64]) -> NDArray[np.float64]:
        ratio = magnitude / float(self.scale)
        return ratio * ratio * 0.5

    def phi_exact(self, magnitude: int) -> Fraction:
        return Fraction(magnitude) ** 2 / (2 * self.scale**2)


@dataclass(frozen=True)
class Laplace:
    scale: Fraction

    @property
    def width(self) -> int:
        return int(self.scale * Fraction(694, 1000)) + 1  # 0.694 > ln 2

    @property
    def reach(self) -> int:
        return int(16 * self.scale) + 1

    def phi(self, magnitude: NDArray[np.int64]) -> NDArray[np.float64]:
        return magnitude / float(self.scale)

    def phi_exact(self, magnitude: int) -> Fraction:
        return magnitude / self.scale


@dataclass(frozen=True)
class Envelope:
    """BRICKS bricks, those of cells -n_cells .. n_cells - 1 and one for each tail: cells n_cells and -n_cells - 1."""

    density: Density
    shift: int  # a cell holds 2^shift integers: cell j those from j 2^shift on
    n_cells: int  # on each side
    height: int  # C: the mass function, times this, is what the bricks are stacked against
    cell: NDArray[np.int16]  # of each brick, those that lie wholly under the mass function first
    n_certain: int
    level: NDArray[np.int64]  # of each brick from `n_certain` on: the bricks below it in its stack

    @property
    def tail_start(self) -> int:
        return self.n_cells << self.shift

    @property
    def tail_weight(self) -> Fraction:
        """A proposal of the tail with V doublings is kept with probability 2^V times this times exp(-phi)."""
        return Fraction(2 * self.height * self.density.width, 1 << self.shift)

    @property
    def tail_bound(self) -> float:
        """At least the probability that any proposal of the tail is kept: phi(s + w V) >= phi(s) + V ln 2."""
        mass = float(np.exp(-self.density.phi(np.array(self.tail_start))))
        return float(self.tail_weight) * mass * (1 + 2 * MARGIN)


@lru_cache(maxsize=8)
def envelope(density: Density) -> Envelope:
    """Depends on the public scale only: processes that fork may share it."""
    cell_size_max = int(density.scale / CELLS_PER_SCALE_MIN)
    shift = max(0, cell_size_max.bit_length() - 1)
    n_cells = (density.reach >> shift) + 1
    cells = np.arange(-n_cells, n_cells)
    ends = np.abs(np.stack([cells << shift, (cells << shift) + (1 << shift) - 1]))
    largest, smallest = (np.exp(-density.phi(magnitude)) for magnitude in (ends.min(axis=0), ends.max(axis=0)))
    height = int((BRICKS - 2 - 2 * n_cells) / (largest.sum() * (1 + 2 * MARGIN)))
    stacked = (height * largest * (1 + MARGIN)).astype(np.int64) + 1  # no less than C exp(-phi), anywhere in the cell
    certain = (height * smallest * (1 - MARGIN)).astype(np.int64)  # no more than it
    stacked[n_cells] += BRICKS - 2 - stacked.sum()  # what is left over lies on a full stack: always refused
    open_bricks = stacked - certain
    first = np.repeat(np.cumsum(open_bricks) - open_bricks, open_bricks)
    level = np.arange(first.size) - first + np.repeat(certain, open_bricks)
    tails = [n_cells, -n_cells - 1]
    return Envelope(
        density=density,
        shift=shift,
        n_cells=n_cells,
        height=height,
        cell=np.concatenate([np.repeat(cells, certain), np.repeat(cells, open_bricks), tails]).astype(np.int16),
        n_certain=int(certain.sum()),
        level=np.append(level, [0, 0]),
    )
