"""The shape of the source tree, as design rules that a machine can check."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("network_dp", "node", "coordinator_free_launcher", "analyzer", "simulator")
GENERATED = ROOT / "node" / "wire" / "v1"
FILE_LINES_MAX, FUNCTION_LINES_MAX = 500, 70


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py") if GENERATED not in path.parents)


def syntax(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> Iterator[str]:
    """Modules a file imports, at its top or anywhere in it; ``from a import b`` counts as a and a.b."""
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


#: package -> packages of ours it may import (ARCHITECTURE.md#folders); the longest matching package decides
ALLOWED = {
    "network_dp": ("network_dp",),
    "node.noise": ("node.noise",),
    "node.protocol": ("network_dp", "node.protocol"),
    "node.tasks": ("network_dp", "node.noise", "node.tasks"),
    "node.wire": ("node.wire",),
    "node": ("network_dp", "node"),
    "analyzer": ("network_dp", "analyzer"),
    "simulator": (
        "network_dp",
        "node.protocol",
        "node.tasks",
        "node.noise",
        "node.worker",
        "node.config",
        "node.in_step",
        "simulator",
    ),
}


@pytest.mark.parametrize("package", ALLOWED)
def test_dependencies_point_one_way(package: str) -> None:
    wrong = []
    for path in sources(package.split(".")[0]):
        owner = max((name for name in ALLOWED if inside(module_of(path), name)), key=len)
        if owner != package:
            continue
        wrong += [
            f"{path.relative_to(ROOT)} imports {name}"
            for name in imports(path)
            if name.split(".")[0] in PACKAGES
            and not any(inside(name, allowed) for allowed in ALLOWED[package])
            and name not in PACKAGES
        ]
    assert wrong == []


def test_the_protocol_core_has_no_clock_socket_or_randomness_of_its_own() -> None:
    barred = {"time", "random", "secrets", "socket", "asyncio", "os", "grpc", "datetime", "threading", "logging"}
    found = [(path.name, name) for path in sources("node/protocol") for name in imports(path) if name in barred]
    assert found == []


@pytest.mark.parametrize("module", ["node.app", "node.zygote", "node.__main__"])
def test_a_node_process_imports_only_what_it_needs(module: str) -> None:
    heavy = ["scipy", "dp_accounting", "matplotlib", "sklearn", "typer", "rich", "joblib", "pandas", "analyzer"]
    script = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_the_command_line_imports_lazily() -> None:
    script = (
        "import sys, coordinator_free_launcher.cli; "
        "print([n for n in ('scipy', 'dp_accounting', 'matplotlib', 'sklearn', 'grpc') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_functions_are_short() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in sources(*PACKAGES)
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= FUNCTION_LINES_MAX
    ]
    assert long == []


def test_files_are_short() -> None:
    folders = (*PACKAGES, "tests", "benchmarks")
    assert [str(path) for path in sources(*folders) if len(path.read_text().splitlines()) >= FILE_LINES_MAX] == []


@pytest.mark.parametrize("folder", ["proto", "docker"])
def test_folders_that_share_a_librarys_name_are_no_packages(folder: str) -> None:
    assert list((ROOT / folder).rglob("__init__.py")) == []


def test_nothing_is_unpickled_or_evaluated() -> None:
    """Bytes and texts from others are data, never code."""
    wrong = []
    for path in sources(*PACKAGES):
        wrong += [f"{path}: {name}" for name in imports(path) if name.split(".")[0] in ("pickle", "marshal", "shelve")]
        for node in ast.walk(syntax(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec"):
                wrong.append(f"{path}:{node.lineno}: {node.func.id}")
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                wrong += [] if ast.unparse(node.value) == "False" else [f"{path}:{node.value.lineno}: allow_pickle"]
    assert wrong == []


def test_errors_are_never_swallowed_whole() -> None:
    wrong = [
        f"{path}:{node.lineno}"
        for path in sources(*PACKAGES)
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
        and all(isinstance(line, ast.Pass) for line in node.body)
    ]
    assert wrong == []
