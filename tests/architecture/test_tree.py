"""The shape of the source tree, as design rules that a machine can check."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("network_dp", "node", "coordinator_free_launcher", "analyzer", "simulator")
GENERATED = ROOT / "node" / "wire" / "v1"
FILE_LINES_MAX, FUNCTION_LINES_MAX = 500, 70


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py") if GENERATED not in path.parents)


@cache
def syntax(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Modules a file imports, at its top or anywhere in it; ``from a import b`` counts as a and a.b."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
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
    "node.protocols.walk": ("network_dp", "node.protocols.effects", "node.protocols.exits", "node.protocols.walk"),
    "node.protocols.rounds": ("network_dp", "node.protocols.effects", "node.protocols.exits", "node.protocols.rounds"),
    "node.tasks": ("network_dp", "node.noise", "node.tasks"),
    "node.wire": ("node.wire",),
    "node": ("network_dp", "node"),
    "analyzer": ("network_dp", "analyzer"),
    "simulator": (
        "network_dp",
        "node.protocols.effects",
        "node.protocols.exits",
        "node.protocols.walk",
        "node.protocols.rounds",
        "node.tasks",
        "node.noise",
        "node.worker",
        "node.config",
        "node.storage.in_step",
        "node.storage.records",
        "simulator",
    ),
}


#: The one door: `network_dp` names the launcher's Python API, for type checkers and on first use.
FACADE = (ROOT / "network_dp" / "__init__.py", "coordinator_free_launcher.api")


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
            and not (path == FACADE[0] and inside(name, FACADE[1]))
        ]
    assert wrong == []


def test_the_facade_loads_nothing_until_it_is_used() -> None:
    others = [package for package in PACKAGES if package != "network_dp"] + ["numpy"]
    loaded = f"[name for name in {others!r} if name in sys.modules]"
    script = f"import sys, network_dp; dir(network_dp); print({loaded}); network_dp.mean; print({loaded})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    before, after = done.stdout.splitlines()
    assert before == "[]" and "coordinator_free_launcher" in after


def test_only_the_facade_imports_by_name_in_the_pure_package() -> None:
    found = [path for path in sources("network_dp") if "importlib" in imports(path)]
    assert found == [FACADE[0]]


def test_no_protocol_imports_in_a_circle() -> None:
    """There is an order in which the core can be read. Imports inside functions count, those for types alone too."""
    files = {module_of(path): path for path in sources("node/protocols")}
    needs = {name: {other for other in imports(path) if other in files} for name, path in files.items()}
    while ready := [name for name, others in needs.items() if not others - {name}]:
        for name in ready:
            del needs[name]
        needs = {name: others - set(ready) for name, others in needs.items()}
    assert needs == {}


def test_the_page_lists_the_files_of_the_core_in_an_order_in_which_they_can_be_read() -> None:
    page = (ROOT / "docs" / "PROTOCOL.md").read_text()
    table = page[page.index('<a id="files"></a>') : page.index('<a id="lost-token"></a>')]
    rows = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `")]
    order = [f"node.protocols.walk.{name.strip('| `')}" for row in rows for name in row.split(", ")]
    files = {module_of(path): path for path in sources("node/protocols/walk") if path.name != "__init__.py"}
    assert sorted(order) == sorted(files)
    for place, name in enumerate(order):
        assert not set(imports(files[name])) & set(order[place + 1 :]), name


def test_nothing_but_tests_imports_tests() -> None:
    files = sources(*PACKAGES, "benchmarks")
    assert [str(path) for path in files for name in imports(path) if inside(name, "tests")] == []


def test_the_protocol_core_has_no_clock_socket_or_randomness_of_its_own() -> None:
    barred = {"time", "random", "secrets", "socket", "asyncio", "os", "grpc", "datetime", "threading", "logging"}
    found = [(path.name, name) for path in sources("node/protocols") for name in imports(path) if name in barred]
    assert found == []


@pytest.mark.parametrize("module", ["node.app", "node.many.zygote", "node.__main__"])
def test_a_node_process_imports_only_what_it_needs(module: str) -> None:
    heavy = ["scipy", "dp_accounting", "matplotlib", "sklearn", "typer", "rich", "joblib", "pandas", "analyzer"]
    script = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_the_command_line_imports_lazily() -> None:
    script = (
        "import sys, coordinator_free_launcher.cli.app; "
        "print([n for n in ('scipy', 'dp_accounting', 'matplotlib', 'sklearn', 'grpc') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def _printed(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.strip()


def test_importing_changes_no_environment_variable() -> None:
    """Every module of ours but the generated ones, in one process; whoever starts a user sets its environment."""
    names = [module_of(path) for path in sources(*PACKAGES) if path.name != "__main__.py"]
    script = (
        "import importlib, os; before = dict(os.environ)\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "print(sorted(os.environ.items() ^ before.items()))"
    )
    assert _printed(script) == "[]"


def test_the_python_api_does_not_import_the_command_line() -> None:
    script = (
        "import sys, coordinator_free_launcher.local.run\n"
        "print([n for n in sys.modules if n.startswith('coordinator_free_launcher.cli') or n in ('typer', 'rich')])"
    )
    assert _printed(script) == "[]"


def test_the_runtime_knows_no_protocol_and_no_transport() -> None:
    """It drives whatever keeps ``node.protocols.interface`` over whatever keeps ``node.transport.interface``."""
    allowed = ("node.protocols.effects", "node.protocols.interface", "node.transport.interface")
    wrong = [
        name
        for name in imports(ROOT / "node" / "runtime.py")
        if name.startswith(("node.protocols", "node.transport", "node.walk"))
        and not any(inside(name, seam) for seam in allowed)
    ]
    assert wrong == []


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
