"""The audit never exceeds a valid claim and catches planted bugs. Each verdict errs with probability 1e-6 at most."""

import numpy as np
import pytest

from network_dp import audit
from network_dp.accounting import gaussian
from network_dp.errors import AccountingError

SETTINGS = {
    "ring_sum": {"n_users": 6, "length": 3, "sigma": 2.0},
    "complete_sum": {"n_users": 6, "length": 8, "sigma": 3.0},
    "complete_sgd": {"n_users": 6, "length": 8, "sigma": 4.0},
    "ring_histogram": {"n_users": 40, "length": 1, "gamma": 0.3},
}


@pytest.mark.parametrize("algorithm", SETTINGS)
def test_no_attack_beats_the_claim_of_a_correct_run(algorithm):
    result = audit.run(algorithm, **SETTINGS[algorithm])
    assert result.passed
    assert result.lower > 0.1 * result.claimed  # the attack is not toothless


@pytest.mark.parametrize(
    "algorithm,bug",
    [
        ("ring_sum", "half_noise"),
        ("ring_sum", "no_closing_noise"),
        ("complete_sum", "half_noise"),
        ("complete_sgd", "half_noise"),
        ("ring_histogram", "no_initial_elements"),
    ],
)
def test_a_planted_bug_is_caught(algorithm, bug):
    result = audit.run(algorithm, **SETTINGS[algorithm], bug=bug)
    assert not result.passed


def test_lower_bound_is_near_the_truth_of_a_plain_gaussian():
    rng = np.random.default_rng(0)
    zeros, ones = rng.normal(0, 1, (40_000, 1)), rng.normal(1, 1, (40_000, 1))
    lower = audit.lower_epsilon(zeros, ones, 1e-2, 0.999999)
    exact = gaussian.epsilon(mu=1.0, delta=1e-2)
    assert 0.5 * exact < lower <= exact


def test_identical_runs_show_nothing():
    rng = np.random.default_rng(1)
    assert audit.lower_epsilon(rng.normal(size=(5_000, 2)), rng.normal(size=(5_000, 2)), 1e-3, 0.999999) < 0.2


@pytest.mark.parametrize(
    "bad", [{"length": 0}, {"n_users": 1}, {"confidence": 2.0}, {"sigma": -1.0}, {"delta": 2.0}, {"n_runs": 5}]
)
def test_an_audit_of_nothing_is_refused(bad):
    with pytest.raises(AccountingError):
        audit.run("complete_sum", **bad)


def test_a_bug_that_makes_no_sense_is_refused():
    with pytest.raises(AccountingError, match="bug"):
        audit.run("complete_sum", bug="no_closing_noise")
