"""Four machines and one code: invited, joined, launched, judged. Found by multicast DNS, and by address."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from network_dp.plan_reader import dump
from tests.system.hosts.conftest import TOOL

pytestmark = [pytest.mark.hosts, pytest.mark.slow]


def test_four_machines_join_by_a_code_and_pass(make_lan: Any, make_plan: Any, tmp_path: Path) -> None:
    lan = make_lan(4)
    (tmp_path / "plan.toml").write_text(dump(make_plan(4, walk={"topology": "ring", "rounds": 5})))
    first = lan.machines[0]
    command = first._command(TOOL, "invite", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "signed"))
    inviter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=first._environment())
    first.helpers.append(inviter)
    assert inviter.stdout is not None
    code = re.fullmatch(r"code (\d{4}-\d{4})\n", inviter.stdout.readline())
    assert code is not None
    joining = []
    for machine in lan.machines:
        machine.folder.mkdir()
        (machine.folder / "mine.csv").write_text("0.5\n")
        found = [] if machine.index == 1 else ["--at", f"{first.ip}:7090"]  # one looks for it, the others are told
        command = machine._command(TOOL, "join", code[1], "--name", machine.name, "--dir", str(machine.folder))
        data = ["--data", str(machine.folder / "mine.csv")]
        joining.append(
            subprocess.Popen([*command, *data, *found], stdout=subprocess.PIPE, text=True, env=machine._environment())
        )
        machine.helpers.append(joining[-1])
    for process in joining:
        said = process.communicate(timeout=90)[0]
        assert process.returncode == 0 and "ready. Start with" in said, said
    assert "everybody has the plan" in inviter.communicate(timeout=60)[0] and inviter.returncode == 0
    lan.start()
    assert {machine.wait() for machine in lan.machines} == {0}
    judged = lan.analyze()
    assert judged.returncode == 0 and "PASS" in judged.stdout, judged.stdout
