"""A topology, a mechanism, a task and a protocol are values that own their rules: nobody else asks which one it is.

Counted are comparisons with the name of a kind, `match` on one, questions for its class, and whether a plan has its
table of anonymous rounds. A table from kinds to what another package adds to them (code, made-up data, a picture) is no
branch, but a new kind needs a line in it: all of them are listed here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from network_dp import mechanism, model_spec, plan, task_spec, topology

ROOT = Path(__file__).parents[2]
OUTSIDE = ("node", "analyzer", "coordinator_free_launcher", "simulator")
NAMES = {
    *topology.TOPOLOGIES,
    *mechanism.MECHANISMS,
    *("sum", "mean", "histogram", "sgd", "custom", "model"),
    *("hidden", "known", "masked_sum", "walk"),
}
CLASSES = {
    name
    for home in (topology, mechanism, task_spec, model_spec)
    for name, value in vars(home).items()
    if isinstance(value, type) and value.__module__ == home.__name__
} | {plan.Rounds.__name__}
#: What a person typed becomes a plan's text here, word by word.
WRITES_TOML = "coordinator_free_launcher/cli/plan_template.py"
TABLES = {
    "node/noise/__init__.py": "a sampler for each mechanism",
    "node/tasks/__init__.py": "the code of each task",
    "analyzer/checks/randomness.py": "the test of each mechanism's law",
    "analyzer/reconstruct/noise_laws.py": "the tails of each additive noise",
    "coordinator_free_launcher/api.py": "what a run of each task returns",
    "coordinator_free_launcher/cli/bounds_kinds.py": "the options of each topology",
    "coordinator_free_launcher/cli/bounds_tasks.py": "the options of each task",
    "coordinator_free_launcher/local/demo_data.py": "made-up data for a demo",
    "coordinator_free_launcher/local/rivals.py": "the same under local DP, in a demo",
    "simulator/faults/scenario.py": "rows of the plans that are simulated",
}


def branches(tree: ast.AST) -> Iterator[ast.AST]:
    """Comparisons of a kind with a name, `match` on it, questions for its class."""
    for node in _without_asserts(tree):
        match node:
            case ast.Compare(left=left, comparators=others) if any(map(_names_a_kind, [left, *others])):
                yield node
            case ast.Compare(left=ast.Attribute(value=owner, attr="rounds")) if ast.unparse(owner).endswith("plan"):
                yield node
            case ast.MatchValue(value=value) if _names_a_kind(value):
                yield value
            case ast.MatchClass(cls=named) if _classes_in(named):
                yield named
            case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, named]) if _classes_in(named):
                yield node
            case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]) if _names_a_kind(key):
                yield node


def tables(tree: ast.AST) -> Iterator[ast.AST]:
    """Dicts whose keys are all kinds, by name or class, or ``Ring.kind``."""
    for node in ast.walk(tree):
        keys = node.keys if isinstance(node, ast.Dict) else []
        if len(keys) > 1 and all(key is not None and (_names_a_kind(key) or _classes_in(key)) for key in keys):
            yield node


def _without_asserts(tree: ast.AST) -> Iterator[ast.AST]:
    """An assertion tells a type checker what is so; nothing branches on it."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.Assert):
            yield node
            yield from _without_asserts(node)


def _names_a_kind(side: ast.expr) -> bool:
    parts = side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]
    return any(isinstance(part, ast.Constant) and part.value in NAMES for part in parts)


def _classes_in(named: ast.expr) -> bool:
    parts = {part.id for part in ast.walk(named) if isinstance(part, ast.Name)}
    return bool(CLASSES & (parts | {part.attr for part in ast.walk(named) if isinstance(part, ast.Attribute)}))


def sources() -> Iterator[tuple[str, ast.Module]]:
    for folder in OUTSIDE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def test_nobody_outside_their_home_branches_on_a_kind() -> None:
    found = [(place, node) for place, tree in sources() if place != WRITES_TOML for node in branches(tree)]
    assert [f"{place}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)}" for place, node in found] == []


def test_every_table_by_kind_is_known() -> None:
    assert {place for place, tree in sources() if place != WRITES_TOML and any(tables(tree))} == set(TABLES)


@pytest.mark.parametrize(
    "text",
    [
        'plan.walk.topology == "ring"',
        'topology != "ring"',
        'plan.noise.mechanism in ("rr", "laplace")',
        "isinstance(plan.task, SgdTask)",
        "isinstance(plan.task, task_spec.SgdTask | SumTask)",
        'match plan.task.kind:\n    case "sgd":\n        pass',
        "match plan.task:\n    case SgdTask():\n        pass",
        "plan.rounds is None",
        "self._plan.rounds is not None",
        '{"a": 1}.get("ring")',
    ],
)
def test_such_a_branch_is_found(text: str) -> None:
    assert len(list(branches(ast.parse(text)))) == 1


@pytest.mark.parametrize(
    "text", ['{"ring": 1, "graph": 2}', "{SumTask: 1, SgdTask: 2}", "{Ring.kind: 1, Graph.kind: 2}"]
)
def test_such_a_table_is_found(text: str) -> None:
    assert len(list(tables(ast.parse(text)))) == 1
