"""Writing and reading a plan, and what its hash binds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from network_dp.plan import PRESETS, Plan
from network_dp.plan_reader import dump, from_dict, parse
from tests.unit.network_dp.plan.plans import plans


@given(plans())
def test_a_plan_survives_its_own_file(plan: Plan) -> None:
    assert parse(dump(plan)) == plan
    assert parse(dump(plan)).hash == plan.hash


@given(plans())
def test_the_hash_ignores_hints_and_binds_everything_else(plan: Plan) -> None:
    elsewhere = tuple(
        replace(user, address=f"else:{i + 1}", bind="[::]:9", data="other.npy") for i, user in enumerate(plan.users)
    )
    assert replace(plan, users=elsewhere).hash == plan.hash
    assert replace(plan, timing=PRESETS["wan"]).hash == plan.hash
    others = [
        replace(plan, name=plan.name + "x"),
        replace(plan, insecure_seed=5 if plan.insecure_seed != 5 else 6),
        replace(plan, walk=replace(plan.walk, log_values=not plan.walk.log_values)),
        replace(plan, noise=replace(plan.noise, delta=plan.noise.delta / 2)),
        replace(plan, caps=replace(plan.caps, contributions=10)),
        replace(plan, users=plan.users[::-1]),
        replace(plan, users=(replace(plan.users[0], key="0" * 63 + "f"), *plan.users[1:])),
    ]
    assert plan.hash not in {other.hash for other in others}


@given(plans())
def test_each_run_number_is_a_run_of_its_own_under_one_hash(plan: Plan) -> None:
    again = replace(plan, run_number=plan.run_number + 1)
    assert again.hash == plan.hash and again.run_id != plan.run_id


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_crowds_ask_for_a_lost_token_no_more_often_in_all_than_64_users(preset: str) -> None:
    def lease_s(n_users: int) -> float:
        users = [{"name": f"u{i}", "address": f"h{i}:1"} for i in range(n_users)]
        values = {"schema": 1, "walk": {"topology": "complete", "steps": 9}, "task": {"kind": "mean"}, "users": users}
        plan = from_dict({**values, "noise": {"sigma": 1.0}, "timing": {"preset": preset}})
        return parse(dump(plan)).timing.lease_s

    assert lease_s(8) == lease_s(64) == PRESETS[preset].lease_s
    assert 2000 / lease_s(2000) == pytest.approx(64 / lease_s(64))
    assert lease_s(40_000) <= 86_400
