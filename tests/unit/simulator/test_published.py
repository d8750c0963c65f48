"""The authors' losses, in linear time, against a plain loop over their definition."""

from __future__ import annotations

import ast
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from simulator import walks
from simulator.budgets import Budget
from simulator.published import sgd as published_sgd
from simulator.published import shuffling, walk_losses

DELTA = walk_losses.DELTA


def plain_losses(walk: list[int], n: int, epsilon: float) -> list[float]:
    """Every observer keeps, for every user, its cycles as (length, sure contributions): the definition itself."""
    last, sent_to = [0] * n, [0] * n
    cycles: dict[tuple[int, int], list[list[int]]] = {(v, u): [] for v in range(n) for u in range(n)}
    for step in range(1, len(walk)):
        sender, v = walk[step - 1], walk[step]
        for u in range(n):
            cycles[v, u].append([step - last[v], (u == sent_to[v]) + (u == sender)])
        sent_to[sender], last[v] = v, step
    return [composed([loss(m, c, n, epsilon) for m, c in found]) for (v, u), found in cycles.items() if u != v]


def loss(length: int, sure: int, n: int, epsilon: float) -> float:
    one = epsilon / math.sqrt(length)
    return sure * one if sure else math.log(1 + (1 - (1 - 1 / n) ** length) * (math.exp(one) - 1))


def composed(losses: list[float]) -> float:
    delta = len(losses) * DELTA
    squares = sum(e * e for e in losses)
    slopes = sum(e * (math.exp(e) - 1) / (math.exp(e) + 1) for e in losses)
    inside = math.e + math.sqrt(squares) / delta
    logarithm = math.log(1 / delta) if inside > 1 / delta else math.log(inside)
    return min(sum(losses), slopes + math.sqrt(2 * squares * logarithm))


@pytest.mark.parametrize("n", [3, 8])
def test_losses_of_all_pairs_are_those_of_the_plain_loop(n: int) -> None:
    walk = walks.uniform(n, 60 * n, np.random.default_rng(2))
    walk[0] = 0
    plain = plain_losses(walk.tolist(), n, 0.4)
    seen = walk_losses.network_losses(walk, n, lambda length: 0.4 / np.sqrt(length))
    assert (seen.low, seen.high) == pytest.approx((min(plain), max(plain)), rel=1e-9)
    assert seen.mean == pytest.approx(sum(plain) / len(plain), rel=1e-9)


def test_shuffling_bounds_never_exceed_the_local_loss_and_fall_with_the_number_of_answers() -> None:
    values = [shuffling.shuffled_epsilon(0.4, n, 1e-7) for n in (1, 100, 1000, 10_000, 100_000)]
    assert values[0] == pytest.approx(0.4)
    assert all(a >= b for a, b in itertools.pairwise(values)) and values[-1] < 0.04


def test_bennett_is_the_binomial_expectation_it_stands_for() -> None:
    epsilon, epsilon_0, n = 0.05, 0.4, 300
    blanket = math.exp(-epsilon_0)
    highest = math.exp(epsilon_0) - math.exp(epsilon - epsilon_0)
    variance = math.exp(epsilon_0) * (math.exp(2 * epsilon) + 1) - 2 * blanket * math.exp(epsilon - 2 * epsilon_0)
    ratio = (math.exp(epsilon) - 1) * highest / variance
    decay = variance / highest**2 * ((1 + ratio) * math.log(1 + ratio) - ratio)
    masses = [math.comb(n, m) * blanket**m * (1 - blanket) ** (n - m) for m in range(n + 1)]
    expectation = sum(masses[m] * math.exp(-decay * m) for m in range(1, n + 1))
    expected = highest / math.log(1 + ratio) * expectation / (blanket * n)
    assert shuffling.bennett_delta(epsilon, epsilon_0, n) == pytest.approx(expected, rel=1e-9)


def test_the_authors_sigmas_of_fig_2() -> None:
    """What their search prints at n = 2000, T = 20000, delta = 1e-6, L = 0.4 (theirs stops within 5 %)."""
    budget = Budget(10.0, 1e-6, 2000, 20_000, 0.4)
    assert budget.cap == 12
    assert published_sgd.local_sigma(budget) == pytest.approx(5.871, rel=1e-3)
    assert published_sgd.centralized_sigma(budget) == pytest.approx(0.6968, rel=1e-3)
    assert published_sgd.network_sigma(budget) == pytest.approx(1.227, rel=0.05)


def test_only_figures_use_the_authors_formulas() -> None:
    root = Path(shuffling.__file__).parents[1]
    users = {
        path.relative_to(root).parts[0]
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("simulator.published")
    }
    assert users == {"figures", "published"}
