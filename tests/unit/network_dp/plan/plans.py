"""A small valid plan to bend, and any valid plan at all."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from network_dp.plan import PRESETS, Plan
from network_dp.plan_reader import from_dict

SIZES = {"gaussian": "sigma", "laplace": "scale", "rr": "gamma"}


def users(n: int) -> list[dict[str, Any]]:
    return [{"name": f"user-{i}", "address": f"127.0.0.1:{20000 + i}"} for i in range(n)]


RING_MEAN: dict[str, Any] = {
    "walk": {"topology": "ring", "rounds": 2},
    "task": {"kind": "mean"},
    "noise": {"sigma": 1.0},
    "users": users(3),
}


def bent(changes: dict[str, Any]) -> dict[str, Any]:
    """The ring mean with "table.key" set to values; None takes the key away, a dict replaces a whole table."""
    values = copy.deepcopy(RING_MEAN)
    for path, value in changes.items():
        table, _, key = path.rpartition(".")
        target = values.setdefault(table, {}) if table else values
        if value is None:
            del target[key]
        else:
            target[key] = value
    return values


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


_POSITIVE = st.floats(1e-6, 1e6)
_WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def _tasks(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["sum", "mean", "histogram", "sgd", "custom"]))
    match kind:
        case "sum" | "mean":
            low = draw(st.floats(-1e9, 1e9))
            task = {"dimension": draw(st.integers(1, 9)), "lower": low, "upper": low + draw(_POSITIVE) + abs(low)}
            task["norm"] = draw(_maybe(_POSITIVE))
        case "histogram":
            task = {"buckets": draw(st.integers(2, 99))}
        case "sgd":
            task = {
                "loss": draw(st.sampled_from(["logistic", "ridge", "smoothed_hinge"])),
                "features": draw(st.integers(1, 9)),
                "intercept": draw(st.booleans()),
                "step_size": draw(st.floats(1e-6, 1.0)),
                "radius": draw(_POSITIVE),
                "schedule": draw(st.sampled_from(["constant", "inverse_sqrt"])),
                "label_bound": draw(_POSITIVE),
            }
        case _:
            plain = _WORDS | st.integers(-9, 2**70) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
            options = draw(st.dictionaries(_WORDS, plain, max_size=3))
            task = {"factory": "some.module:make", "sensitivity": draw(_POSITIVE), "options": options}
    return _given({"kind": kind, **task})


def _mechanisms(task: dict[str, Any], ring: bool) -> list[str]:
    if task["kind"] == "histogram":
        return ["rr", "gaussian"]
    single = task["kind"] in ("sum", "mean") and task["dimension"] == 1
    return ["gaussian", "laplace"] if ring and single else ["gaussian"]


@st.composite
def _noises(draw: st.DrawFn, task: dict[str, Any], ring: bool) -> dict[str, Any]:
    mechanism = draw(st.sampled_from(_mechanisms(task, ring)))
    size = draw(st.sampled_from([SIZES[mechanism], "epsilon"]))
    local = ring and task["kind"] == "sgd"
    return {
        "mechanism": mechanism,
        size: draw(st.floats(1e-6, 0.9)),
        "delta": draw(st.floats(1e-12, 0.1)),
        "spread": ring and mechanism == "gaussian" and task["kind"] != "sgd" and draw(st.booleans()),
        "grid": 2.0 ** draw(st.integers(-60, 10)),
        "against": "local" if local else draw(st.sampled_from(["network", "local"])),
    }


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any plan the reader accepts."""
    n, ring = draw(st.integers(3, 5)), draw(st.booleans())
    task = draw(_tasks())
    people = users(n)
    people[0] |= _given(
        {
            "bind": draw(_maybe(st.just("0.0.0.0:4000"))),
            "data": draw(_maybe(_WORDS)),
            "key": draw(_maybe(st.sampled_from(["0" * 64, "0123456789abcdef" * 4]))),
        }
    )
    values = {
        "name": draw(st.sampled_from(["a", "0-run", "x" * 62])),
        "run_number": draw(st.integers(0, 99)),
        "insecure_seed": draw(_maybe(st.integers(0, 2**63 - 1))),
        "walk": {
            "topology": "ring" if ring else "complete",
            "rounds" if ring else "steps": draw(st.integers(1, 999)),
            "starter": f"user-{draw(st.integers(0, n - 1))}",
            "release": draw(st.sampled_from(["all", "holder"])),
            "log_values": draw(st.booleans()),
        },
        "task": task,
        "noise": draw(_noises(task, ring)),
        "caps": _given({"contributions": draw(_maybe(st.integers(1, 9))), "edge": None if ring else 3}),
        "timing": {"preset": draw(st.sampled_from(sorted(PRESETS))), "lease_s": draw(st.floats(0.1, 86400.0))},
        "users": people,
    }
    return from_dict(_given(values))
