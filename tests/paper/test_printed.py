"""What the paper printed: reproduced, and each audited mistake shown to be one (theory, section 9)."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from network_dp import bounds, exposure, gaussian, printed, utility
from network_dp.exposure import Observation

ROOT = Path(__file__).resolve().parents[2]
# Whatever calibrates, promises, runs or judges: none of these may reach a printed formula, however indirectly.
DECIDING = (
    "network_dp", "node", "analyzer", "coordinator_free_launcher.calibration", "coordinator_free_launcher.promise",
    "coordinator_free_launcher.provision", "coordinator_free_launcher.finalise", "coordinator_free_launcher.enrol",
    "coordinator_free_launcher.bundle", "coordinator_free_launcher.launch",
)  # fmt: skip
# What shows printed formulas beside valid ones: the page of a report, the comparison table, the figures as published.
# (`plan check` shows a row of the report's; tests/plan proves that the other rows do not depend on it.)
SHOWING = (
    "analyzer.report", "coordinator_free_launcher.bounds_tables", "simulator.figures", "simulator.published",
)  # fmt: skip


def import_graph():
    """module -> modules it imports, at the top or inside a function; importing a name also imports its package."""
    files = {}
    for package in ("network_dp", "node", "analyzer", "coordinator_free_launcher", "simulator"):
        for path in (ROOT / package).rglob("*.py"):
            name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            files[name.removesuffix(".__init__")] = path
    graph = {}
    for module, path in files.items():
        named = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                named.update(name.name for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative import, which this test cannot follow"
                named.update({node.module, *(f"{node.module}.{name.name}" for name in node.names)})
        graph[module] = {name for name in named if name in files}
    return graph


def test_nothing_that_calibrates_promises_or_judges_can_reach_a_printed_formula():
    graph = import_graph()
    for root in DECIDING:
        roots = [m for m in graph if m == root or m.startswith(f"{root}.")]
        assert roots, f"{root} is gone: name what decides now"
        for start in roots:
            if start == "network_dp.printed" or start.startswith(SHOWING):
                continue
            reached, waiting = {start}, [start]
            while waiting:
                for target in graph[waiting.pop()] - reached:
                    reached.add(target)
                    waiting.append(target)
            assert "network_dp.printed" not in reached, f"{start} reaches network_dp.printed"


def test_only_what_shows_printed_formulas_imports_them():
    importers = {module for module, targets in import_graph().items() if "network_dp.printed" in targets}
    assert "coordinator_free_launcher.bounds_tables" in importers  # the graph does see imports
    assert all(module.startswith(SHOWING) for module in importers)


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


def test_theorem_2_gamma_tends_to_one_instead_of_zero():
    values = [printed.theorem_2_gamma(0.4, 1e-6, n, 10) for n in (10**3, 10**5, 10**8)]
    assert values == sorted(values)
    assert values[-1] > 0.99


def test_printed_debiasing_is_biased_on_counts():
    n, gamma, buckets = 1000, 0.4, 5
    expected_count = n * gamma / buckets  # nobody holds this value
    assert printed.histogram_estimate(expected_count, gamma, buckets) > 0.1 * n


def test_chernoff_visits_are_wrong_outside_their_range():
    claimed = printed.visits(1000, 1000, 1e-6)
    assert binom.sf(math.floor(claimed), 1000, 1e-3) > 1e-6


def test_last_display_of_theorem_3_is_below_the_composition_it_stands_for():
    meant = printed.theorem_3(20, 2000, 0.5, 1e-7, 1e-6, 1e-6).epsilon
    assert printed.theorem_3_last_display(20, 2000, 0.5, 1e-6, 1e-6) < meant


def test_lemma_of_theorem_4_is_false_for_two_users():
    """n = 2, T large: u's exposure per contribution is about one; the lemma claims ln(2)/2 of it at most times 2."""
    n_steps, order = 400, 1.02
    sigma = math.sqrt(2 * order * (order - 1)) * 1.001
    walks = [np.random.default_rng(s).integers(2, size=n_steps) for s in range(200)]
    b = order * (order - 1) * 4 / (2 * sigma**2)
    true = math.log(np.mean([math.exp(b * exposure.matrix(w, 2, "sgd")[0, 1]) for w in walks])) / (order - 1)
    most = max(int((w == 0).sum()) for w in walks)
    assert printed.theorem_4_lemma(order, sigma, 1.0, most, 2) < true


def test_theorem_4_numeric_needs_the_sigmas_of_the_theory_page():
    for sigma, epsilon in ((20.4, 1.0), (2.58, 10.0)):
        assert printed.theorem_4_numeric(sigma, 1.0, 12, 2000, 1e-6) == pytest.approx(epsilon, rel=5e-3)


def test_classical_sigma_is_wrong_above_epsilon_one():
    sigma = printed.gaussian_sigma(10.0, 0.05, 1.0)
    assert gaussian.delta(1 / sigma, 10.0) > 0.05


def test_biased_forwarding_by_colluders_raises_the_exposure_of_their_victim():
    rng = np.random.default_rng(3)
    n, n_steps = 20, 20_000
    fair = rng.integers(n, size=n_steps)
    biased = fair.copy()
    for t in range(1, n_steps):
        if biased[t - 1] == 1:
            biased[t] = 0
    assert exposure.matrix(biased, n, "sum")[0, 1] > 3 * exposure.matrix(fair, n, "sum")[0, 1]


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


def test_theorem_3_histogram_and_spotted_lemma_are_reproduced():
    k = printed.visits(1000, 10_000, 1e-6) + 10
    per_cycle = 21 * math.sqrt(math.log(4e6) / 1000) * 0.1
    expected = math.sqrt(2 * k * math.log(1e6)) * per_cycle + math.sqrt(k) * 0.1 * math.expm1(per_cycle)
    assert printed.theorem_3_histogram(1000, 10_000, 0.1, 1e-6, 1e-6, 1e-6).epsilon == pytest.approx(expected)
    assert printed.spotted_contributions(100, 100, 0.1, 1e-6, 1e-6, advanced=False) == pytest.approx(
        (2 + math.sqrt(6 * math.log(1e6))) * 0.1
    )
    assert printed.theorem_4(100, 10**6, 0.5, 1e-6, 1e-6).delta == 2e-6
    assert printed.effective_users(100, 4) == 25


def test_printed_formulas_at_one_delta_split_it_as_the_theorems_say():
    delta, sigma = 1e-6, 5.0
    each = delta / 200
    per_round = 1 / (sigma / printed.gaussian_sigma(1.0, each, 1.0))
    assert printed.theorem_1_at(100, sigma, 1.0, delta) == printed.theorem_1(100, per_round, each, delta / 2).epsilon
    assert printed.theorem_1(100, per_round, each, delta / 2).delta == pytest.approx(delta)
    cycles = printed.visits(50, 500, delta / 3) + 10
    assert printed.theorem_3(50, 500, 0.1, delta / 3 / cycles, delta / 3, delta / 3).delta == pytest.approx(delta)
    assert printed.theorem_4_at(2000, 20_000, 20.4, 1.0, 1e-6, cap=12) == pytest.approx(1.0, rel=5e-3)
    # Thm 2, read backwards: the epsilon whose printed gamma is the one given
    gamma = printed.theorem_2_gamma(0.4, 0.5e-6, 100, 4)
    once = printed.theorem_2(1, 0.4, 0.5e-6, 0.5e-6).epsilon
    assert printed.theorem_2_at(100, 1, 4, gamma, 1e-6) == pytest.approx(once)
    # little noise: a number or infinity, never an error
    for sigma in (0.0, 1e-9):
        assert printed.theorem_1_at(100, sigma, 1.0, 1e-6) == math.inf
        assert printed.theorem_3_at(20, 100, sigma, 1.0, 1e-6) == math.inf
        assert printed.theorem_4_at(20, 100, sigma, 1.0, 1e-6) == math.inf
    assert printed.theorem_3_histogram_at(20, 100, 4, 1e-300, 1e-6) > 0
    assert printed.theorem_3_histogram_at(20, 100, 4, 0.0, 1e-6) == math.inf


def test_printed_bounds_are_not_what_the_valid_ones_return():
    # the walk of the paper's Fig. 2 at n = 20
    sigma = printed.gaussian_sigma(0.1, 1e-7, 1.0)
    stated = printed.theorem_3(20, 2000, 0.1, 1e-7, 1e-6, 1e-6)
    assert bounds.network_epsilon("sum", 20, 2000, sigma, 1.0, stated.delta) < stated.epsilon / 3
