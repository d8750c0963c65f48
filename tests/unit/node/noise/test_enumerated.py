"""The law that the sampler's own code gives, enumerated: every brick, every place in its cell, and the tails.

A sample is a deterministic function of words. All values of a first word are tried; the probability over the second,
with which an undecided brick keeps its value, is found by bisection, for the code must compare and nothing else.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from node.noise import SeededSource, discrete
from node.noise.envelope import BRICKS, Density, Envelope, Gaussian, Laplace, envelope
from node.noise.exact import exp_minus

SCALES = st.fractions(Fraction(1, 2**20), 2**50)


class Words:
    """A source that reads its words from a list, then zeros."""

    secure = False

    def __init__(self, *words: int) -> None:
        self._words = np.array(words, dtype=np.uint64)

    def words(self, count: int) -> NDArray[np.uint64]:
        taken, self._words = self._words[:count], self._words[count:]
        return np.pad(taken, (0, count - taken.size))


def probability_kept(
    bricks: Envelope, brick: NDArray[np.int64], values: NDArray[np.int64], bits: int, *tail: int
) -> NDArray[np.float64]:
    """How often W keeps these, to 2^-bits. The words of ``tail`` are those from which a tail draws its value."""
    kept_at = np.zeros(brick.size, dtype=np.uint64)
    for bit in range(63, 63 - bits, -1):
        tried = kept_at | np.uint64(1 << bit)
        _, kept = discrete._decide(bricks, brick, values.copy(), tried, Words(*tail))
        kept_at = np.where(kept, tried, kept_at)
    _, kept = discrete._decide(bricks, brick, values.copy(), np.zeros_like(kept_at), Words(*tail))
    return np.where(kept, kept_at * 2.0**-64 + 2.0 ** -(bits + 1), 0.0)


def every_first_word(bricks: Envelope) -> NDArray[np.uint64]:
    first = np.arange(BRICKS, dtype=np.uint64) << np.uint64(48)
    return (first[:, None] | np.arange(1 << bricks.shift, dtype=np.uint64)).ravel()


def enumerated_mass(bricks: Envelope, monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """2^16 t times the probability of each integer of the cells."""
    seen: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    def look(
        bricks: Envelope, brick: NDArray[np.int64], values: NDArray[np.int64], *_: object
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        seen.append((brick, values))
        return values, np.zeros(brick.size, dtype=np.bool_)

    words = every_first_word(bricks)
    out = np.empty(words.size, dtype=np.int64)
    with monkeypatch.context() as patched:
        patched.setattr(discrete, "_decide", look)
        refused = discrete._fill(bricks, out, Words(*words.tolist()))
    mass: dict[int, float] = {}
    for y in np.delete(out, refused).tolist():
        mass[y] = mass.get(y, 0.0) + 1.0
    ((brick, values),) = seen
    inside = brick < BRICKS - 2
    kept = probability_kept(bricks, brick[inside], values[inside], 32)
    for y, p in zip(values[inside].tolist(), kept.tolist(), strict=True):
        mass[y] = mass.get(y, 0.0) + p
    return mass


TINY = [
    Gaussian(Fraction(3, 10)),
    Gaussian(Fraction(7, 3)),
    Gaussian(Fraction(150)),
    Laplace(Fraction(1, 2)),
    Laplace(Fraction(40)),
]


@pytest.mark.parametrize("density", TINY)
def test_every_integer_of_the_cells_has_exactly_its_mass(density: Density, monkeypatch: pytest.MonkeyPatch) -> None:
    bricks = envelope(density)
    mass = enumerated_mass(bricks, monkeypatch)
    assert sorted(mass) == list(range(-bricks.tail_start, bricks.tail_start))
    for y, found in mass.items():
        expected = bricks.height * math.exp(-density.phi_exact(abs(y)))
        assert abs(found - expected) < 2.0**-32 * 64, y  # at most 64 open bricks in a stack


@pytest.mark.parametrize("density", [Gaussian(Fraction(7, 3)), Gaussian(Fraction(150)), Laplace(Fraction(40))])
@pytest.mark.parametrize("side", [1, -1])
def test_every_integer_of_the_tails_has_exactly_its_mass(density: Density, side: int) -> None:
    """2^-(V+1) / w times the probability to be kept is C exp(-phi) / t, and no integer is proposed twice."""
    bricks = envelope(density)
    brick = np.array([BRICKS - 2 if side > 0 else BRICKS - 1])
    start = np.array([int(bricks.cell[brick[0]]) << bricks.shift])
    proposed: list[int] = []
    for doublings in range(3):
        for place in range(0, density.width, max(1, density.width // 7)):
            draw = (1 << doublings, place)
            (y,), _ = discrete._decide(bricks, brick, start.copy(), np.zeros(1, np.uint64), Words(*draw))
            proposed.append(abs(int(y)))
            (kept,) = probability_kept(bricks, brick, start, 64, *draw)
            found = kept * 2.0 ** -(doublings + 1) / density.width
            expected = bricks.height / (1 << bricks.shift) * math.exp(-density.phi_exact(abs(int(y))))
            assert math.isclose(found, expected, rel_tol=1e-5, abs_tol=2.0**-60)
            assert int(y) * side == bricks.tail_start + (side < 0) + place + doublings * density.width
    assert len(set(proposed)) == len(proposed)


@given(SCALES, st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_the_stacks_cover_the_law_and_what_is_certain_lies_under_it(scale: Fraction, seed: int) -> None:
    """In rational arithmetic, at both ends of some cells, up to the largest scales."""
    for density in (Gaussian(scale), Laplace(scale)):
        bricks = envelope(density)
        assert bricks.cell.size == BRICKS
        assert 0 <= bricks.shift <= 64 - 16
        assert bricks.tail_bound < 1
        cells = np.random.default_rng(seed).integers(-bricks.n_cells, bricks.n_cells, 5)
        for cell in (*cells.tolist(), -bricks.n_cells, -1, 0, bricks.n_cells - 1):
            certain = int((bricks.cell[: bricks.n_certain] == cell).sum())
            levels = bricks.level[bricks.cell[bricks.n_certain :] == cell]
            assert sorted(levels.tolist()) == list(range(certain, certain + levels.size))
            for y in (cell << bricks.shift, ((cell + 1) << bricks.shift) - 1):
                lower, upper = exp_minus(density.phi_exact(abs(y)), 40)
                assert certain <= bricks.height * lower
                assert bricks.height * upper <= certain + levels.size


@pytest.mark.parametrize("density", [Gaussian(Fraction(7, 3)), Gaussian(Fraction(2**40)), Laplace(Fraction(2**40, 3))])
def test_the_exact_comparison_and_the_fast_one_never_disagree(density: Density) -> None:
    """doubt = 1 sends every brick within its neighbourhood of the law to the exact path."""
    bricks, source = envelope(density), SeededSource(b"agree")
    brick = np.arange(bricks.n_certain, BRICKS - 2)[:: max(1, (BRICKS - bricks.n_certain) // 400)]
    place = source.words(brick.size) & np.uint64((1 << bricks.shift) - 1)
    values = (bricks.cell[brick].astype(np.int64) << bricks.shift) + place.astype(np.int64)
    words = source.words(brick.size)
    _, fast = discrete._decide(bricks, brick, values, words, Words())
    _, exact = discrete._decide(bricks, brick, values, words, Words(), doubt=1.0)
    np.testing.assert_array_equal(fast, exact)
    assert fast.any()
    assert not fast.all()
