"""Small wrong changes of a source file, one at a time: what a slip of the hand would make of it.

Each is a cut of the source text, so that the rest of the file stays as it is, line by line.
"""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass

_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_SIGN: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_ARITHMETIC: dict[type[ast.operator], str] = {ast.Add: "-", ast.Sub: "+", ast.FloorDiv: "*", ast.Mod: "*"}
_COMPLEMENTED = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
_SIMPLE = (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript)
_ONE_LINE = re.compile(r"\s*\n\s*")
_OPPOSITE = {"max": "min", "min": "max", "any": "all", "all": "any"}
#: Nothing here decides anything: texts, types, claims, names of things.
_SKIPPED = (ast.JoinedStr, ast.Assert, ast.AnnAssign, ast.arg, ast.Import, ast.ImportFrom)


@dataclass(frozen=True, order=True)
class Mutant:
    """One change: the text of a file and what it becomes."""

    file: str
    line: int
    column: int
    operator: str
    was: str
    becomes: str
    name: str = ""  # of one that is on the list of those that must die

    @property
    def id(self) -> str:
        return self.name or f"{self.file}:{self.line}:{self.column}:{self.operator}"

    def apply(self, source: str) -> str:
        lines = source.splitlines(keepends=True)
        start = len("".join(lines[: self.line - 1]).encode()) + self.column
        data = source.encode()
        end = start + len(self.was.encode())
        assert data[start:end].decode() == self.was, f"{self.id}: the file has changed"
        return (data[:start] + self.becomes.encode() + data[end:]).decode()

    def diff(self, source: str) -> str:
        before, after = source.splitlines(), self.apply(source).splitlines()
        changed = difflib.unified_diff(before, after, self.file, self.file, n=0, lineterm="")
        return "\n".join(line for line in changed if not line.startswith(("---", "+++", "@@")))


class _Finder(ast.NodeVisitor):
    """All changes of one file, in the order of the text; outside functions nothing is changed."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source, self.inside = file, source, 0
        self.found: list[Mutant] = []

    def text(self, node: ast.AST) -> str:
        return ast.get_source_segment(self.source, node) or ""

    def term(self, node: ast.expr) -> str:
        """An operand: its own brackets are not part of it."""
        return self.text(node) if isinstance(node, _SIMPLE) else f"({self.text(node)})"

    def add(self, node: ast.expr | ast.stmt, operator: str, becomes: str) -> None:
        was = self.text(node)
        if self.inside and not ("#" in was and "\n" in was):  # a remark in between would swallow the rest
            self.found.append(
                Mutant(self.file, node.lineno, node.col_offset, operator, was, _ONE_LINE.sub(" ", becomes))
            )

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, _SKIPPED):
            super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.inside += 1
        for part in (*node.args.defaults, *node.args.kw_defaults, *node.body):
            if part is not None:
                self.visit(part)
        self.inside -= 1

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Compare(self, node: ast.Compare) -> None:
        terms = [self.term(term) for term in node.comparators]
        for place, operator in enumerate(node.ops):
            signs = [_SIGN[type(each)] for each in node.ops]
            signs[place] = _COMPARE[type(operator)]
            pairs = (f" {sign} {term}" for sign, term in zip(signs, terms, strict=True))
            self.add(node, f"comparison {place + 1}" if place else "comparison", self.term(node.left) + "".join(pairs))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        joint = " or " if isinstance(node.op, ast.And) else " and "
        self.add(node, "and/or", "(" + joint.join(self.term(value) for value in node.values) + ")")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in _ARITHMETIC:
            sign = _ARITHMETIC[type(node.op)]
            self.add(node, "arithmetic", f"{self.term(node.left)} {sign} {self.term(node.right)}")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.add(node, "truth", str(not node.value))
        elif isinstance(node.value, int):
            self.add(node, "off by one", str(node.value + 1))

    def visit_If(self, node: ast.If) -> None:
        self.negate(node.test)
        if not node.orelse:
            self.add(node.test, "guard off", f"False and ({self.text(node.test)})")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.negate(node.test)
        self.generic_visit(node)

    def negate(self, test: ast.expr) -> None:
        """What a flipped comparison says anyway is not said twice."""
        flipped = isinstance(test, ast.Compare) and isinstance(test.ops[0], _COMPLEMENTED) and len(test.ops) == 1
        if not flipped:
            self.add(test, "negation", f"not ({self.text(test)})")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.add(node, "dropped call", "pass")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _OPPOSITE:
            self.add(node.func, "opposite", _OPPOSITE[node.func.id])
        self.generic_visit(node)


def mutants(file: str, source: str) -> list[Mutant]:
    """Every change the operators know for a file."""
    finder = _Finder(file, source)
    finder.visit(ast.parse(source))
    return sorted(finder.found)
