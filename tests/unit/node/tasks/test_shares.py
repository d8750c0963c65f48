"""What a visit counts where some users are met more often than others."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from node.worker import scaled

NUMBERS = st.integers(-(2**52), 2**52)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5), st.integers(1, 2000), st.integers(1, 2000))
def test_shares_bring_no_two_contributions_further_apart(rows: list[tuple[int, int]], a: int, b: int) -> None:
    """Coordinate by coordinate, so the sensitivity of the plan holds whatever the share."""
    share = (min(a, b), max(a, b))
    one, other = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    apart = np.abs(scaled(one, share) - scaled(other, share))
    assert (apart <= np.abs(one - other)).all()
    assert (np.abs(scaled(one, share) * share[1] - one.astype(object) * share[0]) <= share[1] / 2).all()
