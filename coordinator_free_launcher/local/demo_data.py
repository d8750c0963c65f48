"""Made-up private data for a demo, and the truth it hides.

A real run has no such file: nobody knows all the data. In a demo the truth is written to truth.json, outside every
bundle, so that the result can be compared with it. Files are as a user's own would be: with the plan's columns, texts
and ranges where it names some, else without a header: values, a bucket, or features followed by the label (-1 or 1).
"""

from __future__ import annotations

import csv
import json
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from coordinator_free_launcher.identity.provision import provision
from network_dp.plan import HistogramTask, Plan, PlanError, SgdTask, SumTask
from network_dp.untrusted import FormatError, json_table, read_text
from node.tasks.vectors import unit_rows

Array = NDArray[np.float64]

ROWS_PER_USER: Final = 8
TEST_SHARE: Final = 0.25
#: Distance of each of two made-up groups from the middle, in standard deviations: 95 in 100 rows lie on their side.
APART: Final = 1.65
FAR: Final = 4.0  # standard deviations: where features have a range, this is its end
#: Weight of the regulariser that keeps the non-private model finite on separable data.
RIDGE: Final = 1e-4


@dataclass(frozen=True, slots=True)
class DemoTruth:
    """What the run should find: a mean and sum over users, or counts, or a model with its accuracy on a test set."""

    kind: str
    users: int
    mean: list[float] | None = None
    sum: list[float] | None = None
    histogram: list[int] | None = None
    model: list[float] | None = None
    test_accuracy: float | None = None
    test_features: list[list[float]] | None = None
    test_labels: list[float] | None = None

    def first(self, plan: Plan) -> float | None:
        """What the first number of a mean or of a histogram's shares should be; None for the other tasks."""
        if self.histogram is not None:
            return self.histogram[0] / sum(self.histogram)
        return self.mean[0] if plan.task.per_user and self.mean is not None else None

    def write(self, path: Path) -> None:
        values = {key: value for key, value in asdict(self).items() if value is not None}
        path.write_text(json.dumps(values, allow_nan=False) + "\n")

    @classmethod
    def of(cls, folder: Path) -> DemoTruth | None:
        """What FOLDER/truth.json tells; None where there is none, as of every real run."""
        path = folder / "truth.json"
        return cls.read(path) if path.exists() else None

    @classmethod
    def read(cls, path: Path) -> DemoTruth:
        """Back from a file; ``FormatError`` names it."""
        try:
            return cls(**json_table(read_text(path)))
        except (FormatError, TypeError):
            raise FormatError(f"{path}: not the truth.json of a demo") from None


@dataclass(frozen=True, slots=True)
class DemoData:
    """One table of rows per user, in plan order, and the truth about all of them."""

    rows: tuple[Array, ...]
    truth: DemoTruth

    def write(self, plan: Plan, folder: Path) -> dict[str, Path]:
        """FOLDER/NAME.csv for every user; returns the files by name."""
        folder.mkdir(parents=True, exist_ok=True)
        files = {name: folder / f"{name}.csv" for name in plan.names}
        for path, table in zip(files.values(), self.rows, strict=True):
            with path.open("w", newline="") as file:
                lines = csv.writer(file, lineterminator="\n")
                lines.writerows([plan.task.reading.names] if plan.task.reading.names else [])
                lines.writerows(_as_typed(plan.task, row) for row in table)
            path.chmod(0o600)
        return files


def _as_typed(task: Any, row: Array) -> list[str]:
    """A row of numbers as somebody's own table has it: the inverse of the plan's reading (docs/DATA.md)."""
    reading, values, ranges = task.reading, row.tolist(), getattr(task, "ranges", None)
    if ranges:
        values[:-1] = [
            low + (value + 1.0) / 2.0 * (high - low) for value, (low, high) in zip(values[:-1], ranges, strict=True)
        ]
    cells = [f"{value:.17g}" for value in values]
    if reading.codes:
        cells[-1] = next(text for text, code in reading.codes if code == values[-1])
    elif reading.edges:
        bucket = int(values[-1])
        cells[-1] = f"{(reading.edges[bucket] + reading.edges[bucket + 1]) / 2.0:.17g}"
    return cells


def demo_data(plan: Plan, seed: int = 1) -> DemoData:
    """Data for every user of the plan: uniform values, skewed buckets, or rows of a classification problem."""
    make = _MAKERS.get(type(plan.task))
    if make is None:
        raise PlanError(
            f'task.kind = "{plan.task.kind}": there is no demo data for a task of your own; give data files'
        )
    return make(plan.task, plan.n, np.random.default_rng(seed))


def _values(task: SumTask, n: int, dice: np.random.Generator) -> DemoData:
    if task.norm is None:
        values = dice.uniform(task.lower, task.upper, (n, task.dimension))
    else:
        directions = dice.standard_normal((n, task.dimension))
        lengths = task.norm * dice.uniform(0.0, 1.0, (n, 1))
        values = directions / np.linalg.norm(directions, axis=1, keepdims=True) * lengths
    truth = DemoTruth(task.kind, n, mean=values.mean(axis=0).tolist(), sum=values.sum(axis=0).tolist())
    return DemoData(tuple(values[u : u + 1] for u in range(n)), truth)


def _buckets(task: HistogramTask, n: int, dice: np.random.Generator) -> DemoData:
    """Bucket l with probability proportional to 1/(l+1): a few popular ones and a long tail."""
    weights = 1.0 / np.arange(1, task.buckets + 1)
    buckets = dice.choice(task.buckets, size=n, p=weights / weights.sum())
    truth = DemoTruth(task.kind, n, histogram=np.bincount(buckets, minlength=task.buckets).tolist())
    return DemoData(tuple(np.array([[float(bucket)]]) for bucket in buckets), truth)


def _classified(task: SgdTask, n: int, dice: np.random.Generator) -> DemoData:
    features, labels = _breast_cancer(task.features) or _two_groups(task.features, n, dice)
    if task.ranges:
        features = np.clip(features / FAR, -1.0, 1.0)
    order = dice.permutation(len(labels))
    features, labels = features[order], labels[order]
    held_out = max(1, int(len(labels) * TEST_SHARE))
    test_x, test_y, x, y = features[:held_out], labels[:held_out], features[held_out:], labels[held_out:]
    if len(y) < n:
        raise PlanError(f"users: {n} given; the demo data has {len(y)} rows for training, one per user is the least")
    model = fit_logistic(x, y, intercept=task.intercept)
    truth = DemoTruth(
        task.kind,
        n,
        model=model.tolist(),
        test_accuracy=accuracy(model, test_x, test_y),
        test_features=test_x.tolist(),
        test_labels=test_y.tolist(),
    )
    table = np.column_stack([x, y])
    return DemoData(tuple(np.array_split(table, n)), truth)


#: Made-up data for each kind of task.
_MAKERS: Final[Mapping[type, Callable[[Any, int, np.random.Generator], DemoData]]] = {
    SumTask: _values,
    HistogramTask: _buckets,
    SgdTask: _classified,
}


def _breast_cancer(features: int) -> tuple[Array, Array] | None:
    """The data set shipped with scikit-learn (569 rows, 30 features, standardised), if both fit."""
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError:
        return None
    x, y = load_breast_cancer(return_X_y=True)
    if x.shape[1] != features:
        return None
    return (x - x.mean(axis=0)) / x.std(axis=0), 2.0 * y - 1.0


def _two_groups(features: int, n: int, dice: np.random.Generator) -> tuple[Array, Array]:
    """Two groups of equal size whose features differ a little, all together enough to tell most rows apart."""
    rows = math.ceil(ROWS_PER_USER * n / (1.0 - TEST_SHARE))
    y = np.where(dice.uniform(size=rows) < 0.5, 1.0, -1.0)
    x = dice.standard_normal((rows, features)) + y[:, None] * (APART / math.sqrt(features))
    return x, y


def training_rows(features: Array, *, intercept: bool) -> Array:
    """Rows with the constant appended (if wanted), scaled to norm 1: what SGD trains on (THEORY.md#sgd-rows)."""
    rows = np.column_stack([features, np.ones(len(features))]) if intercept else features
    return unit_rows(rows)


def fit_logistic(features: Array, labels: Array, *, intercept: bool) -> Array:
    """The non-private rival: logistic regression on the same scaled rows."""
    from scipy.optimize import minimize

    signed = training_rows(features, intercept=intercept) * labels[:, None]

    def loss(w: Array) -> tuple[float, Array]:
        margins = signed @ w
        value = float(np.logaddexp(0.0, -margins).mean() + RIDGE / 2.0 * (w @ w))
        wrong = 0.5 * (1.0 - np.tanh(margins / 2.0))
        return value, np.asarray(RIDGE * w - signed.T @ wrong / len(margins))

    return np.asarray(minimize(loss, np.zeros(signed.shape[1]), jac=True, method="L-BFGS-B").x)


def accuracy(model: Array, features: Array, labels: Array) -> float:
    """Share of rows whose label's sign the linear model finds; one weight more than features is an intercept."""
    rows = training_rows(features, intercept=len(model) == features.shape[1] + 1)
    return float(np.mean(np.where(rows @ model >= 0.0, 1.0, -1.0) == np.sign(labels)))


def provision_demo(
    plan: Plan, out: Path, valid_days: float = 365.0, seed: int = 1, *, ledgers: Path | None = None
) -> Path:
    """Provision with made-up data; the truth goes to OUT/truth.json, outside every bundle."""
    made = demo_data(plan, seed)
    with tempfile.TemporaryDirectory(prefix="network-dp-data-") as folder:
        provision(plan, out, made.write(plan, Path(folder)), valid_days, ledgers=ledgers)
    made.truth.write(out / "truth.json")
    return out
