"""Thm 1 and Remark 1, the real sum on a ring: what was printed, and where it is wrong (THEORY.md#ring, #printed)."""

import pytest

from network_dp import exposure, printed, utility
from network_dp.accounting import bounds
from network_dp.exposure import Observation


def test_theorem_1_prints_6_7_where_the_exact_epsilon_at_the_same_delta_is_0_63():
    sigma = printed.gaussian_sigma(0.1, 1e-7, 1.0)
    stated = printed.theorem_1(100, 0.1, 1e-7, 1e-7 * 33)
    # delta' is free in the theorem; at the delta it states, the exact epsilon is ten times smaller
    assert 5.5 < stated.epsilon < 7
    assert bounds.ring_epsilon(100, sigma, 1.0, stated.delta) == pytest.approx(0.63, abs=0.02)
    assert printed.theorem_1(100, 0.1, 1e-7, 1e-7).epsilon == pytest.approx(6.73, abs=0.01)
    assert bounds.ring_epsilon(100, sigma, 1.0, 1e-5 + 1e-7) == pytest.approx(0.63, abs=0.005)


def test_theorem_1_counts_too_few_noises():
    for n in range(3, 9):
        for rounds in range(1, 30):
            hops = [1 + j * (n - 1) for j in range(10**4) if 1 + j * (n - 1) <= n * rounds]
            assert len(hops) - printed.theorem_1_noises(n, rounds) == (0 if rounds % (n - 1) == 0 else 1)


def test_remark_1_leaves_less_than_one_foreign_noise_in_an_increment():
    n, share = 6, printed.remark_1_share(1.0, 6)
    increment = Observation({0: 1.0}, dict.fromkeys(range(n - 1), share))
    assert exposure.general([increment])[0] == pytest.approx(n / (n - 1))
    assert exposure.general([increment])[0] > 1.0


@pytest.mark.parametrize("n", [3, 4, 7])
@pytest.mark.parametrize("rounds", [1, 2, 5, 6])
def test_spread_ring_variance_follows_its_rule(n, rounds):
    for released in (False, True):
        total, after = 0.0, dict.fromkeys(range(n), 0.0)
        for position in range(rounds * n):
            holder, last = position % n, position == rounds * n - 1
            if last and not released:
                break
            total += 1 / (n - 1)
            receivers = [v for v in range(n) if v != holder] if last else [(holder + 1) % n]
            total += max(0.0, max(1 - (total - after[r]) for r in receivers))
            after[holder] = total
        assert utility.spread_ring_noises(n, rounds, released) == pytest.approx(total)
