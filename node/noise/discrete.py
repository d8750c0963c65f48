"""Exact discrete Gaussian and discrete Laplace noise on the integers.

Both have a probability mass function proportional to exp(-phi(|y|)) with phi rational, growing and convex:

    Gaussian of scale sigma   phi(y) = y^2 / (2 sigma^2)
    Laplace of scale b        phi(y) = y / b

**Proposal.** The integers are cut into cells of t = 2^shift. On cell j stand N_j bricks of height 1, no fewer than
C exp(-phi) at any of its integers; two more bricks stand for the tails; altogether there are 2^16. One uniform word
gives a uniform brick (its top 16 bits) and a uniform place in the brick's cell (its low `shift` bits): each of the N_j
bricks under an integer y of cell j is proposed together with y with probability 2^-16 / t.

**Acceptance.** With W uniform on [0, 1), brick number i = 0, 1, .. keeps y if i + W < C exp(-phi(y)): with probability
min(1, max(0, C exp(-phi(y)) - i)), which over all i < N_j sums to C exp(-phi(y)). So one word ends in y with
probability 2^-16 C exp(-phi(y)) / t. A refused word is replaced by a new one, for as long as it takes.

**Tails.** The tail's brick goes on to z = U + wV, U uniform on {0, ..., w-1} and P(V = k) = 2^-(k+1): each z >= 0 has
exactly one such (U, V) and probability 2^-(V+1) / w. |y| = s + z (s the first integer beyond the cells) is kept with
probability 2^(V+1) (C w / t) exp(-phi(s + z)), which makes 2^-16 C exp(-phi(y)) / t once more. It is at most 1: phi is
convex and phi(0) = 0, hence phi(s + wV) >= phi(s) + phi(wV) >= phi(s) + V ln 2, and s is far enough out
(`Envelope.tail_bound`, tested). Every integer therefore has its exact mass, up to one common factor.

**Why no rounding decides a sample.** Nineteen of twenty bricks lie wholly under the mass function and keep whatever is
proposed: nothing is compared. Otherwise 64 bits of W are drawn and C exp(-phi(y)) is computed in float64 with a proven
enclosure (`MARGIN`, `_DOUBT`). If all reals i + W that begin so lie on one side of it, the answer is certain. Where
they do not (once in millions of samples) `is_below_exp` decides in rational arithmetic, on more random bits and with
more digits of exp. N_j and the number of certain bricks are rounded to the safe side in the same way.

Values are int64: a tail of more than 4096 doublings, probability below 2^-4096, raises OverflowError.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from node.noise.coins import Shape, geometric_half, size_of, uniform_below
from node.noise.envelope import BRICKS_BITS, Envelope, Gaussian, Laplace, envelope
from node.noise.exact import is_below_exp
from node.noise.source import Source

SCALE_MIN = Fraction(1, 1 << 20)
SCALE_MAX = Fraction(1 << 50)  # brick and place fit one word, and 4096 doublings int64

# Half-width of the float64 enclosure of the comparison, relative to 1 + C exp(-phi) <= 2^16: wider than the 2^-35 of
# C exp(-phi), the 2^-52 of i + W, and the 2^-64 of W that is not drawn yet, together.
_DOUBT = 2.0**-32
_BATCH = 1 << 14  # numbers: the temporaries stay in cache and a node stays small


def discrete_gaussian(scale: Fraction | float, shape: Shape, source: Source) -> NDArray[np.int64]:
    """Independent integers with P(y) proportional to exp(-y^2 / (2 scale^2)).

    `scale` is sigma in grid steps; from about 1 on it is the standard deviation to many digits.
    """
    return _sample(envelope(Gaussian(_checked(scale))), size_of(shape), source).reshape(shape)


def discrete_laplace(scale: Fraction | float, shape: Shape, source: Source) -> NDArray[np.int64]:
    """Independent integers with P(y) proportional to exp(-|y| / scale); `scale` in grid steps."""
    return _sample(envelope(Laplace(_checked(scale))), size_of(shape), source).reshape(shape)


def _checked(scale: Fraction | float) -> Fraction:
    exact = Fraction(scale)  # a float stands for the rational it is; nan and inf are refused here
    if not SCALE_MIN <= exact <= SCALE_MAX:
        raise ValueError(f"noise scale is {float(exact):g} grid steps; it must be from 2**-20 to 2**50")
    return exact


def _sample(bricks: Envelope, count: int, source: Source) -> NDArray[np.int64]:
    """Places that were refused are filled anew; which ones they are tells nothing of the values at the others."""
    out = np.empty(count, dtype=np.int64)
    starts = range(0, count, _BATCH)
    refused = [start + _fill(bricks, out[start : start + _BATCH], source) for start in starts]
    again = np.concatenate(refused) if refused else out
    if again.size:
        out[again] = _sample(bricks, again.size, source)
    return out


def _fill(bricks: Envelope, out: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
    """Propose a value for every place of `out`; the places whose value is refused."""
    words = source.words(out.size)
    brick = (words >> np.uint64(64 - BRICKS_BITS)).view(np.int64)
    words &= np.uint64((1 << bricks.shift) - 1)
    out[:] = bricks.cell.take(brick)
    out <<= bricks.shift
    out |= words.view(np.int64)
    open_places = np.flatnonzero(brick >= bricks.n_certain)
    values, kept = _decide(bricks, brick[open_places], out[open_places], source.words(open_places.size), source)
    out[open_places] = values
    return open_places[~kept]


def _decide(
    bricks: Envelope,
    brick: NDArray[np.int64],
    values: NDArray[np.int64],
    words: NDArray[np.uint64],
    source: Source,
    doubt: float = _DOUBT,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The values, those of the tails now drawn, and which of them are kept; each W begins with the bits of its word.

    A larger `doubt` sends more of them to the exact comparison; the answers are the same.
    """
    level = bricks.level[brick - bricks.n_certain]
    tail = brick >= bricks.cell.size - 2
    threshold = bricks.height * np.exp(-bricks.density.phi(np.abs(values)))
    threshold[tail] = bricks.tail_bound
    drawn = level + words * 2.0**-64
    slack = doubt * (1 + threshold)
    kept: NDArray[np.bool_] = (drawn < threshold - slack) & ~tail
    for i in np.flatnonzero(~kept & (drawn < threshold + slack)):
        weight, magnitude = Fraction(bricks.height), abs(int(values[i]))
        if tail[i]:
            sign = -1 if values[i] < 0 else 1
            doublings = int(geometric_half(1, source)[0])
            place = int(uniform_below(bricks.density.width, 1, source)[0]) + bricks.density.width * doublings
            magnitude = bricks.tail_start + (sign < 0) + place  # the cells end at tail_start - 1 and -tail_start
            weight = bricks.tail_weight * 2**doublings
            values[i] = sign * magnitude
        kept[i] = is_below_exp(int(level[i]), int(words[i]), weight, bricks.density.phi_exact(magnitude), source)
    return values, kept
