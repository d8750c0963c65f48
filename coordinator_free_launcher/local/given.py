"""Data given in Python (arrays, lists, pandas frames and series, paths) as one table per user in a folder."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from network_dp.errors import UserError
from network_dp.plan_reader import NAME
from node.tasks import DataError


def by_name(data: Mapping[Any, Any] | Sequence[Any]) -> dict[str, Any]:
    """One table per user: the keys are names, numbers become user-NUMBER, and so does the place in a list."""
    pairs: Iterable[tuple[Any, Any]] = data.items() if isinstance(data, Mapping) else enumerate(data)
    tables = {key if isinstance(key, str) else f"user-{key}": table for key, table in pairs}
    for name in tables:
        if not NAME.fullmatch(name):
            raise DataError(f'"{name}": a user\'s name is lower-case letters, digits and dashes, at most 63')
    if len(tables) < 2 or len(tables) != len(data):
        raise DataError(f"tables of {len(tables)} users given: a run needs at least 2, each under a name of its own")
    return tables


def write_tables(tables: Mapping[str, Any], folder: Path, *, named: bool) -> dict[str, Path]:
    """Each user's table as a file: its own, if it was given as a path. ``named``: the plan names columns."""
    return {name: _write(name, table, folder, named) for name, table in tables.items()}


def _write(name: str, table: Any, folder: Path, named: bool) -> Path:
    if isinstance(table, str | Path):
        return Path(table)
    if hasattr(table, "to_csv"):  # a pandas frame or series: a name may be a number, so only where names are asked for
        path = folder / f"{name}.csv"
        table.to_csv(path, index=False, header=named)
        return path
    if isinstance(table, tuple) and len(table) == 2:  # features and labels, as other libraries take them
        table = np.column_stack([np.asarray(table[0]), np.asarray(table[1])])
    values = np.asarray(table)
    if values.ndim == 0:
        values = values[np.newaxis]
    if values.dtype.kind in "iufb":
        path = folder / f"{name}.npy"
        np.save(path, values.astype(np.float64))
        return path
    path = folder / f"{name}.csv"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows(values.reshape(len(values), -1).tolist())
    return path


def renamed(error: UserError, folder: Path) -> UserError:
    """The same error, naming what was given instead of the file that was made of it."""
    text = str(error).replace("--allow-clipping", "allow_clipping=True")
    for suffix in (".csv", ".npy"):
        text = text.replace(suffix, "") if f"{folder}/" in text else text
    return DataError(text.replace(f"{folder}/", "data of "))
