"""``import network_dp as ndp``: runs over real processes on this machine, from Python and from notebooks.

Every function takes one table per user (an array, a list, a pandas series or frame, or a path), starts one process per
user, waits for the result and lets the analyzer judge the run. Nothing is drawn or computed here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from coordinator_free_launcher.identity.bundle import data_folder
from coordinator_free_launcher.local.given import by_name, renamed, write_tables
from coordinator_free_launcher.local.run import LocalRun, run_locally
from coordinator_free_launcher.results import Estimate, Histogram, Model, Result
from network_dp.errors import UserError
from network_dp.plan import CustomTask, HistogramTask, ModelTask, Plan, SgdTask, SumTask
from network_dp.plan_reader import from_dict, load
from network_dp.topology import TOPOLOGIES, Complete

Tables = Mapping[Any, Any] | Sequence[Any]
_PORT: Final = 20000  # a placeholder: a local run moves everybody to free ports
_ROUNDS: Final = 10
_STEPS_PER_USER: Final = 20


def mean(data: Tables, *, lower: float, upper: float, epsilon: float, **more: Any) -> Estimate:
    """The mean over users of one number per user (or per column), each clipped to the public [lower, upper].

    ``column``: name or names of the columns of frames and files. ``topology``, ``rounds``, ``steps``, ``delta`` and
    ``mechanism`` as in a plan (docs/PLAN.md), else a ring of ten rounds; ``folder``: a new one, else under out/.
    """
    return _sums("mean", data, lower, upper, epsilon, more)


def sum(data: Tables, *, lower: float, upper: float, epsilon: float, **more: Any) -> Estimate:
    """The sum over users of one number per user; otherwise as ``mean``."""
    return _sums("sum", data, lower, upper, epsilon, more)


def histogram(
    data: Tables,
    *,
    epsilon: float,
    categories: Sequence[str] | None = None,
    edges: Sequence[float] | None = None,
    buckets: int | None = None,
    **more: Any,
) -> Histogram:
    """Shares of the users' rows in categories (texts), in ranges between edges, or in buckets 0 .. buckets-1."""
    keys = {"categories": categories, "edges": edges, "buckets": buckets}
    given = {key: _plain(value) for key, value in keys.items() if value is not None}
    if len(given) != 1:
        raise UserError("histogram: give one of categories, edges and buckets; they are public")
    done = _run({"kind": "histogram", **given}, data, epsilon, more, mechanism="gaussian")
    return Histogram(done)


def logistic_regression(
    data: Tables,
    *,
    epsilon: float,
    features: Sequence[str] | None = None,
    label: str | None = None,
    labels: Sequence[str] | None = None,
    ranges: Sequence[tuple[float, float]] | None = None,
    **more: Any,
) -> Model:
    """A linear model of two classes, trained by all users; ``score`` and ``predict`` use it.

    A user's table is a frame or file with the columns ``features`` and ``label``, a pair (X, y), or an array whose last
    column is the label. ``labels``: the two texts of the label. ``ranges``: the public range of every feature.
    """
    tables = by_name(data)
    task: dict[str, Any] = {"kind": "sgd", "loss": "logistic", "radius": more.pop("radius", 10.0)}
    for key, value in (("columns", features), ("label", label), ("labels", labels), ("ranges", ranges)):
        if value is not None:
            task[key] = _plain(value)
    if features is None:
        task["features"] = more.pop("n_features", None) or _width(next(iter(tables.values()))) - 1
    return Model(_run(task, tables, epsilon, {"topology": "complete", **more}))


def run(
    plan: Plan | Path | str,
    data: Tables | Path | str | None = None,
    folder: Path | str | None = None,
    *,
    allow_clipping: bool = False,
) -> Result:
    """Run a plan (or the plan in a file) on this machine. ``data``: a folder, or one table per user; None: made up."""
    read = plan if isinstance(plan, Plan) else load(Path(plan))
    if isinstance(data, str | Path):
        tables: dict[str, Any] | None = dict(data_folder(read, Path(data)))
    else:
        tables = None if data is None else by_name(data)
    return _RESULTS[type(read.task)](_execute(read, tables, folder, allow_clipping))


#: What a run of each kind of task returns.
_RESULTS: Final[Mapping[type, type[Result]]] = {
    SumTask: Estimate,
    HistogramTask: Histogram,
    SgdTask: Model,
    ModelTask: Result,
    CustomTask: Result,
}


def _sums(kind: str, data: Tables, lower: float, upper: float, epsilon: float, more: Mapping[str, Any]) -> Estimate:
    task: dict[str, Any] = {"kind": kind, "lower": float(lower), "upper": float(upper)}
    if more.get("column") is None:
        task["dimension"] = _width(next(iter(by_name(data).values())))
    return Estimate(_run(task, data, epsilon, more))


def _run(
    task: Mapping[str, Any], data: Tables, epsilon: float, more: Mapping[str, Any], mechanism: str = "gaussian"
) -> LocalRun:
    """A plan for these tables, run."""
    tables, rest, task = by_name(data), dict(more), dict(task)
    column = rest.pop("column", None)
    if column is not None:
        task["columns"] = [column] if isinstance(column, str) else list(column)
    folder, clipping = rest.pop("folder", None), rest.pop("allow_clipping", False)
    noise = {"mechanism": rest.pop("mechanism", mechanism), "epsilon": float(epsilon), "delta": rest.pop("delta", 1e-6)}
    topology = rest.pop("topology", "ring")
    key = TOPOLOGIES.get(topology, Complete).length_key
    usual = {"rounds": _ROUNDS, "steps": _STEPS_PER_USER * len(tables)}[key]
    walk = {"topology": topology, key: rest.pop(key, usual)}
    name = rest.pop("name", task["kind"])
    if rest:
        raise UserError(f"{next(iter(rest))}: not known here; see help(network_dp.{task['kind']}) and docs/PLAN.md")
    users = [{"name": user, "address": f"127.0.0.1:{_PORT + i}"} for i, user in enumerate(tables)]
    plan = from_dict({"name": name, "walk": walk, "task": task, "noise": noise, "users": users})
    return _execute(plan, tables, folder, clipping)


def _execute(plan: Plan, tables: Mapping[str, Any] | None, folder: Path | str | None, clipping: bool) -> LocalRun:
    target = _new_folder(plan.name) if folder is None else Path(folder)
    if tables is None:
        return run_locally(plan, target)
    with tempfile.TemporaryDirectory(prefix="network-dp-data-") as place:
        try:
            files = write_tables(tables, Path(place), named=plan.task.reading.names is not None)
            return run_locally(plan, target, data=files, allow_clipping=clipping)
        except UserError as error:
            raise renamed(error, Path(place)) from None


def _new_folder(name: str) -> Path:
    """out/NAME, or out/NAME-2 and so on: earlier runs stay as they are."""
    number = 1
    while (found := Path("out") / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return found


def _width(table: Any) -> int:
    """Columns of a table in memory; of a file, 1."""
    if isinstance(table, tuple) and len(table) == 2:
        return _width(table[0]) + 1
    shape = getattr(table, "shape", None)
    if shape is None and isinstance(table, list | tuple) and table and isinstance(table[0], list | tuple):
        return len(table[0])
    return 1 if shape is None or len(shape) < 2 else int(shape[1])


def _plain(value: Any) -> Any:
    """Lists of plain values, as a plan holds them."""
    if isinstance(value, str | int | float):
        return value
    return [_plain(item.item() if hasattr(item, "item") else item) for item in value]
