"""From files to ``Logs``: find the plan and the logs, stream every line once, refuse what is not one run.

A log may be full or exported, plain or gzip. Its torn last line (a crash while writing) is tolerated and noted;
anything else that is not a record of this run is an ``InputError`` naming file and line.
"""

from __future__ import annotations

import gzip
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from analyzer.errors import InputError
from analyzer.read.collect import Collector
from analyzer.read.tables import Logs
from analyzer.reconstruct import rounds
from analyzer.reconstruct.values import ValueFormatError
from network_dp import plan_reader, view
from network_dp.plan import Plan, PlanError

LOG_NAMES: Final = ("view.jsonl", "view.jsonl.gz")
_GZIP_MAGIC: Final = b"\x1f\x8b"
Numbered = tuple[int, view.Record]  # a record and its line
_PLAN_LOOK_UP: Final = 4  # a plan may lie up to so many folders above a log


@dataclass(frozen=True, slots=True)
class Source:
    """One log file and its first record."""

    path: Path
    header: view.Record


def read_plan(path: Path) -> Plan:
    try:
        plan = plan_reader.load(path)
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror}") from None
    except PlanError as error:
        raise InputError(path, None, f"is not a plan: {str(error).removeprefix(f'{path}: ')}") from None
    needs_grid = plan.mechanism.fixed_grid is None and plan.task.additive
    if not plan.noise.calibrated or (needs_grid and plan.noise.grid is None):
        raise InputError(path, None, "is a plan without a noise size or grid: give the one that `provision` wrote")
    return plan


def find_logs(paths: Sequence[Path]) -> list[Path]:
    """The log files of the given files and directories, each once, in a stable order."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(p for name in LOG_NAMES for p in path.rglob(name))
            inside = inside or sorted([*path.glob("*.jsonl"), *path.glob("*.jsonl.gz")])
            if not inside:
                raise InputError(path, None, "holds no view log (view.jsonl)")
            found.update(dict.fromkeys(inside))
        elif path.exists():
            found[path] = None
        else:
            raise InputError(path, None, "does not exist")
    return list(found)


def find_plan(paths: Sequence[Path]) -> Path:
    """plan.toml beside or above the given paths."""
    for path in paths:
        if not path.exists():
            raise InputError(path, None, "does not exist")
    for path in paths:
        start = path if path.is_dir() else path.parent
        for folder in [start, *start.resolve().parents[:_PLAN_LOOK_UP]]:
            if (folder / "plan.toml").is_file():
                return folder / "plan.toml"
    raise InputError(paths[0], None, "has no plan.toml beside or above it: give the plan with --plan FILE")


def _open(path: Path) -> Any:
    with path.open("rb") as probe:
        packed = probe.read(2) == _GZIP_MAGIC
    return gzip.open(path, "rb") if packed else path.open("rb")


def records(path: Path, torn: list[str]) -> Iterator[tuple[int, view.Record]]:
    """(line number, record) of every line; a torn last line is left out and named in ``torn``."""
    pending: tuple[int, str] | None = None  # a bad line is only torn if it is the last one
    number = 0
    try:
        with _open(path) as stream:
            for number, raw in enumerate(stream, start=1):
                if pending is not None:
                    raise InputError(path, *pending)
                try:
                    record = view.decode(raw)
                except view.ViewError as error:
                    if raw.endswith(b"\n"):
                        raise InputError(path, number, f"not a record of a view log ({error})") from None
                    pending = (number, f"not a record of a view log ({error})")
                    continue
                yield number, record
    except EOFError:
        pending = (number + 1, "the gzip stream is cut off")
    except (OSError, gzip.BadGzipFile) as error:
        raise InputError(path, None, f"cannot be read: {error.strerror or error}") from None
    if pending is not None:
        torn.append(f"{path}:{pending[0]}: the last line is torn and was left out")


def read_header(path: Path) -> view.Record:
    for number, record in records(path, []):
        if record.kind != "header":
            raise InputError(path, number, 'the first line must be the "header"')
        return record
    raise InputError(path, 1, "the log is empty: not even a header")


def check_sources(plan: Plan, plan_path: Path, paths: Sequence[Path]) -> list[Source]:
    """Headers that belong together: this plan, one run, every user once."""
    sources = [Source(path, read_header(path)) for path in paths]
    plan_hash, run_id, names = plan.hash, plan.run_id, frozenset(plan.names)  # each costs a walk over all users
    if not sources:
        raise InputError(plan_path, None, "no view log was given")
    run, _ = Counter(source.header.fields["run"] for source in sources).most_common(1)[0]
    if any(source.header.fields["run"] == run_id for source in sources):
        run = run_id
    owners: dict[str, Path] = {}
    for source in sources:
        fields = source.header.fields
        if fields["plan"] != plan_hash:
            raise InputError(source.path, 1, f"is a log of another plan than {plan_path} (hash {plan_hash[:12]})")
        if fields["run"] != run:
            raise InputError(source.path, 1, f"is a log of another run ({str(fields['run'])[:12]}, not {run[:12]})")
        if fields["user"] not in names:
            raise InputError(source.path, 1, f'user "{fields["user"]}" is not in the plan')
        if fields["user"] in owners:
            raise InputError(source.path, 1, f"is a second log of {fields['user']} (first: {owners[fields['user']]})")
        owners[fields["user"]] = source.path
    return sources


def seconds(value: object) -> float:
    """A logged time as seconds; NaN when there is none."""
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            return math.nan
    return math.nan


def attended(plan: Plan, logs: Logs) -> dict[int, rounds.RoundsLog]:
    """What the logs of anonymous rounds say beside the walk, by user."""
    return {user: rounds.read(plan, list(records(path, []))) for user, path in logs.files.items()}


def _as_walk(plan: Plan, sources: Sequence[Source]) -> Callable[[int, Iterable[Numbered]], Iterable[Numbered]]:
    """Logs of a hidden walk, told as those of a walk; of a masked sum, every share as what one visit adds."""
    if not plan.walk.anonymous:
        return lambda user, lines: lines
    if plan.in_one_round:
        return lambda user, lines: rounds.as_shares(plan.names[user], lines)
    read = {
        plan.index(source.header.fields["user"]): rounds.read(plan, list(records(source.path, [])))
        for source in sources
    }
    told = rounds.told(plan, read)
    return lambda user, lines: rounds.as_walk(told, user, lines)


def load(paths: Sequence[Path], plan_path: Path | None = None) -> Logs:
    """Read the logs of one run. ``paths``: a run's directory, or any number of log files."""
    plan_file = plan_path or find_plan(paths)
    plan = read_plan(plan_file)
    sources = check_sources(plan, plan_file, find_logs(paths))
    collector = Collector(plan)
    indices = {name: index for index, name in enumerate(plan.names)}
    notes: list[str] = []
    as_walk = _as_walk(plan, sources)
    for source in sources:
        user = indices[source.header.fields["user"]]
        collector.open(user, source.path, bool(source.header.fields["values"]))
        for number, record in as_walk(user, records(source.path, notes)):
            try:
                collector.add(number, record, seconds(record.fields.get("time")))
            except ValueFormatError as error:
                raise InputError(source.path, number, str(error)) from None
    insecure = plan.insecure_seed is not None or any(source.header.fields["insecure"] for source in sources)
    return collector.finish(str(sources[0].header.fields["run"]), insecure, notes)
