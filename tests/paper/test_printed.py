"""What the paper printed: reproduced, and each audited mistake shown to be one (THEORY.md#printed)."""

import ast
import math
from pathlib import Path

import pytest

from network_dp import printed
from network_dp.accounting import gaussian

ROOT = Path(__file__).resolve().parents[2]
# Whatever calibrates, promises, runs or judges: none of these may reach a printed formula, however indirectly.
DECIDING = (
    "network_dp",
    "node",
    "analyzer",
    "coordinator_free_launcher.cli.promise",
    "coordinator_free_launcher.identity.provision",
    "coordinator_free_launcher.identity.finalise",
    "coordinator_free_launcher.identity.enrol",
    "coordinator_free_launcher.identity.bundle",
    "coordinator_free_launcher.local.launch",
)
# What shows printed formulas beside valid ones: the page of a report, the comparison table, the figures as published.
# (`plan check` shows a row of the report's; tests/unit/network_dp/plan proves that the other rows do not depend on it.)
SHOWING = (
    "analyzer.report",
    "analyzer.report.as_json",
    "analyzer.report.terminal",
    "coordinator_free_launcher.cli.bounds_kinds",
    "coordinator_free_launcher.cli.plan",
    "simulator.figures",
    "simulator.published",
)


def run_nodes(tree):
    """All nodes but those that only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from run_nodes(node)


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
        for node in run_nodes(ast.parse(path.read_text())):
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
    assert "coordinator_free_launcher.cli.bounds_kinds" in importers  # the graph does see imports
    assert all(module.startswith(SHOWING) for module in importers)


def test_classical_sigma_is_wrong_above_epsilon_one():
    sigma = printed.gaussian_sigma(10.0, 0.05, 1.0)
    assert gaussian.delta(1 / sigma, 10.0) > 0.05


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
