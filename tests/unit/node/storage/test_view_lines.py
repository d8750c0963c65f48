"""A line of the view log gives back the very numbers that were put into it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from network_dp import view

_NUMBERS = st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63 - 1), max_size=5)


@given(numbers=_NUMBERS, time=st.floats(0, 1e12), name=st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_numbers_and_names_come_back_exactly(numbers: list[float], time: float, name: str) -> None:
    fields = {"epoch": [0, 1], "step": 3, "visit": 2, "cause": name, "from": None}
    line = view.encode("visit", **fields, received=numbers, time=time)
    back = view.decode(line).fields
    assert (back["received"], back["time"], back["cause"]) == (numbers, time, name)
    assert [type(number) for number in back["received"]] == [type(number) for number in numbers]
    assert "\n" not in line


def test_a_number_that_is_not_finite_is_no_number() -> None:
    line = view.encode("result", epoch=[0, 1], value=[float("nan"), float("inf")], contributions=1, cover=0)
    assert json.loads(line)["value"] == [None, None]
