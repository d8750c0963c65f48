"""Thm 2 and Alg. 2, the histogram on a ring: what was printed, and where it is wrong
(THEORY.md#histograms, #printed)."""

from network_dp import printed


def test_theorem_2_gamma_tends_to_one_instead_of_zero():
    values = [printed.theorem_2_gamma(0.4, 1e-6, n, 10) for n in (10**3, 10**5, 10**8)]
    assert values == sorted(values)
    assert values[-1] > 0.99


def test_printed_debiasing_is_biased_on_counts():
    n, gamma, buckets = 1000, 0.4, 5
    expected_count = n * gamma / buckets  # nobody holds this value
    assert printed.histogram_estimate(expected_count, gamma, buckets) > 0.1 * n
