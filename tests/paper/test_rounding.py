"""Bounds that must hold, not only be close: every moment is at least its value in fifty digits."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from network_dp.accounting import bounds, moments
from network_dp.accounting.moments import Law
from network_dp.accounting.rounding import UNIT, halving_sum

DIGITS = 50


def exact_moment(law: Law, b: float) -> Decimal:
    """ln E exp(b S) of the recursions of docs/THEORY.md, typed naively, in fifty digits."""
    n, c, rate = law.n_users, law.colluders, Decimal(b)
    with localcontext(prec=DIGITS):
        hit, miss = Decimal(c) / n, Decimal(n - c) / n
        mine, other = Decimal(1) / (n - c), Decimal(n - c - 1) / (n - c)
        gain = [Decimal(1)] + [_gain(m, mine, other, rate) for m in range(1, law.n_steps + 1)]
        if law.task == "sgd":
            faces, gain = gain, [Decimal(1)]
            for m in range(1, law.n_steps + 1):
                gain.append(sum(faces[width] * gain[m - width] for width in range(1, m + 1)) / m)
        value: list[Decimal] = []
        for t in range(law.n_steps + 1):
            close = gain[t] if law.released else 1
            value.append(sum(hit * miss**m * gain[m] * value[t - 1 - m] for m in range(t)) + miss**t * close)
        return Decimal(value[-1]).ln()


def _gain(m: int, mine: Decimal, other: Decimal, rate: Decimal) -> Decimal:
    """E exp(b C^2/m), C ~ Binomial(m, mine)."""
    if not other:
        return (rate * m).exp()
    return Decimal(sum(math.comb(m, k) * mine**k * other ** (m - k) * (rate * k * k / m).exp() for k in range(m + 1)))


SHORT = [
    Law(task, n, steps, c, released)
    for task, (n, steps, c), released in itertools.product(
        ("sum", "sgd"), ((2, 9, 1), (3, 40, 1), (5, 25, 2), (4, 12, 3)), (False, True)
    )
]


@pytest.mark.parametrize("law", SHORT, ids=str)
def test_a_moment_is_at_least_the_exact_one_and_hardly_more(law):
    for b in (1e-9, 0.01, 1.0, 40.0, 900.0, math.exp(8)):
        exact, found = exact_moment(law, b), moments.log_moment(law, b)
        assert Decimal(found) >= exact, b
        if law.n_steps < moments.EXACT_STEPS and b < 100:
            assert found <= float(exact) * (1 + 1e-11) + 1e-11


def long_moment(n: int, b: float, steps: int) -> Decimal:
    """ln of the released SGD moment of a very long walk: psi / (1 - kappa) has its first pole where kappa = 1."""
    with localcontext(prec=DIGITS):
        hit, miss, mine = Decimal(1) / n, Decimal(n - 1) / n, Decimal(1) / (n - 1)
        gains = [_gain(width, mine, 1 - mine, Decimal(b)) - 1 for width in range(1, 70 * n)]

        def psi(x: Decimal) -> Decimal:
            return sum(gain * (miss * x) ** (i + 1) / (i + 1) for i, gain in enumerate(gains)).exp()

        low, high = Decimal("0.1"), Decimal(1)
        for _ in range(150):
            middle = (low + high) / 2
            low, high = (middle, high) if middle + hit * middle * (psi(middle) - 1) < 1 else (low, middle)
        value, step = psi(high), sum(gain * (miss * high) ** (i + 1) for i, gain in enumerate(gains))
        slope = high * (1 + hit * (value - 1)) + hit * high * value * step  # x kappa'(x)
        return (value / slope).ln() - high.ln() * steps


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("b", [math.exp(-20.6), math.exp(-20.25), 1e-6, 0.3])
def test_a_billion_steps_are_rounded_up_too(n, b):
    """The closed form used to be 1.8e-7 (relative) below at T = 1e9."""
    found, exact = moments.log_moment(Law("sgd", n, 10**9, 1, True), b), long_moment(n, b, 10**9)
    assert Decimal(found) >= exact
    assert found <= float(exact) * (1 + 1e-5) + b + 1e-5  # the closed form's constant is at most e^b


def test_binomial_terms_are_rounded_up_and_nearly_exact():
    for m, users in itertools.product((1, 7, 300, 20_000), (2, 3, 200)):
        count = min(m + 1, 60)
        found = moments._log_binomial(float(m), 1 / users, count)
        for c in {0, 1, count // 2, count - 1}:
            exact = Fraction(math.comb(m, c) * (users - 1) ** (m - c), users**m)
            with localcontext(prec=DIGITS):
                log_exact = (Decimal(exact.numerator) / Decimal(exact.denominator)).ln()
            assert 0 <= Decimal(float(found[c])) - log_exact <= Decimal("1e-9")


@pytest.mark.parametrize("b", [50.0, 1000.0, 2900.0])
def test_no_moment_is_undefined_however_large_b(b):
    for task, (n, steps), released in itertools.product(
        ("sum", "sgd"), ((3, 10), (20, 300), (200, 3000)), (False, True)
    ):
        assert not math.isnan(moments.log_moment(Law(task, n, steps, 1, released), b))


def test_epsilon_is_a_number_at_the_smallest_delta():
    for task, mu, released in itertools.product(("sum", "sgd"), (1.0, 80.0, 1000.0), (False, True)):
        found = bounds.network_epsilon(task, 10, 50, 1.0, mu, 1e-300, released)
        assert found > 0 and not math.isnan(found)


def test_a_halving_sum_errs_by_a_logarithm_of_roundings():
    values = np.random.default_rng(0).normal(size=10_001) * 10.0 ** np.arange(10_001).clip(max=200)
    error = abs(Fraction(float(halving_sum(values)[0])) - sum(map(Fraction, values.tolist())))
    assert error <= 14 * UNIT * Fraction(float(np.abs(values).sum())) * Fraction(101, 100)
