"""Exact random noise on the integers, from the operating system's CSPRNG (THEORY.md#noise-source, #grid; ADR 2)."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from node.noise.coins import Shape, bernoulli, uniform_below
from node.noise.discrete import discrete_gaussian, discrete_laplace
from node.noise.response import TRUTH, randomised_response, respond, response_coins
from node.noise.source import SeededSource, Source, SystemSource

__all__ = [
    "SAMPLERS",
    "TRUTH",
    "SeededSource",
    "Shape",
    "Source",
    "SystemSource",
    "bernoulli",
    "discrete_gaussian",
    "discrete_laplace",
    "randomised_response",
    "respond",
    "response_coins",
    "uniform_below",
]

#: (scale in grid steps, shape, source) -> noise components, for each mechanism that adds noise
SAMPLERS: Final[Mapping[str, Callable[[Fraction, Shape, Source], NDArray[np.int64]]]] = {
    "gaussian": discrete_gaussian,
    "laplace": discrete_laplace,
}
