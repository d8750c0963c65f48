"""The Houses data, or what stands in for it."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from simulator import datasets
from simulator.datasets import COLUMNS, ROWS, VALUE, DatasetError


def raw(path: Path, rows: int = 40) -> Path:
    table = np.random.default_rng(1).uniform(1, 9, (rows, 9))
    text = "\n".join([",".join([*COLUMNS, VALUE]), *(",".join(map(str, row)) for row in table.tolist())])
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["houses.csv", "houses.csv.gz"])
def test_raw_rows_become_standardised_features_and_a_label_below_or_above_the_mean(tmp_path: Path, name: str) -> None:
    data = datasets.houses(raw(tmp_path / name))
    assert data.features.mean(axis=0) == pytest.approx(np.zeros(8), abs=1e-12)
    assert data.features.std(axis=0) == pytest.approx(np.ones(8))
    assert set(data.labels.tolist()) == {-1.0, 1.0}


def test_a_prepared_file_reads_back(tmp_path: Path) -> None:
    data = datasets.houses(raw(tmp_path / "raw.csv"))
    datasets.write(data, tmp_path / "prepared.csv")
    again = datasets.houses(tmp_path / "prepared.csv")
    assert again.features == pytest.approx(data.features)
    assert again.labels.tolist() == data.labels.tolist()


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("longitude,latitude\n1,2\n")
    with pytest.raises(DatasetError, match="median_income"):
        datasets.houses(path)


def test_the_generated_set_has_the_shape_of_houses_and_can_be_learned() -> None:
    data = datasets.generated()
    assert data.features.shape == (ROWS, 8)
    assert 0.3 < float((data.labels > 0).mean()) < 0.7


def test_rows_are_dealt_once_and_scaled_to_norm_one() -> None:
    problem = datasets.deal(datasets.generated(rows=500), 30)
    assert problem.rows.shape == (30, 13, 9)
    assert np.linalg.norm(problem.rows, axis=2) == pytest.approx(np.ones((30, 13)))
    assert len(problem.validation[1]) == 400 - 390 and len(problem.test[1]) == 100


def test_every_user_gets_a_file_that_a_node_reads(tmp_path: Path) -> None:
    from node.tasks import load_table

    assert datasets.write_users(datasets.generated(rows=100), tmp_path, 7) == 7
    assert load_table(tmp_path / "user-6.csv").values.shape == (11, 9)
    assert load_table(tmp_path / "test.csv").values.shape == (20, 9)


def test_more_users_than_rows_is_refused() -> None:
    with pytest.raises(DatasetError, match="80 training rows"):
        datasets.deal(datasets.generated(rows=100), 90)
