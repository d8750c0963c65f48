"""Uniform integers, biased coins and randomised response against their exact probabilities.

Seeded; each threshold would be crossed by a fresh seed with probability below 1e-6.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from node.noise import TRUTH, SeededSource, bernoulli, randomised_response, respond, response_coins, uniform_below
from node.noise.coins import geometric_half

FALSE_ALARM = 1e-6


class Script:
    """A source that reads its words from a list, to reach branches of probability 2^-64."""

    secure = False

    def __init__(self, words: Sequence[int]) -> None:
        self.left = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count, "the script is exhausted"
        return np.array(taken, dtype=np.uint64)


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 97])
def test_uniform_below_is_uniform(bound: int) -> None:
    counts = np.bincount(uniform_below(bound, 100_000, SeededSource(b"u")), minlength=bound)
    assert counts.size == bound
    if bound > 1:
        assert chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize("bound", [2**40 + 15, 2**62 + 1, 2**63])
def test_uniform_below_is_uniform_over_wide_ranges(bound: int) -> None:
    draws = uniform_below(bound, 50_000, SeededSource(b"wide"))
    assert draws.min() >= 0
    assert int(draws.max()) < bound
    cells = np.array([int(d) * 64 // bound for d in draws])
    assert chisquare(np.bincount(cells, minlength=64)).pvalue > FALSE_ALARM


def test_words_of_the_incomplete_stretch_are_drawn_again() -> None:
    # 2^64 mod 3 = 1: exactly one word, the largest, has no fair residue.
    assert uniform_below(3, 2, Script([2**64 - 1, 5, 2**64 - 1, 7])).tolist() == [1, 2]
    assert uniform_below(4, 1, Script([2**64 - 1])).tolist() == [3]


@given(st.integers(1, 2**63), st.integers(0, 2**64 - 1))
@settings(deadline=None)
def test_uniform_below_is_the_residue_of_a_fair_word(bound: int, word: int) -> None:
    if word < 2**64 - 2**64 % bound:
        assert int(uniform_below(bound, 1, Script([word]))[0]) == word % bound


@pytest.mark.parametrize("bound", [0, -1, 2**63 + 1])
def test_uniform_below_refuses_an_impossible_bound(bound: int) -> None:
    with pytest.raises(ValueError, match="bound"):
        uniform_below(bound, 1, SeededSource(b""))


@pytest.mark.parametrize("p", [Fraction(1, 3), 0.5, 0.001, Fraction(999, 1000)])
def test_bernoulli_has_its_probability(p: Fraction | float) -> None:
    n = 400_000
    heads = int(bernoulli(p, n, SeededSource(b"b")).sum())
    assert abs(heads - n * float(p)) < 5 * np.sqrt(n * float(p) * (1 - float(p)))


def test_bernoulli_of_zero_and_one_is_certain() -> None:
    assert not bernoulli(0, (10, 10), SeededSource(b"")).any()
    assert bernoulli(1, (10, 10), SeededSource(b"")).all()


def test_bernoulli_decides_a_tie_by_the_next_bits_of_p() -> None:
    third = 2**64 // 3  # every 64-bit digit of 1/3 is this one
    assert bernoulli(Fraction(1, 3), 1, Script([third, third, third - 1])).tolist() == [True]
    assert bernoulli(Fraction(1, 3), 1, Script([third, third, third + 1])).tolist() == [False]
    assert bernoulli(0.5, 1, Script([2**63])).tolist() == [False]


@pytest.mark.parametrize("p", [-0.1, 1.1, Fraction(-1, 10**30)])
def test_bernoulli_refuses_an_impossible_probability(p: Fraction | float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        bernoulli(p, 1, SeededSource(b""))


def test_geometric_half_has_its_probabilities() -> None:
    counts = np.bincount(geometric_half(1 << 20, SeededSource(b"g")))
    expected = 2.0 ** (19 - np.arange(14))
    observed = np.append(counts[:14], counts[14:].sum())
    assert chisquare(observed, np.append(expected, expected[-1])).pvalue > FALSE_ALARM


def test_geometric_half_goes_on_when_a_whole_word_is_zero() -> None:
    assert geometric_half(3, Script([0, 1 << 63, 1, 0, 0b1000])).tolist() == [64 + 64 + 3, 63, 0]


def test_randomised_response_has_its_probabilities() -> None:
    n, buckets, gamma, truth = 200_000, 5, 0.3, 2
    said = randomised_response(np.full(n, truth), buckets, gamma, SeededSource(b"rr"))
    expected = np.full(buckets, n * gamma / buckets)
    expected[truth] += n * (1 - gamma)
    assert chisquare(np.bincount(said, minlength=buckets), expected).pvalue > FALSE_ALARM


def test_coins_of_a_response_do_not_look_at_the_truth() -> None:
    coins = response_coins(4, 0.5, 1000, SeededSource(b"c"))
    assert set(coins.tolist()) == {TRUTH, 0, 1, 2, 3}
    for truth in range(4):
        said = respond(truth, coins)
        assert (said[coins == TRUTH] == truth).all()
        assert (said[coins != TRUTH] == coins[coins != TRUTH]).all()


@pytest.mark.parametrize("value", [-1, 4])
def test_randomised_response_refuses_a_bucket_that_does_not_exist(value: int) -> None:
    with pytest.raises(ValueError, match="outside 0 to 3"):
        randomised_response(value, 4, 0.5, SeededSource(b""))
