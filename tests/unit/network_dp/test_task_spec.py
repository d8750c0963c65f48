"""A task owns how its estimate is named, placed and compared."""

from __future__ import annotations

import pytest

from network_dp.task_spec import HistogramTask, SumTask


def test_counts_become_shares_and_shares_stay() -> None:
    task = HistogramTask("histogram", 3)
    assert task.in_units_of_estimate([1, 2, 1]) == task.in_units_of_estimate([0.25, 0.5, 0.25]) == (0.25, 0.5, 0.25)
    assert task.in_units_of_estimate([0, 0, 0]) == (0, 0, 0)


def test_a_mean_stays_what_it_is_and_lies_in_its_bounds() -> None:
    task = SumTask("mean", 1, 18.0, 90.0, None)
    assert task.in_units_of_estimate([44.0]) == (44.0,)
    assert task.mean_range == (18.0, 90.0)
    assert SumTask("mean", 2, 0.0, 0.0, 5.0).mean_range == (-5.0, 5.0)


@pytest.mark.parametrize(
    ("task", "key"), [(HistogramTask("histogram", 2), "value"), (SumTask("sum", 1, 0, 1, None), "mean")]
)
def test_a_result_keeps_its_means_under_the_key_of_its_task(task: HistogramTask | SumTask, key: str) -> None:
    assert task.means_key == key
