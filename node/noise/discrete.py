"""Exact discrete Gaussian and discrete Laplace noise on the integers (Canonne, Kamath & Steinke 2020).

Both have a probability mass function proportional to exp(-phi(|y|)) with phi rational and growing:

    Gaussian of scale sigma   phi(y) = y^2 / (2 sigma^2)
    Laplace of scale b        phi(y) = y / b

**Proposal.** A fair sign, U uniform on {0, ..., t-1} and V with P(V = k) = 2^-(k+1) give y = U + tV: each y >= 0
has exactly one such (U, V), so it is proposed with probability 2^-V / (2t). **Acceptance.** Keep it with
probability 2^V exp(-phi(y)), and never keep "minus zero": what is kept then has probability proportional to
exp(-phi(|y|)), exactly. The width t is an integer with phi(tV) >= V ln 2 for all V, so that the acceptance
probability is at most 1; on average it is 0.53 (Gaussian) and 0.72 (Laplace) for large scales. This is the
rejection sampler of the paper in base 2 instead of e: powers of 1/2 are free, where every 1/e costs a coin.

**Why no rounding decides a sample.** "Keep" means W < 2^V exp(-phi(y)) for a uniform real W of which the first
64 bits are drawn. The right side is computed in float64, with a proven enclosure (`_MARGIN`). If all reals that
begin with those bits lie on one side of the enclosure, the answer is certain. Otherwise (about once in 2^34
candidates) `_is_below_exp` decides in rational arithmetic, on more random bits and with more digits of exp, for
as long as it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from node.noise.coins import Shape, geometric_half, size_of, uniform_below
from node.noise.source import Source

SCALE_MIN = Fraction(1, 1 << 20)
SCALE_MAX = Fraction(1 << 50)  # y = U + tV then fits int64 up to V = 4096, probability 1 - 2^-4096

# Relative half-width of the float64 enclosure of 2^(64+V) exp(-phi). The relative error of phi is below 2^-50.
# If phi <= 2^13 the exponent (64+V) ln 2 - phi is then off by less than 2^-37 + 2^-40 + 2^-40, and exp by a few units
# in the last place. If phi > 2^13 the value is far below 1 (V <= 4096), inside the absolute slack.
_MARGIN = 2.0**-35
_SLACK = 2.0  # in units of 2^-64: the unknown rest of the word, and the empty range below the smallest word
_CANDIDATES_MAX = 1 << 15  # per batch: the temporaries stay in cache and a node stays small
_DIGITS_FIRST = 40


class _Density(Protocol):
    """An unnormalised probability mass exp(-phi(y)) on y >= 0."""

    @property
    def width(self) -> int:
        """Integer t with phi(t V) >= V ln 2 for every integer V >= 0."""
        ...

    def phi(self, magnitude: NDArray[np.int64]) -> NDArray[np.float64]:
        """phi to within a relative error of 2^-50."""
        ...

    def phi_exact(self, magnitude: int) -> Fraction: ...


@dataclass(frozen=True)
class _Gaussian:
    sigma: Fraction

    @property
    def width(self) -> int:
        return int(self.sigma * Fraction(1178, 1000)) + 1  # 1.178^2 > 2 ln 2; V = 1 is the tightest case

    def phi(self, magnitude: NDArray[np.int64]) -> NDArray[np.float64]:
        ratio = magnitude / float(self.sigma)
        return ratio * ratio * 0.5

    def phi_exact(self, magnitude: int) -> Fraction:
        return Fraction(magnitude) ** 2 / (2 * self.sigma**2)


@dataclass(frozen=True)
class _Laplace:
    b: Fraction

    @property
    def width(self) -> int:
        return int(self.b * Fraction(694, 1000)) + 1  # 0.694 > ln 2

    def phi(self, magnitude: NDArray[np.int64]) -> NDArray[np.float64]:
        return magnitude / float(self.b)

    def phi_exact(self, magnitude: int) -> Fraction:
        return magnitude / self.b


def discrete_gaussian(scale: Fraction | float, shape: Shape, source: Source) -> NDArray[np.int64]:
    """Independent integers with P(y) proportional to exp(-y^2 / (2 scale^2)).

    `scale` is sigma in grid steps; from about 1 on it is the standard deviation to many digits.
    """
    return _sample(_Gaussian(_checked(scale)), shape, source)


def discrete_laplace(scale: Fraction | float, shape: Shape, source: Source) -> NDArray[np.int64]:
    """Independent integers with P(y) proportional to exp(-|y| / scale); `scale` in grid steps."""
    return _sample(_Laplace(_checked(scale)), shape, source)


def _checked(scale: Fraction | float) -> Fraction:
    exact = Fraction(scale)  # a float stands for the rational it is; nan and inf are refused here
    if not SCALE_MIN <= exact <= SCALE_MAX:
        raise ValueError(f"noise scale is {float(exact):g} grid steps; it must be from 2**-20 to 2**50")
    return exact


def _sample(density: _Density, shape: Shape, source: Source) -> NDArray[np.int64]:
    out = np.empty(size_of(shape), dtype=np.int64)
    filled = 0
    while filled < out.size:
        candidates = min(2 * (out.size - filled) + 16, _CANDIDATES_MAX)
        kept = _kept_candidates(density, candidates, source)[: out.size - filled]
        out[filled : filled + kept.size] = kept
        filled += kept.size
    return out.reshape(shape)


def _kept_candidates(density: _Density, count: int, source: Source) -> NDArray[np.int64]:
    signed = uniform_below(2 * density.width, count, source)
    negative = (signed & 1).astype(np.bool_)
    doublings = geometric_half(count, source)
    magnitude = (signed >> 1) + density.width * doublings
    keep = _coins(density, magnitude, doublings, source.words(count), source)
    keep &= ~(negative & (magnitude == 0))
    return np.where(negative, -magnitude, magnitude)[keep]


def _coins(
    density: _Density,
    magnitude: NDArray[np.int64],
    doublings: NDArray[np.int64],
    words: NDArray[np.uint64],
    source: Source,
    margin: float = _MARGIN,
) -> NDArray[np.bool_]:
    """True with probability 2^V exp(-phi(y)), where W begins with the bits of `words` (see the module's text).

    A larger margin sends more candidates to the exact comparison; the answers are the same.
    """
    threshold = np.exp((64 + doublings) * np.log(2.0) - density.phi(magnitude))  # in units of 2^-64
    drawn = words.astype(np.float64)
    below: NDArray[np.bool_] = drawn < threshold * (1 - margin) - _SLACK
    unsure = ~below & (drawn < threshold * (1 + margin) + _SLACK)
    for i in np.flatnonzero(unsure):
        phi = density.phi_exact(int(magnitude[i]))
        below[i] = _is_below_exp(int(words[i]), int(doublings[i]), phi, source)
    return below


def _is_below_exp(first_word: int, doublings: int, phi: Fraction, source: Source) -> bool:
    """Whether W < 2^doublings exp(-phi), for a uniform real W whose first 64 bits are given and the rest are drawn."""
    bits, prefix, digits = 64, first_word, _DIGITS_FIRST
    while True:
        unit = Fraction(1, 1 << (bits + doublings))
        lower, upper = _exp_minus(phi, digits)
        if (prefix + 1) * unit <= lower:
            return True
        if prefix * unit >= upper:
            return False
        prefix = prefix << 64 | int(source.words(1)[0])
        bits, digits = bits + 64, digits + 20


def _exp_minus(phi: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Rationals around exp(-phi) that close in on it as `digits` grows.

    decimal's exp is correctly rounded, so one unit in the last place on either side is a proof.
    """
    if phi > 50 * digits:  # far below any prefix of zeros worth the digits; the limit moves with `digits`
        return Fraction(0), _exp_minus(Fraction(50 * digits), digits)[1]
    down = Context(prec=digits, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
    up = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
    numerator, denominator = Decimal(phi.numerator), Decimal(phi.denominator)
    smallest = down.exp(up.divide(numerator, denominator).copy_negate()).next_minus(down)
    largest = up.exp(down.divide(numerator, denominator).copy_negate()).next_plus(up)
    return Fraction(smallest), Fraction(largest)
