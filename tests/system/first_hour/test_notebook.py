"""The Python API in a real Jupyter kernel, over real processes."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]

NOTEBOOKS = Path(__file__).parents[3] / "examples" / "notebooks"
CELLS = (
    "import numpy as np, pandas as pd, network_dp as ndp",
    "parts = {f'user-{i}': pd.Series([30 + i, 40 + i]) for i in range(6)}\n"
    "r = ndp.mean(parts, lower=18, upper=90, epsilon=2, rounds=2)\nr",
    "assert abs(r.value - 37.5) < 6 * r.std and 1.99 < r.epsilon <= 2 and r.verdict == 'PASS', r\nr.plot()",
    "h = ndp.histogram([['red'], ['blue'], ['red'], ['red']], categories=['red', 'blue'], epsilon=2, rounds=1)\n"
    "assert h.names == ['red', 'blue'] and abs(h.shares.sum() - 1) < 1e-9\nh",
)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(book, timeout=200, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = book.cells[1].outputs[-1]["data"]
    assert shown["text/html"].startswith("<table>") and "mean" in shown["text/plain"]
    assert "image/png" in book.cells[2].outputs[-1]["data"]
    assert (tmp_path / "out" / "mean" / "report.html").exists()


@pytest.mark.parametrize("name", ["accountant", "run", "audit"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_notebooks_of_the_examples_run_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells)  # kept without what they print
    nbclient.NotebookClient(book, timeout=250, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_no_notebook_is_left_out() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == {"accountant", "run", "audit"}
