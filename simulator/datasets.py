"""The data of the paper's SGD experiment: "Houses" (OpenML 823), or a generated set of the same shape.

20640 rows, 8 features, a binary label. Features are standardised; the rows are split 80/20 at random into training and
test set, and the training rows are dealt out to users in equal numbers. What is left over of the training rows is
the validation set on which step sizes are tuned.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from network_dp.errors import UserError
from node.tasks.vectors import unit_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COLUMNS = (
    "longitude",
    "latitude",
    "housing_median_age",
    "total_rooms",
    "total_bedrooms",
    "population",
    "households",
    "median_income",
)
VALUE = "median_house_value"
LABEL = "label"
ROWS = 20_640
TEST_SHARE = 0.2


class DatasetError(UserError, ValueError):
    """A data set cannot be used; the message says what is expected."""


@dataclass(frozen=True)
class Dataset:
    """Standardised features and labels in {-1, +1}."""

    name: str
    features: Floats
    labels: Floats


def houses(path: Path) -> Dataset:
    """Houses from a CSV file (or .csv.gz) with a header: the raw columns, or a file made by `write`.

    As in OpenML 823 the label is +1 where the median house value lies below its mean.
    """
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    records = list(csv.reader(text.splitlines()))
    if len(records) < 2:
        raise DatasetError(f"{path}: holds no rows")
    names = records[0]
    target = LABEL if LABEL in names else VALUE
    missing = [name for name in (*COLUMNS, target) if name not in names]
    if missing:
        raise DatasetError(f"{path}: has no column {', '.join(missing)}; expected are {', '.join(COLUMNS)} and {VALUE}")
    try:
        table = np.array(records[1:], dtype=np.float64)
    except ValueError as error:
        raise DatasetError(f"{path}: {error}") from None
    values = table[:, names.index(target)]
    labels = np.sign(values) if target == LABEL else np.where(values < values.mean(), 1.0, -1.0)
    return Dataset("Houses", _standardised(table[:, [names.index(name) for name in COLUMNS]]), labels)


def download() -> Dataset:
    """Houses from OpenML (data set 823), through scikit-learn: needs the `experiments` extra and a network."""
    try:
        from sklearn.datasets import fetch_openml
    except ImportError:
        raise DatasetError('scikit-learn is not installed: pip install "network-dp[experiments]"') from None
    try:
        features, labels = fetch_openml(data_id=823, return_X_y=True, as_frame=False)
    except OSError as error:
        raise DatasetError(f"OpenML cannot be reached ({error}); give the file with --csv instead") from None
    return Dataset("Houses", _standardised(np.asarray(features, dtype=np.float64)), np.where(labels == "P", 1.0, -1.0))


def generated(seed: int = 823, rows: int = ROWS) -> Dataset:
    """Made-up rows of the same shape: correlated, skewed features, and a label that is 85 to 90 % linear."""
    generator = np.random.default_rng(seed)
    size = len(COLUMNS)
    mixing = np.eye(size) + 0.6 * generator.standard_normal((size, size)) / np.sqrt(size)
    features = _standardised(np.exp(0.5 * generator.standard_normal((rows, size))) @ mixing)
    direction = generator.standard_normal(size)
    score = unit_rows(features) @ (direction / np.linalg.norm(direction))
    noise = generator.logistic(scale=0.1, size=rows)
    return Dataset("generated", features, np.where(score + noise > 0, 1.0, -1.0))


def write(dataset: Dataset, path: Path) -> None:
    """The prepared data set as CSV: standardised features and the label."""
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow([*COLUMNS, LABEL])
        for row, label in zip(dataset.features, dataset.labels, strict=True):
            rows.writerow([*(f"{x:.17g}" for x in row), f"{label:g}"])


def _standardised(features: Floats) -> Floats:
    return np.asarray((features - features.mean(axis=0)) / features.std(axis=0))


@dataclass(frozen=True)
class Problem:
    """A data set dealt out to users: rows of shape (users, rows per user, dimension), scaled as an SGD node does."""

    name: str
    rows: Floats
    labels: Floats
    validation: tuple[Floats, Floats]
    test: tuple[Floats, Floats]

    @property
    def n_users(self) -> int:
        return len(self.rows)


def deal(dataset: Dataset, n_users: int, seed: int = 1, *, unit_intercept: bool = True) -> Problem:
    """Split, and deal the training rows out to users.

    Rows get a constant for the intercept and are scaled to norm 1 as a whole (THEORY.md#sgd-rows). With
    `unit_intercept=False` the constant is appended after scaling, as in the paper's experiments: norm sqrt(2).
    """
    constant = np.ones((len(dataset.labels), 1))
    scaled = (
        unit_rows(np.hstack([dataset.features, constant]))
        if unit_intercept
        else np.hstack([unit_rows(dataset.features), constant])
    )
    dealt, validation, test = split(len(dataset.labels), n_users, seed)
    return Problem(
        dataset.name,
        scaled[dealt],
        dataset.labels[dealt],
        (scaled[validation], dataset.labels[validation]),
        (scaled[test], dataset.labels[test]),
    )


def split(n_rows: int, n_users: int, seed: int) -> tuple[Ints, Ints, Ints]:
    """Indices of rows: (users, rows per user) for training, then validation, then test."""
    order = np.random.default_rng(seed).permutation(n_rows)
    n_train = n_rows - int(TEST_SHARE * n_rows)
    per_user = n_train // n_users
    dealt = per_user * n_users
    if per_user < 1 or dealt == n_train:
        raise DatasetError(f"{n_train} training rows cannot be dealt to {n_users} users with some left for validation")
    return order[:dealt].reshape(n_users, per_user), order[dealt:n_train], order[n_train:]


def write_users(dataset: Dataset, folder: Path, n_users: int, seed: int = 1) -> int:
    """FOLDER/user-0.csv, user-1.csv, ... as an SGD node reads them (features, label; no header), and test.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    dealt, _, test = split(len(dataset.labels), n_users, seed)
    table = np.column_stack([dataset.features, dataset.labels])
    for u, rows in enumerate(dealt):
        np.savetxt(folder / f"user-{u}.csv", table[rows], fmt="%.17g", delimiter=",")
    np.savetxt(folder / "test.csv", table[test], fmt="%.17g", delimiter=",")
    return len(dealt)
