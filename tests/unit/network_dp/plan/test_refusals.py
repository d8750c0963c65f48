"""A plan that cannot be run is refused before anything starts: the key, the value found, what is allowed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from coordinator_free_launcher.cli.app import app
from network_dp.plan import PlanError
from network_dp.plan_reader import from_dict, parse
from tests.unit.network_dp.plan.plans import RING_MEAN, bent, users

COMPLETE = {"walk": {"topology": "complete", "steps": 9}}
HISTOGRAM = {"task": {"kind": "histogram", "buckets": 3}}
SGD = {"kind": "sgd", "features": 2, "step_size": 1.0}

#: what is wrong: (changes, words of the refusal)
REFUSALS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    # unknown keys
    "unknown key": ({"walk.topolgy": "ring"}, ("walk.topolgy", "allowed here are", "topology")),
    "unknown table": ({"extras": {"a": 1}}, ("extras", "allowed here are")),
    "unknown key of a user": ({"users": [*users(2), {**users(3)[2], "adress": "x"}]}, ("users[2].adress", "address")),
    "key of another task": ({"task.buckets": 3}, ("task.buckets", "allowed here are")),
    "steps on a ring": ({"walk.steps": 3}, ("walk.steps", "rounds")),
    "gamma for a Gaussian": ({"noise.gamma": 0.5}, ("noise.gamma", "sigma")),
    # missing
    "no task": ({"task": None}, ("task is missing",)),
    "no rounds": ({"walk.rounds": None}, ("walk.rounds is missing", "whole number")),
    "neither noise nor target": ({"noise.sigma": None}, ("noise.sigma is missing", "noise.epsilon")),
    # wrong types
    "text for a number": ({"walk.rounds": "2"}, ("walk.rounds", '"2"', "whole number")),
    "true for a number": ({"walk.rounds": True}, ("walk.rounds", "true", "whole number")),
    "fraction for a whole number": ({"walk.rounds": 2.5}, ("walk.rounds", "2.5", "whole number")),
    "number for a flag": ({"noise.spread": 1}, ("noise.spread", "1", "true or false")),
    "number for a name": ({"name": 7}, ("name", "7", "lower-case")),
    "text for a table": ({"noise": "none"}, ("noise", '"none"', "table")),
    "text for the users": ({"users": "all"}, ("users", '"all"', "list of tables")),
    # out of range
    "no rounds at all": ({"walk.rounds": 0}, ("walk.rounds", "0", "from 1")),
    "negative sigma": ({"noise.sigma": -1.0}, ("noise.sigma", "-1.0", "above 0")),
    "infinite sigma": ({"noise.sigma": math.inf}, ("noise.sigma", "Infinity", "finite")),
    "sigma that is no number": ({"noise.sigma": math.nan}, ("noise.sigma", "NaN", "finite")),
    "sigma beyond float64": ({"noise.sigma": 10**400}, ("noise.sigma", "finite")),
    "gamma of one": ({**HISTOGRAM, "noise": {"gamma": 1.0}}, ("noise.gamma", "1.0", "at most")),
    "delta of one": ({"noise.delta": 1.0}, ("noise.delta", "1.0", "at most 0.1")),
    "grid off the powers of two": ({"noise.grid": 0.1}, ("noise.grid", "0.1", "power of two")),
    "cap below one": ({"caps.contributions": 0}, ("caps.contributions", "0", "from 1")),
    "edge cap below one": ({**COMPLETE, "caps.edge": 0}, ("caps.edge", "0", "from 1")),
    "empty bounds": ({"task.lower": 1.0, "task.upper": 1.0}, ("task.lower", "1.0", "below upper")),
    "negative wait": ({"timing.lease_s": -1}, ("timing.lease_s", "-1", "above 0")),
    "no time for a late answer": ({"timing.handoff_timeout_s": 0.1}, ("timing.handoff_timeout_s", "at least 0.2")),
    "grant gone before a late answer": ({"timing.grant_ttl_s": 0.1}, ("timing.grant_ttl_s", "at least 0.2")),
    "min_live above n": ({"walk.min_live": 4}, ("walk.min_live", "4", "to 3")),
    "port out of range": ({"users": [*users(2), {"name": "c", "address": "h:70000"}]}, ("h:70000", "65535")),
    "address without a port": ({"users": [*users(2), {"name": "c", "address": "h"}]}, ("users[2].address", '"h"')),
    "key that is no pin": ({"users": [*users(2), {**users(3)[2], "key": "ab"}]}, ("users[2].key", "64 hex digits")),
    "unknown topology": ({"walk.topology": "star"}, ("walk.topology", '"star"', '"ring", "complete"')),
    "unknown task": ({"task": {"kind": "median"}}, ("task.kind", '"median"', '"histogram"')),
    "unknown preset": ({"timing.preset": "moon"}, ("timing.preset", '"moon"', '"lan"')),
    "another schema": ({"schema": 2}, ("schema", "2", "from 1 to 1")),
    # impossible combinations
    "ring of two": ({"users": users(2)}, ("walk.topology", '"ring"', "at least 3 users", "2")),
    "one user": ({**COMPLETE, "users": users(1)}, ("users: 1 given", "from 2")),
    "one bucket": ({"task": {"kind": "histogram", "buckets": 1}}, ("task.buckets", "1", "from 2")),
    "step beyond contraction": (
        {**COMPLETE, "task": {**SGD, "step_size": 8.5}},
        ("task.step_size", "8.5", "at most 2/beta = 8"),
    ),
    "ridge without a ball": ({**COMPLETE, "task": {**SGD, "loss": "ridge"}}, ("task.radius", "ball")),
    "two users with one name": ({"users": [*users(2), {"name": "user-1", "address": "h:1"}]}, ("user-1", "differ")),
    "two users with one address": (
        {"users": [*users(2), {"name": "c", "address": "127.0.0.1:20001"}]},
        ("users[2].address", "127.0.0.1:20001", "user-1", "differ"),
    ),
    "one address in two spellings": (
        {"users": [*users(1), {"name": "b", "address": "Host:80"}, {"name": "c", "address": "host:0080"}]},
        ("users[2].address", "host:0080", "differ"),
    ),
    "forwarding under network DP": (
        {**COMPLETE, "caps": {"contributions": 1, "past": "forward"}},
        ("caps.past", '"forward"', "local"),
    ),
    "forwarding on a ring": (
        {"caps": {"contributions": 1, "past": "forward"}, "noise.against": "local"},
        ("caps.past", '"noise"'),
    ),
    "edge cap on a ring": ({"caps.edge": 1}, ("caps.edge", "caps.contributions")),
    "Laplace vectors": (
        {"noise": {"mechanism": "laplace", "scale": 1.0}, "task.dimension": 2},
        ("task.dimension", "2", "Gaussian"),
    ),
    "Laplace on the complete graph": (
        {**COMPLETE, "noise": {"mechanism": "laplace", "scale": 1.0}},
        ("noise.mechanism", '"laplace"', '"gaussian"'),
    ),
    "randomised response for a mean": (
        {"noise": {"mechanism": "rr", "gamma": 0.5}},
        ("noise.mechanism", '"rr"', '"gaussian"'),
    ),
    "noise spread over a complete graph": ({**COMPLETE, "noise.spread": True}, ("noise.spread", "ring")),
    "starter from elsewhere": ({"walk.starter": "eve"}, ("walk.starter", '"eve"', "user of this plan")),
    "ring SGD against the network": (
        {"task": SGD, "noise": {"epsilon": 1.0, "against": "network"}},
        ("noise.against", '"network"', '"local"'),
    ),
    "option that is no number": (
        {"task": {"kind": "custom", "factory": "m:f", "sensitivity": 1.0, "options": {"x": math.nan}}},
        ("task.options.x", "NaN", "finite"),
    ),
}


def test_the_plan_that_is_bent_is_valid() -> None:
    assert from_dict(RING_MEAN).n == 3


@pytest.mark.parametrize("case", REFUSALS)
def test_refusal_names_key_value_and_what_is_allowed(case: str) -> None:
    changes, words = REFUSALS[case]
    with pytest.raises(PlanError) as caught:
        from_dict(bent(changes))
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "\n" not in text


def test_a_file_that_is_not_toml_is_refused_with_its_line() -> None:
    with pytest.raises(PlanError, match=r"not a TOML file.*line 2"):
        parse("schema = 1\n]")


RING_OF_TWO = """
[walk]
topology = "ring"
rounds = 2
[task]
kind = "mean"
[noise]
sigma = 1.0
[[users]]
name = "a"
address = "h:1"
[[users]]
name = "b"
address = "h:2"
"""


@pytest.mark.parametrize("words", [("plan", "check"), ("run",), ("provision", "--out", "OUT")])
def test_the_command_line_refuses_with_code_2_before_anything_starts(words: tuple[str, ...], tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    plan.write_text(RING_OF_TWO)
    command = [str(out) if word == "OUT" else word for word in words]
    if words == ("run",):
        command += ["--out", str(out)]
    result = CliRunner().invoke(app, [*command, str(plan)])
    assert result.exit_code == 2
    assert "error: walk.topology" in result.output and "at least 3 users" in result.output
    assert not out.exists()
