"""A folder of users' tables: who they are, and which columns they name. For whoever holds the files."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coordinator_free_launcher.identity.bundle import DATA_SUFFIXES
from network_dp.plan import PlanError
from network_dp.plan_reader import NAME
from network_dp.reading import number

#: A table of this name is for testing a model: nobody's.
TEST: Final = "test"


@dataclass(frozen=True, slots=True)
class Folder:
    """The users whose tables lie in a folder, in the order of their names (user-2 before user-10)."""

    path: Path
    names: tuple[str, ...]
    columns: tuple[str, ...]  # as the first table names them; empty: it names none


def survey(path: Path) -> Folder:
    """Who has a table here. ``PlanError`` for a folder without users, and for names that no plan can have."""
    if not path.is_dir():
        raise PlanError(f"{path}: is not a folder; give a folder with one file per user: NAME.csv, .npy or .jsonl")
    files = [file for file in path.iterdir() if file.suffix in DATA_SUFFIXES and file.stem != TEST]
    files.sort(key=lambda file: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", file.stem)])
    names = [file.stem for file in files]
    if len(names) < 2:
        raise PlanError(f"{path}: holds the tables of {len(names)} users, a run needs 2; name them NAME.csv")
    for file in files:
        if not NAME.fullmatch(file.stem):
            raise PlanError(f"{file}: rename it; a user's name is lower-case letters, digits and dashes, at most 63")
        if names.count(file.stem) > 1:
            raise PlanError(f"{path}: several tables of {file.stem}; keep one")
    return Folder(path, tuple(names), _columns(files[0]))


def _columns(file: Path) -> tuple[str, ...]:
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            if file.suffix == ".csv":
                cells = next(csv.reader(stream), [])
                return tuple(cells) if cells and all(number(cell) is None for cell in cells) else ()
            if file.suffix == ".jsonl":
                first = json.loads(stream.readline() or "null")
                return tuple(first) if isinstance(first, dict) else ()
    except (ValueError, RecursionError, csv.Error):
        raise PlanError(f"{file}: cannot be read as {file.suffix[1:]}; see docs/DATA.md") from None
    return ()
