"""The laws that additive noise is tested against, standardised to scale 1: one value for each mechanism."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Final, Protocol

import numpy as np
from scipy.special import gammaincc, ndtr, ndtri

from analyzer.read.tables import Floats, Ints
from network_dp.plan import Plan

FINE: Final = 0.01  # a grid step of so many stds or less hardly shows in a distribution function


class NoiseLaw(Protocol):
    """What the tests need to know of a noise component."""

    bounded_scores: ClassVar[bool]  # is a score bounded by itself, not only as a sum of many?

    def standardised(self, z: Floats, units: Ints) -> Floats:
        """Sums of ``units`` components, in sizes of one, as variables of the law of one component."""
        ...

    def sizes(self, absolute: Floats, square: Floats, count: int, half: float) -> tuple[Floats, Floats]:
        """Its size statistic, and the same with every number half a grid step larger."""
        ...

    def cdf(self, z: Floats) -> Floats: ...

    def quantile(self, p: Floats) -> Floats: ...

    def density(self, z: Floats) -> Floats: ...

    def scores(self, z: Floats, resolution: float) -> Floats:
        """Sub-Gaussian numbers of mean 0 for tests of correlation."""
        ...


class GaussianLaw:
    """Noise in standard deviations."""

    bounded_scores: ClassVar[bool] = False

    def standardised(self, z: Floats, units: Ints) -> Floats:
        return np.asarray(z / np.sqrt(units)[:, None], dtype=np.float64)

    def sizes(self, absolute: Floats, square: Floats, count: int, half: float) -> tuple[Floats, Floats]:
        return square, square + 2 * half * absolute + count * half**2

    def cdf(self, z: Floats) -> Floats:
        return np.asarray(ndtr(z), dtype=np.float64)

    def quantile(self, p: Floats) -> Floats:
        return np.asarray(ndtri(p), dtype=np.float64)

    def density(self, z: Floats) -> Floats:
        return np.asarray(np.exp(-z * z / 2) / math.sqrt(2 * math.pi), dtype=np.float64)

    def scores(self, z: Floats, resolution: float) -> Floats:
        return z


class LaplaceLaw:
    """Noise in scales; sums of several become the scale-1 variable with the same distribution function."""

    bounded_scores: ClassVar[bool] = True

    def standardised(self, z: Floats, units: Ints) -> Floats:
        z = z.copy()
        for count in np.unique(units[units > 1]).tolist():
            some = units == count
            tail = np.maximum(2 * laplace_tail(np.abs(z[some]), count), 1e-300)
            z[some] = -np.sign(z[some]) * np.log(tail)
        return z

    def sizes(self, absolute: Floats, square: Floats, count: int, half: float) -> tuple[Floats, Floats]:
        return absolute, absolute + count * half

    def cdf(self, z: Floats) -> Floats:
        tail = 0.5 * np.exp(-np.abs(z))
        return np.asarray(np.where(z < 0, tail, 1 - tail), dtype=np.float64)

    def quantile(self, p: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(p < 0.5, np.log(2 * p), -np.log(2 * (1 - p))), dtype=np.float64)

    def density(self, z: Floats) -> Floats:
        return np.asarray(0.5 * np.exp(-np.abs(z)), dtype=np.float64)

    def scores(self, z: Floats, resolution: float) -> Floats:
        fine = resolution <= FINE
        size = ndtri(1 - 0.5 * np.exp(-np.minimum(np.abs(z), 35.0))) if fine else 1 - np.exp(-np.abs(z))
        return np.asarray(np.sign(z) * size, dtype=np.float64)


def laplace_tail(size: Floats, units: int) -> Floats:
    """P(X >= size) of a sum X of ``units`` Laplace variables of scale 1, size >= 0.

    X is the difference of two Gamma(j) variables; its density is e^-x sum_k w_k x^(j-1-k) / (j-1-k)! with
    w_k = C(j-1+k, k) / 2^(j+k), k < j."""
    weights = [math.comb(units - 1 + k, k) / 2 ** (units + k) for k in range(units)]
    tails = (weight * gammaincc(units - k, size) for k, weight in enumerate(weights))
    return np.asarray(sum(tails), dtype=np.float64)


_LAWS: Final[Mapping[str, NoiseLaw]] = {"gaussian": GaussianLaw(), "laplace": LaplaceLaw()}


def law_of(plan: Plan) -> NoiseLaw:
    """Of the plan's additive noise (an answer that is drawn has none, and the Gaussian stands in)."""
    return _LAWS.get(plan.noise.mechanism, _LAWS["gaussian"])
