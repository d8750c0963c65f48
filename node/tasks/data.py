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

from network_dp.errors import UserError
from network_dp.reading import PLAIN, Reading, number


class DataError(UserError, ValueError):
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


def load_table(path: Path, reading: Reading = PLAIN) -> Table:
    """The table in a .csv, .npy or .jsonl file, read as the plan says (`plan.task.reading`). Every cell is checked
    here, before the run (THEORY.md#blind-routing)."""
    readers = {".csv": _read_csv, ".npy": _read_npy, ".jsonl": _read_json_lines}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: unknown kind of file; allowed are {', '.join(readers)}")
    try:
        table = reader(path, reading)
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


def _from_records(
    file: str, records: list[tuple[int, Sequence[Any]]], reading: Reading, taken: Sequence[int] | None = None
) -> Table:
    """Numbers from the columns at the places ``taken`` (None: from all)."""
    columns = len(records[0][1]) if records else 0
    places = range(columns) if taken is None else taken
    values = np.empty((len(records), len(places)))
    for i, (row_number, record) in enumerate(records):
        if len(record) != columns:
            raise DataError(f"{file}, row {row_number}: has {len(record)} columns, the first row has {columns}")
        for j, place in enumerate(places):
            is_last = j == len(places) - 1
            value = reading.last(record[place]) if is_last else number(record[place])
            if value is None:
                problem = "is none of the texts that the plan names" if is_last and reading.codes else "is not a number"
                raise _cell_error(file, row_number, place, problem)
            values[i, j] = value
    return Table(values, file, tuple(row_number for row_number, _ in records))


def _places(file: str, names: Sequence[str], header: Sequence[str]) -> list[int]:
    """Where the plan's columns stand. A refusal quotes the plan, never the file."""
    cells = [cell.strip() for cell in header]
    for name in names:
        if cells.count(name) != 1:
            found = "no column" if name not in cells else f"{cells.count(name)} columns"
            raise DataError(
                f'{file}: has {found} with the name "{name}" that the plan gives (a CSV names its columns '
                "in its first line)"
            )
    return [cells.index(name) for name in names]


def _read_csv(path: Path, reading: Reading) -> Table:
    """Comma-separated cells. The first line is a header where the plan names columns, or where no cell of it can be
    read as the plan reads one."""
    with path.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.reader(stream)
        try:
            records: list[tuple[int, Sequence[str]]] = [(reader.line_num, cells) for cells in reader if cells]
        except csv.Error:
            raise DataError(f"{path}, row {reader.line_num}: is not CSV") from None
    first = records[0][1] if records else ()
    if reading.names is not None:
        return _from_records(str(path), records[1:], reading, _places(str(path), reading.names, first))
    has_header = bool(first) and all(number(cell) is None and reading.last(cell) is None for cell in first)
    if has_header and len(records) == 1:
        raise DataError(f"{path}: holds no data below its first line, which has no value and is taken for a header")
    return _from_records(str(path), records[1:] if has_header else records, reading)


def _read_json_lines(path: Path, reading: Reading) -> Table:
    """Per line a value, a list of values, or an object with the same keys on every line."""
    records: list[tuple[int, Sequence[Any]]] = []
    keys: tuple[str, ...] | None = None
    for row_number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError(f"{path}, row {row_number}: is not JSON") from None
        if isinstance(record, dict):
            keys = keys or tuple(record)
            if set(record) != set(keys):
                raise DataError(f"{path}, row {row_number}: its keys differ from those of the first row")
            record = [record[key] for key in keys]
        records.append((row_number, record if isinstance(record, list) else [record]))
    taken = None if reading.names is None or keys is None else _places(str(path), reading.names, keys)
    return _from_records(str(path), records, reading, taken)


def _read_npy(path: Path, reading: Reading) -> Table:
    """An array has no names: its columns are those of the plan, in the plan's order."""
    try:
        matrix = np.load(path, allow_pickle=False)
    except (ValueError, EOFError):
        raise DataError(f"{path}: is not an NPY file of numbers") from None
    if not isinstance(matrix, np.ndarray) or matrix.dtype.kind not in "iuf":
        raise DataError(f"{path}: is not an NPY file of numbers")
    table = _table(matrix.astype(np.float64), str(path))
    if not reading.translates or not table.values.size:
        return table
    records = [(row_number, row.tolist()) for row_number, row in enumerate(table.values, start=1)]
    return _from_records(str(path), records, reading)
