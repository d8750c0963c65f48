"""Exact uniform integers and biased coins, from uniform words."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from node.noise.source import Source

Shape = int | tuple[int, ...]
WORD_VALUES = 1 << 64


def size_of(shape: Shape) -> int:
    """Number of elements of an array of this shape."""
    return math.prod(shape) if isinstance(shape, tuple) else shape


def uniform_below(bound: int, shape: Shape, source: Source) -> NDArray[np.int64]:
    """Independent uniform draws from {0, ..., bound - 1}.

    A word is reduced modulo `bound`; words in the incomplete last stretch of 2^64 are drawn again, so every
    residue has exactly the same number of words behind it.
    """
    if not 1 <= bound <= 1 << 63:
        raise ValueError(f"bound is {bound}; it must be from 1 to 2**63")
    last_fair = np.uint64(WORD_VALUES - WORD_VALUES % bound - 1)
    words = source.words(size_of(shape))
    unfair = words > last_fair
    while unfair.any():
        words[unfair] = source.words(int(unfair.sum()))
        unfair = words > last_fair
    divisor = np.uint64(bound)
    # numpy divides by a scalar several times faster than it takes the remainder.
    words -= words // divisor * divisor
    return words.astype(np.int64).reshape(shape)


def bernoulli(p: Fraction | float, shape: Shape, source: Source) -> NDArray[np.bool_]:
    """Independent coins that are True with probability exactly p (a float stands for the rational it is).

    Lazy comparison of a uniform real with p, 64 bits at a time: only a word equal to the leading word of p leaves
    the question open, and then the remaining digits of p decide it in the same way.
    """
    p = Fraction(p)
    if not 0 <= p <= 1:
        raise ValueError("a probability must lie between 0 and 1")
    if p == 1:
        return np.ones(shape, dtype=np.bool_)
    leading, rest = divmod(p * WORD_VALUES, 1)
    words = source.words(size_of(shape))
    heads = words < np.uint64(leading)
    if rest > 0:
        tied = words == np.uint64(leading)
        if tied.any():
            heads[tied] = bernoulli(rest, int(tied.sum()), source)
    return heads.reshape(shape)


def geometric_half(count: int, source: Source) -> NDArray[np.int64]:
    """Independent draws with P(V = k) = 2^-(k+1), k >= 0: fair coins before the first success."""
    words = source.words(count)
    lowest_bit = words & (~words + np.uint64(1))
    # A power of two is exact in float64; frexp(2**k) has exponent k + 1, frexp(0) has 0.
    tails = np.frexp(lowest_bit.astype(np.float64))[1].astype(np.int64) - 1
    empty = words == 0
    if empty.any():
        tails[empty] = 64 + geometric_half(int(empty.sum()), source)
    return tails
