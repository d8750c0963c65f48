"""Reading one user's data file: CSV, NPY or JSON lines, into a table of finite numbers.

A refusal names file, row and column, and never what stands there: error texts end up in logs
(THEORY.md#no-side-channel). So columns have numbers, not names (a file without a header would give its first values as
names), and errors are raised `from None`, since the parser's own message would quote the value.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class DataError(ValueError):
    """A user's data cannot be used. The message names file, row and column, never a value."""


@dataclass(frozen=True)
class Table:
    """Finite numbers, one row per record, and where each came from."""

    values: NDArray[np.float64]  # (rows, columns)
    file: str
    row_numbers: tuple[int, ...]  # as a user counts them in the file, from 1; a CSV's header line counts

    def error(self, row: int, column: int, problem: str) -> DataError:
        """The error for one cell, given as indices into `values`."""
        return _cell_error(self.file, self.row_numbers[row], column, problem)

    def expect_columns(self, count: int, meaning: str) -> None:
        found = self.values.shape[1]
        if found != count:
            raise DataError(f"{self.file}: has {found} columns, the plan needs {count} ({meaning})")


def load_table(path: Path) -> Table:
    """The table in a .csv, .npy or .jsonl file. Every cell is checked here, before the run
    (THEORY.md#blind-routing)."""
    readers = {".csv": _read_csv, ".npy": _read_npy, ".jsonl": _read_json_lines}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: unknown kind of file; allowed are {', '.join(readers)}")
    try:
        table = reader(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not UTF-8 text") from None
    if table.values.size == 0:
        raise DataError(f"{path}: holds no data")
    bad = np.argwhere(~np.isfinite(table.values))
    if bad.size:
        raise table.error(int(bad[0, 0]), int(bad[0, 1]), "is not a finite number")
    return table


def table_of(values: Sequence[Any] | NDArray[Any], name: str = "data") -> Table:
    """A table from numbers in memory (tests, notebooks, the simulator); a flat sequence is one column."""
    return _table(np.array(values, dtype=np.float64), name)


def _table(matrix: NDArray[np.float64], file: str) -> Table:
    if matrix.ndim == 1:
        matrix = matrix[:, np.newaxis]
    if matrix.ndim != 2:
        raise DataError(f"{file}: has {matrix.ndim} dimensions, allowed are 1 (one column) and 2 (rows, columns)")
    return Table(matrix, file, tuple(range(1, len(matrix) + 1)))


def _cell_error(file: str, row_number: int, column: int, problem: str) -> DataError:
    return DataError(f"{file}, row {row_number}, column {column + 1}: {problem}")


def _from_records(file: str, records: list[tuple[int, Sequence[Any]]]) -> Table:
    columns = len(records[0][1]) if records else 0
    values = np.empty((len(records), columns))
    for i, (number, record) in enumerate(records):
        if len(record) != columns:
            raise DataError(f"{file}, row {number}: has {len(record)} columns, the first row has {columns}")
        for j, cell in enumerate(record):
            value = _number(cell)
            if value is None:
                raise _cell_error(file, number, j, "is not a number")
            values[i, j] = value
    return Table(values, file, tuple(number for number, _ in records))


def _number(cell: object) -> float | None:
    """A text or a JSON value as a number; None when it is not one. True and false are not numbers."""
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return None


def _read_csv(path: Path) -> Table:
    """Comma-separated numbers. A first line without any number in it is a header, and skipped."""
    with path.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.reader(stream)
        try:
            records: list[tuple[int, Sequence[str]]] = [(reader.line_num, cells) for cells in reader if cells]
        except csv.Error:
            raise DataError(f"{path}, row {reader.line_num}: is not CSV") from None
    has_header = bool(records) and all(_number(cell) is None for cell in records[0][1])
    return _from_records(str(path), records[1:] if has_header else records)


def _read_json_lines(path: Path) -> Table:
    """Per line a number, a list of numbers, or an object of numbers with the same keys on every line."""
    records: list[tuple[int, Sequence[Any]]] = []
    keys: tuple[str, ...] | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError(f"{path}, row {number}: is not JSON") from None
        if isinstance(record, dict):
            keys = keys or tuple(record)
            if set(record) != set(keys):
                raise DataError(f"{path}, row {number}: its keys differ from those of the first row")
            record = [record[key] for key in keys]
        records.append((number, record if isinstance(record, list) else [record]))
    return _from_records(str(path), records)


def _read_npy(path: Path) -> Table:
    try:
        matrix = np.load(path, allow_pickle=False)
    except (ValueError, EOFError):
        raise DataError(f"{path}: is not an NPY file of numbers") from None
    if not isinstance(matrix, np.ndarray) or matrix.dtype.kind not in "iuf":
        raise DataError(f"{path}: is not an NPY file of numbers")
    return _table(matrix.astype(np.float64), str(path))
