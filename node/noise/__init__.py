"""Exact random noise on the integers, from the operating system's CSPRNG (THEORY.md#noise-source, #grid; ADR 2)."""

from node.noise.coins import Shape, bernoulli, uniform_below
from node.noise.discrete import discrete_gaussian, discrete_laplace
from node.noise.response import TRUTH, randomised_response, respond, response_coins
from node.noise.source import SeededSource, Source, SystemSource

__all__ = [
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
