"""Composition by FFT against exact rational arithmetic, for any delta, and its proved error against the real one."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from network_dp.accounting import composition
from network_dp.accounting.composition import Part

INTERVAL = 2.0**-6
LAWS = {
    "symmetric": ([1, 2, 4, 1, 0, 3], 3),
    "rare": ([2**20, 5, 0, 0, 1], 0),
    "wide": ([1] + [0] * 200 + [2] + [0] * 300 + [5], 100),
}


def exact_power(weights: list[int], times: int) -> list[int]:
    power = [1]
    for _ in range(times):
        new = [0] * (len(power) + len(weights) - 1)
        for i, a in enumerate(power):
            for j, b in enumerate(weights):
                if a and b:
                    new[i + j] += a * b
        power = new
    return power


def exact_delta(power: list[int], lowest: int, epsilon: Decimal) -> Decimal:
    """sum over losses above epsilon of (1 - e^(epsilon - loss)) P(loss), in sixty digits."""
    with localcontext(prec=60):
        total, step = sum(power), Decimal(INTERVAL)
        above = [(lowest + i) * step - epsilon for i in range(len(power))]
        return sum((1 - (-x).exp()) * w for x, w in zip(above, power, strict=True) if x > 0 and w) / Decimal(total)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("times", [1, 7, 20])
def test_epsilon_meets_its_delta_exactly_and_hardly_more(name, times):
    weights, back = LAWS[name]
    power, lowest = exact_power(weights, times), -back * times
    total = sum(weights)
    law = np.array([float(Fraction(w, total)) for w in weights])
    for delta in (0.1, 1e-3, 1e-6, 1e-12, 1e-18, 1e-40):  # from 1e-12 on the old allowance saw nothing
        found = composition.epsilon([Part(-back, law, 0.0, times)], INTERVAL, delta)
        assert math.isfinite(found)
        assert exact_delta(power, lowest, Decimal(found)) <= Decimal(delta) * (1 + Decimal("1e-13"))
        if found > 0:
            assert exact_delta(power, lowest, Decimal(found) - Decimal("1e-6")) > Decimal(delta) * (1 - Decimal("1e-5"))


def test_the_error_of_a_composed_law_is_below_its_bound():
    rng = np.random.default_rng(3)
    for size, length, times in ((64, 9, 7), (512, 30, 17), (4096, 60, 64)):
        weights = rng.integers(1, 1000, size=length).tolist()
        law = np.array([float(Fraction(w, sum(weights))) for w in weights])
        found, bound = composition.composed([law], [times], size)
        exact = np.zeros(size)
        power, total = exact_power(weights, times), sum(weights) ** times
        for i, w in enumerate(power):
            exact[i % size] += float(Fraction(w, total))
        assert float(np.linalg.norm(found - exact)) <= bound < 1e-10


def test_several_mechanisms_and_infinite_losses_add_up():
    one, other = Part(-1, np.array([0.3, 0.4, 0.3]), 0.0, 5), Part(0, np.array([0.5, 0.25, 0.25 - 1e-9]), 1e-9, 3)
    together = composition.epsilon([one, other], INTERVAL, 1e-6)
    assert together > max(composition.epsilon([part], INTERVAL, 1e-6) for part in (one, other))
    assert composition.epsilon([one, other], INTERVAL, 2e-9) == math.inf  # 3e-9 of infinite losses
    assert composition.epsilon([one, other._replace(infinite=0.0)], INTERVAL, 2e-9) < math.inf


def test_a_law_of_one_loss_is_composed_by_adding():
    found = composition.epsilon([Part(5, np.array([1.0]), 0.0, 9)], INTERVAL, 1e-9)
    assert found == pytest.approx(45 * INTERVAL, abs=1e-6)
