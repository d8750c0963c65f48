"""A topology, a mechanism, a task and a protocol are values that own their rules: nobody else asks which one it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from network_dp import mechanism, task_spec, topology

ROOT = Path(__file__).parents[2]
OUTSIDE = ("node", "analyzer", "coordinator_free_launcher", "simulator")
ASKED = {"topology", "mechanism", "kind", "protocol", "path"}  # of a plan's tables
NAMES = {
    *topology.TOPOLOGIES,
    *mechanism.MECHANISMS,
    *("sum", "mean", "histogram", "sgd", "custom", "model"),
    *("hidden", "known", "masked_sum", "walk"),
}
CLASSES = {
    name
    for home in (topology, mechanism, task_spec)
    for name, value in vars(home).items()
    if isinstance(value, type) and value.__module__ == home.__name__
}
#: What a person typed becomes a plan's text here, word by word.
WRITES_TOML = Path("coordinator_free_launcher/cli/plan_template.py")


def branches(tree: ast.AST) -> Iterator[ast.expr]:
    """Comparisons of a kind with a name, and questions for its class."""
    for node in _without_asserts(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            asked = any(map(_is_asked, sides))
            named = any(
                isinstance(part, ast.Constant) and part.value in NAMES for side in sides for part in ast.walk(side)
            )
            if asked and named:
                yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            names = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
            if names & CLASSES:
                yield node


def _without_asserts(tree: ast.AST) -> Iterator[ast.AST]:
    """An assertion tells a type checker what is so; nothing branches on it."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.Assert):
            yield node
            yield from _without_asserts(node)


def _is_asked(side: ast.expr) -> bool:
    """A value may look at its own ``kind``."""
    if not isinstance(side, ast.Attribute) or side.attr not in ASKED:
        return False
    return side.attr != "kind" or not (isinstance(side.value, ast.Name) and side.value.id == "self")


def found(folder: str) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.relative_to(ROOT) != WRITES_TOML
        for node in branches(ast.parse(path.read_text()))
    ]


def test_nobody_outside_their_home_branches_on_a_kind() -> None:
    assert [line for folder in OUTSIDE for line in found(folder)] == []


def test_such_branches_would_be_found() -> None:
    text = 'plan.walk.topology == "ring"\nplan.noise.mechanism != "rr"\nisinstance(plan.task, SgdTask)\n'
    assert len(list(branches(ast.parse(text)))) == 3
