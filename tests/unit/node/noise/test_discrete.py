"""Discrete Gaussian and Laplace against their exact probability mass functions, and against OpenDP.

Seeded, except OpenDP's own draws; a fresh seed would cross any threshold with probability below 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import enable_features
from scipy.stats import chi2_contingency, chisquare, norm

from node.noise import SeededSource, SystemSource, discrete_gaussian, discrete_laplace
from node.noise.envelope import Gaussian, Laplace
from node.noise.exact import exp_minus, is_below_exp

FALSE_ALARM = 1e-6
N = 400_000
SCALES = [0.5, 1.0, 3.0, 10.0, 1e3, 1e6, 1e9]
Cdf = Callable[[int], float]


def gaussian_cdf(sigma: float) -> Cdf:
    """P(Y <= k). Summed up to sigma = 1000; beyond, the midpoint rule is off by less than 0.01 / sigma^2."""
    if sigma > 1000:
        return lambda k: float(norm.cdf((k + 0.5) / sigma))
    reach = math.ceil(40 * sigma)
    mass = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    cumulated = np.cumsum(mass) / mass.sum()
    return lambda k: float(cumulated[min(max(k, -reach), reach) + reach])


def laplace_cdf(b: float) -> Cdf:
    """P(Y <= k) = q^-k / (1 + q) for k < 0 and 1 - q^(k+1) / (1 + q) otherwise, q = exp(-1/b)."""
    top = 1 + math.exp(-1 / b)
    return lambda k: math.exp(k / b) / top if k < 0 else 1 - math.exp(-(k + 1) / b) / top


def cell_counts(sample: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.bincount(np.searchsorted(edges, sample, side="left"), minlength=edges.size + 1)


def assert_fits(sample: NDArray[np.int64], scale: float, cdf: Cdf) -> None:
    """Chi-square over cells (-inf, e1], (e1, e2], ..., (ek, inf): single integers where the scale is small."""
    edges = np.unique(np.round(np.linspace(-4 * scale, 4 * scale, 81)).astype(np.int64))
    cumulated = np.array([0.0, *(cdf(int(e)) for e in edges), 1.0])
    expected = np.diff(cumulated) * sample.size
    observed = cell_counts(sample, edges)
    enough = expected >= 5
    observed = np.append(observed[enough], observed[~enough].sum())
    expected = np.append(expected[enough], expected[~enough].sum())
    filled = expected > 0
    assert not observed[~filled].any()
    assert chisquare(observed[filled], expected[filled] * observed.sum() / expected.sum()).pvalue > FALSE_ALARM


@pytest.mark.parametrize("scale", SCALES)
def test_gaussian_has_its_exact_mass_function(scale: float) -> None:
    assert_fits(discrete_gaussian(scale, N, SeededSource(b"gauss")), scale, gaussian_cdf(scale))


@pytest.mark.parametrize("scale", SCALES)
def test_laplace_has_its_exact_mass_function(scale: float) -> None:
    assert_fits(discrete_laplace(scale, N, SeededSource(b"lap")), scale, laplace_cdf(scale))


@pytest.mark.parametrize("scale", SCALES)
def test_gaussian_mean_and_variance(scale: float) -> None:
    sample = discrete_gaussian(scale, N, SeededSource(b"moments")) / scale
    grid = np.arange(-60, 61) if scale < 2 else np.array([])
    mass = np.exp(-(grid**2) / (2 * scale**2))
    variance = float((mass * grid**2).sum() / mass.sum()) / scale**2 if scale < 2 else 1.0
    assert abs(sample.mean()) < 5 * math.sqrt(variance / N)
    assert abs(np.mean(sample**2) - variance) < 5 * math.sqrt(3 / N)  # Var z^2 <= 2.81 at these scales


@pytest.mark.parametrize("scale", SCALES)
def test_laplace_mean_and_variance(scale: float) -> None:
    sample = discrete_laplace(scale, N, SeededSource(b"moments")) / scale
    q = math.exp(-1 / scale)
    variance = 2 * q / (-math.expm1(-1 / scale) * scale) ** 2
    assert abs(sample.mean()) < 5 * math.sqrt(variance / N)
    assert abs(np.mean(sample**2) - variance) < 5 * math.sqrt(20 / N)  # Var z^2 <= 20 at these scales


@pytest.mark.parametrize("scale", [10.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize(
    ("draw", "cdf_of", "deviations"),
    [(discrete_gaussian, gaussian_cdf, (2, 3, 4)), (discrete_laplace, laplace_cdf, (3, 6, 9))],
)
def test_tails_on_both_sides(
    draw: Callable[..., NDArray[np.int64]], cdf_of: Callable[[float], Cdf], deviations: tuple[int, ...], scale: float
) -> None:
    sample = draw(scale, N, SeededSource(b"tails"))
    for k in deviations:
        edge = round(k * scale)
        p = cdf_of(scale)(-edge - 1)
        for count in (int((sample < -edge).sum()), int((sample > edge).sum())):
            assert abs(count - N * p) < 5 * math.sqrt(N * p) + 12


@pytest.mark.parametrize("draw", [discrete_gaussian, discrete_laplace])
@pytest.mark.parametrize("scale", [1e3, 1e9, 2.0**45])
def test_low_bits_are_uniform(draw: Callable[..., NDArray[np.int64]], scale: float) -> None:
    """The artefact that floating-point noise leaves (Mironov 2012): holes and repetitions in the last digits."""
    counts = np.bincount(draw(scale, N, SeededSource(b"bits")) & 63, minlength=64)
    assert chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize("draw", [discrete_gaussian, discrete_laplace])
def test_huge_scales_keep_their_shape(draw: Callable[..., NDArray[np.int64]]) -> None:
    cdf = {discrete_gaussian: gaussian_cdf, discrete_laplace: laplace_cdf}[draw](2.0**45)
    assert_fits(draw(2.0**45, N, SeededSource(b"huge")), 2.0**45, cdf)


def test_the_system_source_gives_the_same_law() -> None:
    assert_fits(discrete_gaussian(3, 100_000, SystemSource()), 3, gaussian_cdf(3))


@pytest.mark.parametrize("scale", [0.5, 3.0, 1e4, 2.0**30, 2.0**40])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_same_law_as_opendp(kind: str, scale: float) -> None:
    enable_features("contrib")
    metric = l2_distance(T="f64") if kind == "gaussian" else l1_distance(T="i64")
    space = vector_domain(atom_domain(T="i64")), metric
    make = make_gaussian if kind == "gaussian" else make_laplace
    theirs = np.array(make(*space, scale=scale)([0] * 20_000))
    ours = {"gaussian": discrete_gaussian, "laplace": discrete_laplace}[kind](scale, 20_000, SeededSource(b"o"))
    edges = np.unique(np.round(np.linspace(-3 * scale, 3 * scale, 25)).astype(np.int64))
    table = np.stack([cell_counts(ours, edges), cell_counts(theirs, edges)])
    table = table[:, table.sum(axis=0) > 10]
    assert chi2_contingency(table).pvalue > FALSE_ALARM / 10  # OpenDP cannot be seeded


def test_a_word_on_the_boundary_is_decided_by_later_bits() -> None:
    """exp(-1) in binary, 64 bits at a time: equal leading words leave the answer open, the next word settles it."""
    lower, _ = exp_minus(Fraction(1), 100)
    first, second = int(lower * 2**64), int(lower * 2**128) % 2**64

    class Next:
        secure = False

        def __init__(self, word: int) -> None:
            self.word = word

        def words(self, count: int) -> NDArray[np.uint64]:
            return np.array([self.word], dtype=np.uint64)

    for shift in (-1, 1):
        assert is_below_exp(0, first + shift, Fraction(1), Fraction(1), Next(0)) is (shift < 0)
        assert is_below_exp(0, first, Fraction(1), Fraction(1), Next(second + shift)) is (shift < 0)


@given(st.fractions(0, 2000, max_denominator=10**12), st.sampled_from([40, 60, 200]))
@settings(max_examples=100, deadline=None)
def test_the_enclosure_of_exp_contains_exp_and_is_narrow(phi: Fraction, digits: int) -> None:
    lower, upper = exp_minus(phi, digits)
    finer_lower, finer_upper = exp_minus(phi, digits + 100)
    assert lower <= finer_lower <= finer_upper <= upper
    assert upper - lower <= upper / 10 ** (digits - 5)
    assert math.isclose(float(lower), math.exp(-float(phi)), rel_tol=1e-9, abs_tol=1e-300)


def test_an_enormous_exponent_still_gets_an_enclosure() -> None:
    lower, upper = exp_minus(Fraction(10**30), 40)
    assert lower == 0
    assert 0 < upper < Fraction(1, 2**2000)


@given(st.fractions(Fraction(1, 2**20), 2**50), st.integers(0, 200))
@settings(deadline=None)
def test_the_acceptance_probability_never_exceeds_one(scale: Fraction, doublings: int) -> None:
    for density in (Gaussian(scale), Laplace(scale)):
        ln2_above = Fraction(693147180559945310, 10**18)
        assert density.phi_exact(density.width * doublings) >= doublings * ln2_above


@given(st.fractions(Fraction(1, 2**20), 2**50), st.integers(0, 2**62))
@settings(deadline=None)
def test_float_exponents_are_as_precise_as_the_enclosure_assumes(scale: Fraction, magnitude: int) -> None:
    for density in (Gaussian(scale), Laplace(scale)):
        exact = density.phi_exact(magnitude)
        approximate = Fraction(float(density.phi(np.array([magnitude]))[0]))
        assert abs(approximate - exact) <= exact / 2**50


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan"), 2.0**51])
def test_an_impossible_scale_is_refused(scale: float) -> None:
    with pytest.raises((ValueError, OverflowError)):
        discrete_gaussian(scale, 1, SeededSource(b""))


def test_shapes_and_types() -> None:
    assert discrete_gaussian(Fraction(10, 3), (3, 4), SeededSource(b"")).shape == (3, 4)
    assert discrete_laplace(1, 0, SeededSource(b"")).shape == (0,)
    assert discrete_laplace(1, 5, SeededSource(b"")).dtype == np.int64


def test_a_seed_always_gives_the_same_noise() -> None:
    assert discrete_gaussian(1000, 4, SeededSource(b"pin")).tolist() == [-2547, 212, 269, -783]
    assert discrete_laplace(1000, 4, SeededSource(b"pin")).tolist() == [-4339, 228, 285, -815]
