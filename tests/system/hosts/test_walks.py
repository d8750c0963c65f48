"""Walks between machines, over cables that are good, slow, cut, and plugged in again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(600)]

LONG = {"topology": "ring", "rounds": 500, "durability": "process"}
TASKS = {
    "ring": {"walk": {"topology": "ring", "rounds": 20}},
    "complete": {
        "walk": {"topology": "complete", "steps": 200},
        "task": {"kind": "histogram", "buckets": 2},
        "noise": {"mechanism": "gaussian", "sigma": 1.0},
    },
    "hidden": {"walk": {"topology": "complete", "steps": 60, "path": "hidden"}, "noise": {"sigma": 1.0}},
}


def results(machines: Sequence[Any]) -> list[dict[str, Any]]:
    return [json.loads((machine.bundle / "state/result.json").read_text()) for machine in machines]


def all_well(lan: Any, machines: Sequence[Any] | None = None) -> dict[str, Any]:
    """Everybody ends with 0 and the same result, and the analyzer passes the full logs."""
    chosen = machines or lan.machines
    codes = {machine.name: machine.wait() for machine in chosen}
    assert set(codes.values()) == {0}, codes
    found = results(chosen)
    assert all(result == found[0] for result in found)
    judged = lan.analyze(chosen)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    return found[0]


@pytest.mark.parametrize(("n", "kind"), [(4, "ring"), (8, "complete"), (4, "hidden")])
def test_machines_with_keys_of_their_own_walk_and_pass(
    make_lan: Any, make_plan: Any, tmp_path: Path, n: int, kind: str
) -> None:
    lan = make_lan(n)
    plan = lan.enrol(make_plan(n, **TASKS[kind]), tmp_path)
    for machine in lan.machines:
        (machine.folder / "mine.csv").write_text("1\n")
    lan.start()
    assert all_well(lan)["contributions"] == plan.total_steps


def test_one_machine_starts_with_the_launcher(make_lan: Any, make_plan: Any, tmp_path: Path) -> None:
    lan = make_lan(3)
    lan.enrol(make_plan(3), tmp_path)
    lan.start(lan.machines[1:])
    launched = lan.machines[0].tool("launch", str(lan.machines[0].folder), "--only", "user-0", timeout_s=120.0)
    assert launched.returncode == 0, launched.stdout + launched.stderr
    assert {machine.wait() for machine in lan.machines[1:]} == {0}


def test_slow_and_lossy_cables(make_lan: Any, make_plan: Any, tmp_path: Path) -> None:
    """20 ms give or take 5 one way, one packet in fifty lost, on every machine."""
    lan = make_lan(4)
    lan.enrol(make_plan(4, walk={"topology": "ring", "rounds": 10}, timing={"preset": "lan"}), tmp_path)
    for machine in lan.machines:
        machine.slow_link(20.0, 5.0, 0.02)
    lan.start()
    assert all_well(lan)["contributions"] == 40


def test_a_partition_without_a_majority_heals(make_lan: Any, make_plan: Any, tmp_path: Path, wait_s: Any) -> None:
    """Three and three, for longer than the lease: nobody may re-issue, nothing is lost, and it goes on."""
    lan = make_lan(6)
    plan = lan.enrol(make_plan(6, walk=LONG), tmp_path)
    lan.start()
    lan.under_way(60)
    for machine in lan.machines[3:]:
        machine.plug_into("aside")
    wait_s(plan.timing.lease_s * 1.5)
    for machine in lan.machines[3:]:
        machine.plug_into("main")
    all_well(lan)


def test_a_minority_partition_heals(make_lan: Any, make_plan: Any, tmp_path: Path, wait_s: Any) -> None:
    lan = make_lan(5)
    plan = lan.enrol(make_plan(5, walk=LONG), tmp_path)
    lan.start()
    lan.under_way(60)
    for machine in lan.machines[3:]:
        machine.plug_into("aside")
    wait_s(plan.timing.lease_s * 1.5)
    for machine in lan.machines[3:]:
        machine.plug_into("main")
    all_well(lan)


def test_a_machine_cut_off_for_good_is_done_without(make_lan: Any, make_plan: Any, tmp_path: Path) -> None:
    lan = make_lan(5)
    lan.enrol(make_plan(5, walk=LONG), tmp_path)
    lan.start()
    lan.under_way(60)
    lan.machines[2].cut_off()
    rest = [machine for machine in lan.machines if machine.index != 2]
    codes = {machine.name: machine.wait() for machine in rest}
    assert set(codes.values()) == {0}, codes
    found = results(rest)
    assert all(result == found[0] for result in found)
    assert not (lan.machines[2].bundle / "state/result.json").exists()


def test_a_wrong_address_costs_one_user_and_a_local_file_mends_it(
    make_lan: Any, make_plan: Any, tmp_path: Path
) -> None:
    """The plan says where user-2 was yesterday. addresses.toml, on the others, says where it is."""
    lan = make_lan(4)
    lan.enrol(make_plan(4), tmp_path, {"user-2": "10.77.0.99:7000"})
    for machine in lan.machines:
        (machine.bundle / "addresses.toml").write_text('user-2 = "10.77.0.3:7000"\n')
    lan.start()
    assert all_well(lan)["contributions"] == 80
