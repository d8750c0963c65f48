"""A fork costs the analyzer no more than three straight runs of the same length."""

from __future__ import annotations

import time
from collections import Counter
from decimal import Decimal, localcontext

import pytest

from analyzer.analysis import analyze_runs
from analyzer.verdict import Status
from benchmarks.generated_logs import Faults, plan_text, write_run
from network_dp.accounting import shuffle
from network_dp.accounting.randomised_response import Response, Window
from tests.unit.analyzer.conftest import HISTOGRAM


def cpu_s(run):
    """Seconds of this process, whatever else the machine does."""
    started = time.process_time()
    assert analyze_runs([run]).status is Status.PASS
    return time.process_time() - started


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("length", [3_000, pytest.param(12_000, marks=pytest.mark.full)])
def test_a_fork_takes_at_most_three_times_as_long_as_none(tmp_path, length):
    text = plan_text(n=7, length=length, task=HISTOGRAM, noise="gamma = 0.3")
    write_run(tmp_path / "straight", text, 1)
    write_run(tmp_path / "fork", text, 1, Faults(lose_at=length // 2, lose_after=6))
    assert cpu_s(tmp_path / "fork") <= 3 * cpu_s(tmp_path / "straight")


def exact_local_epsilon(answers: int, buckets: int, gamma: Decimal, delta: Decimal) -> Decimal:
    """With 60 digits, straight from the definition: P(loss) by convolution, epsilon by bisection."""
    rest = gamma / buckets
    law = (rest, gamma * (1 - Decimal(2) / buckets), 1 - gamma + rest)
    losses = [Decimal(1)]
    for _ in range(answers):
        padded = [Decimal(0), Decimal(0), *losses, Decimal(0), Decimal(0)]
        losses = [sum(p * padded[i + 2 - m] for m, p in enumerate(law)) for i in range(len(losses) + 2)]
    unit, low = (law[2] / law[0]).ln(), Decimal(0)
    high = answers * unit
    for _ in range(60):
        middle = (low + high) / 2
        beyond = [j for j in range(1, answers + 1) if j * unit > middle]
        found = sum(losses[answers + j] - middle.exp() * losses[answers - j] for j in beyond)
        low, high = (middle, high) if found > delta else (low, middle)
    return high


def test_local_dp_of_many_answers_is_exact_and_quick():
    """On a loss grid of millions of cells every number of answers took seconds; convolved directly it takes none."""
    answers, buckets, gamma, delta = 300, 4, 0.3, 1e-6
    started = time.process_time()
    rounded_up = shuffle.composed_epsilon(Response(buckets, gamma), Counter({Window(0): answers}), delta)
    on_a_grid = time.process_time() - started
    started = time.process_time()
    found = shuffle.local_epsilon(answers, buckets, gamma, delta)
    assert time.process_time() - started < on_a_grid / 5
    with localcontext(prec=60):
        exact = exact_local_epsilon(answers, buckets, Decimal("0.3"), Decimal("1e-6"))
    assert found == pytest.approx(float(exact), rel=1e-11) and found <= rounded_up
