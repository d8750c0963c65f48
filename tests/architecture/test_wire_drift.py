"""The committed wire code is what the pinned generator makes of the contract."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATOR = ROOT / ".venv-proto" / "bin" / "python"  # what `make proto` makes, once
PINNED = "grpcio-tools==1.71.2"


@pytest.fixture(scope="module")
def generator() -> Path:
    """A virtual environment with the pinned generator, cached beside the project's own."""
    installed = f"import importlib.metadata as m; assert 'grpcio-tools==' + m.version('grpcio-tools') == {PINNED!r}"
    if GENERATOR.exists() and subprocess.run([GENERATOR, "-c", installed], capture_output=True).returncode == 0:
        return GENERATOR
    subprocess.run([sys.executable, "-m", "venv", GENERATOR.parents[1]], check=True)
    install = [GENERATOR, "-m", "pip", "install", "--quiet", PINNED, "setuptools"]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"{PINNED} cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    return GENERATOR


def test_the_makefile_pins_the_same_generator() -> None:
    assert PINNED in (ROOT / "Makefile").read_text()


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first time, the generator is installed
def test_generated_code_does_not_drift(generator: Path, tmp_path: Path) -> None:
    contracts = [str(path.relative_to(ROOT / "proto")) for path in (ROOT / "proto").rglob("*.proto")]
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "grpc_python", "pyi")]
    command = [generator, "-m", "grpc_tools.protoc", "-I", "proto", *outputs, *contracts]
    subprocess.run(command, cwd=ROOT, check=True)
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    committed = sorted(
        path.relative_to(ROOT) for path in (ROOT / "node" / "wire").rglob("*_pb2*") if path.suffix in (".py", ".pyi")
    )
    assert made == committed
    for path in made:
        assert (tmp_path / path).read_bytes() == (ROOT / path).read_bytes(), f"{path}: run `make proto`"
