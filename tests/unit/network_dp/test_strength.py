"""Epsilon in words: the scale, and the bet it bounds (THEORY.md#bet)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network_dp.strength import best_guess, bet, percent_up, strength

EPSILONS = st.floats(0.0, 50.0)


@given(EPSILONS, st.floats(0.0, 1.0))
def test_no_test_between_two_close_laws_beats_the_bound(epsilon: float, delta: float) -> None:
    """The extremal pair: (epsilon, delta)-close laws on four outcomes; a guess takes the likelier law of each."""
    rest, ratio = 1 - delta, math.exp(-epsilon)
    likely, unlikely = rest / (1 + ratio), rest * ratio / (1 + ratio)
    one, other = (delta, likely, unlikely, 0.0), (0.0, unlikely, likely, delta)
    reached = sum(max(a, b) for a, b in zip(one, other, strict=True)) / 2
    assert reached == pytest.approx(best_guess(epsilon, delta), abs=1e-12), "and this pair reaches it"


def test_the_scale_has_three_parts_and_an_end() -> None:
    words = [strength(epsilon) for epsilon in (0.0, 1.0, 1.001, 3.0, 3.001, 1000.0, math.inf)]
    assert words == ["strong", "strong", "medium", "medium", "weak", "weak", "none"]
    assert best_guess(0.0, 0.0) == 0.5 and best_guess(math.inf, 0.0) == best_guess(5000.0, 1e-6) == 1.0


@given(st.floats(0.5, 1.0))
def test_a_percentage_is_rounded_up(share: float) -> None:
    assert float(percent_up(share).removesuffix(" %")) >= share * 100 - 1e-7


def test_a_bet_is_told_with_its_nines() -> None:
    assert "at most 74 % of the time" in bet(1.0, 1e-6)
    assert "at most 99.996 % of the time" in bet(10.0, 1e-6)
    assert "no bound" in bet(math.inf, 1e-6)
