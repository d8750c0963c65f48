"""L-ary randomised response (THEORY.md#histograms): the truth with probability 1 - gamma, else a uniform bucket."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from node.noise.coins import Shape, bernoulli, uniform_below
from node.noise.source import Source

TRUTH = -1


def response_coins(n_buckets: int, gamma: Fraction | float, shape: Shape, source: Source) -> NDArray[np.int64]:
    """All the randomness of a response, drawn without the data: `TRUTH`, or the bucket to say instead.

    The uniform bucket may be the true one.
    """
    bucket = uniform_below(n_buckets, shape, source)
    lie = bernoulli(gamma, shape, source)
    return np.where(lie, bucket, TRUTH)


def respond(truth: ArrayLike, coins: NDArray[np.int64]) -> NDArray[np.int64]:
    """The buckets that are said."""
    return np.where(coins == TRUTH, np.asarray(truth, dtype=np.int64), coins)


def randomised_response(value: ArrayLike, n_buckets: int, gamma: Fraction | float, source: Source) -> NDArray[np.int64]:
    """Independent responses to the buckets in `value`, each in {0, ..., n_buckets - 1}."""
    truth = np.asarray(value, dtype=np.int64)
    if truth.size and not (truth.min() >= 0 and truth.max() < n_buckets):
        raise ValueError(f"a bucket is outside 0 to {n_buckets - 1}")
    return respond(truth, response_coins(n_buckets, gamma, truth.shape, source))
