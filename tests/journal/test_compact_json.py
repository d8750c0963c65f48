"""The encoder kept for journal and view log writes what ``json`` writes, and refuses what JSON has no name for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from network_dp import compact_json
from node.protocol.values import Hop

VALUES = [
    None, True, 0, -(2**63), 2**64, 0.1, -0.0, 5e-324, 1.7976931348623157e308, 1794841790.489218,
    "", 'a "quoted" \\ line\n', "\x00\x7f\u00e9\u2028\U0001f600", [], [[1, [2.5]]], {}, {2: Hop((0, 1), 3)},
    {"kind": "sent", "epoch": [0, 0], "noise": None, "real": False, "line": '{"kind":"visit"}'},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_it_writes_what_json_writes(value: Any) -> None:
    assert compact_json.encode(value) == json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": float("-inf")}], ids=repr)
def test_a_number_that_is_not_finite_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        compact_json.encode(value)


@pytest.mark.parametrize("value", [b"bytes", {"a": {1, 2}}, object], ids=["bytes", "set", "type"])
def test_what_json_has_no_name_for_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        compact_json.encode(value)
