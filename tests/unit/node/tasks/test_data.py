"""Reading data: what is accepted, and refusals that name the place and never the value."""

from __future__ import annotations

import traceback
from pathlib import Path

import numpy as np
import pytest

from node.tasks import DataError, load_table, table_of

SECRET = "31337.125x"


def write(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "1,2.5\n3,-4e0\n"),
        ("a.csv", "age,income\n1,2.5\n3,-4e0\n"),
        ("a.csv", "\ufeffage,income\r\n1,2.5\r\n\r\n3, -4\r\n"),
        ("a.jsonl", "[1, 2.5]\n[3, -4]\n"),
        ("a.jsonl", '{"x": 1, "y": 2.5}\n\n{"y": -4, "x": 3}\n'),
    ],
)
def test_text_files_are_read(tmp_path: Path, name: str, text: str) -> None:
    assert load_table(write(tmp_path, name, text)).values.tolist() == [[1, 2.5], [3, -4]]


def test_one_number_a_line_is_one_column(tmp_path: Path) -> None:
    assert load_table(write(tmp_path, "a.jsonl", "1\n2\n")).values.tolist() == [[1], [2]]
    assert load_table(write(tmp_path, "a.csv", "1\n2\n")).values.tolist() == [[1], [2]]


@pytest.mark.parametrize("array", [np.array([1, 2], np.int32), np.array([[1.0], [2.0]], np.float32)])
def test_npy_files_are_read(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", array)
    table = load_table(tmp_path / "a.npy")
    assert table.values.dtype == np.float64
    assert table.values.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a.csv", f"1,2\n3,{SECRET}\n", "row 2, column 2: is not a number"),
        ("a.csv", f"h,i\n1,2\n{SECRET},4\n", "row 3, column 1: is not a number"),
        ("a.csv", f"{SECRET}\n{SECRET}\n", "row 2, column 1: is not a number"),
        ("a.csv", "1,2\n\n3,nan\n", "row 3, column 2: is not a finite number"),
        ("a.csv", "1,2\n3,1e999\n", "row 2, column 2: is not a finite number"),
        ("a.csv", "1,2\n3\n", "row 2: has 1 columns, the first row has 2"),
        ("a.jsonl", f'[1]\n["{SECRET}"]\n', "row 2, column 1: is not a number"),
        ("a.jsonl", "[1]\n[true]\n", "row 2, column 1: is not a number"),
        ("a.jsonl", "[1]\n[null]\n", "row 2, column 1: is not a number"),
        ("a.jsonl", "[1]\n[[2]]\n", "row 2, column 1: is not a number"),
        ("a.jsonl", f"[1]\n{SECRET}\n", "row 2: is not JSON"),
        ("a.jsonl", '{"x": 1}\n{"y": 1}\n', "row 2: its keys differ"),
        ("a.jsonl", "[1]\n[NaN]\n", "row 2, column 1: is not a finite number"),
        ("a.jsonl", "[1]\n[1" + "0" * 400 + "]\n", "row 2, column 1: is not a number"),
    ],
)
def test_a_bad_row_names_file_row_and_column_and_never_the_value(
    tmp_path: Path, name: str, text: str, place: str
) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(DataError) as caught:
        load_table(path)
    assert place in str(caught.value)
    assert str(path) in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(DataError, match="holds no data"):
        load_table(write(tmp_path, name, text))


def test_a_missing_file_and_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        load_table(tmp_path / "a.csv")
    with pytest.raises(DataError, match=r"allowed are \.csv, \.npy, \.jsonl"):
        load_table(tmp_path / "a.xlsx")


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"1\n\xff\xfe\n")
    with pytest.raises(DataError, match="not UTF-8"):
        load_table(tmp_path / "a.csv")


@pytest.mark.parametrize("array", [np.array([object()]), np.array(["a"]), np.array([True]), np.array([1j])])
def test_npy_of_anything_but_numbers_is_refused(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(DataError, match="not an NPY file of numbers"):
        load_table(tmp_path / "a.npy")


def test_npy_of_three_dimensions_or_garbage_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 2, 2)))
    with pytest.raises(DataError, match="3 dimensions"):
        load_table(tmp_path / "a.npy")
    (tmp_path / "a.npy").write_bytes(b"garbage")
    with pytest.raises(DataError, match="not an NPY file"):
        load_table(tmp_path / "a.npy")


def test_tables_can_be_made_in_memory() -> None:
    assert table_of([1, 2]).values.tolist() == [[1], [2]]
    assert str(table_of([[1, 2]]).error(0, 1, "is odd")) == "data, row 1, column 2: is odd"
