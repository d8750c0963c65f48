"""What the rows of one user's file become (`task.rows` of the plan): one average, or one row per visit.

No row is left out unsaid: rows that can never be contributed are refused before the run, rows that a random walk may
not come to are remarked on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from network_dp.expected import expected_contributions
from network_dp.plan import Plan
from node.tasks.base import LocalData
from node.tasks.data import DataError, Table


def average(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean row, as a table of one row; divided first, so that no sum overflows."""
    return np.asarray((rows / len(rows)).sum(axis=0, keepdims=True))


def shares(buckets: NDArray[np.int64], size: int, one: int) -> NDArray[np.int64]:
    """How many of the rows fall into each bucket, in units of `one` for all of them; the units sum to `one` exactly.

    Whole units first, in exact integers; what is left goes to the largest remainders, lower buckets first.
    """
    found, counts = np.unique(buckets, return_counts=True)
    parts = [divmod(count * one, len(buckets)) for count in counts.tolist()]
    left = one - sum(whole for whole, _ in parts)
    by_remainder = sorted(range(len(parts)), key=lambda i: (-parts[i][1], i))
    vector = np.zeros(size, dtype=np.int64)
    vector[found] = [whole for whole, _ in parts]
    vector[found[by_remainder[:left]]] += 1
    return vector


def expect_usable(plan: Plan, table: Table) -> None:
    """Refuse rows that no walk of this plan can ever contribute, one per visit."""
    rows, most = len(table.values), plan.most_contributions
    if rows > most:
        raise DataError(
            f"{table.file}: has {rows} rows, and this plan lets a user contribute at most {most} of them, one per "
            f'visit: give at most {most} rows, or let the plan say task.rows = "average"'
        )


def remark(plan: Plan, rows: int) -> str | None:
    """What to tell a user of whose `rows` each visit contributes one, if not all may be; None when all are."""
    if not plan.topology.drawn or not plan.task.additive or rows < 2:
        return None
    expected = expected_contributions(plan) / plan.n
    return (
        f"{rows} rows, one per visit, in their order: the walk decides how many are contributed "
        f"({expected:.4g} visits are expected), and the others are not used"
    )


def told(plan: Plan, data: LocalData) -> list[str]:
    """What a user is told of its own data, on its own screen."""
    said = []
    if data.clipped:
        bounds = plan.task.bounds_in_words
        said.append(f"{data.clipped} of {data.checked} values lie outside the public bounds {bounds}: clipped to them")
    about_rows = remark(plan, len(data.rows))
    return said if about_rows is None else [*said, about_rows]
