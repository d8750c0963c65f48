"""The doctor, on one machine of a LAN: each ailment is named, with what to do about it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coordinator_free_launcher.identity.enrol import Card, accept, sign

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(300)]

#: user-0 begins, and is not started: the others wait for it, and can be looked at in peace.
PATIENT = {"start_timeout_s": 600.0, "stall_timeout_s": 600.0}


@pytest.fixture
def lan(make_lan: Any) -> Any:
    return make_lan(3)


def serve(lan: Any, *indices: int) -> None:
    """Start users, and wait until they serve."""
    for index in indices:
        lan.machines[index].start()
    for index in indices:
        lan.log_says(index, "serving on")


def diagnosis(lan: Any, index: int, about: str) -> str:
    """What the doctor on one machine says about a user, the last check only."""
    asked = lan.machines[index].tool("doctor", str(lan.machines[index].folder), "--timeout", "4")
    assert asked.returncode in (0, 1), asked.stdout + asked.stderr
    lines = asked.stdout.splitlines()
    own = [i for i, line in enumerate(lines) if line[4:].startswith(f"{about}: ")]
    return "\n".join(lines[own[-1] : own[-1] + 2])


def test_all_is_well(lan: Any, make_plan: Any, tmp_path: Path) -> None:
    lan.enrol(make_plan(3, walk={"topology": "ring", "rounds": 1_000_000, "durability": "process"}), tmp_path)
    serve(lan, 0, 1, 2)
    asked = lan.machines[0].tool("doctor", str(lan.machines[0].folder))
    assert (asked.returncode, asked.stdout.splitlines()[-1]) == (0, "all is well"), asked.stdout


def test_a_user_that_is_not_started(lan: Any, make_plan: Any, tmp_path: Path) -> None:
    lan.enrol(make_plan(3, timing=PATIENT), tmp_path)
    said = diagnosis(lan, 0, "user-1")
    assert "BAD user-1: port: the machine at 10.77.0.2 answers, but nothing listens on port 7000" in said
    assert "start user-1 there" in said


def test_a_firewall_that_drops(lan: Any, make_plan: Any, tmp_path: Path) -> None:
    lan.enrol(make_plan(3, timing=PATIENT), tmp_path)
    serve(lan, 1)
    lan.machines[1].must("iptables", "-A", "INPUT", "-p", "tcp", "--dport", "7000", "-j", "DROP")
    said = diagnosis(lan, 0, "user-1")
    assert "BAD user-1: port: no answer from 10.77.0.2:7000" in said
    assert "allow TCP port 7000" in said


def test_a_machine_cut_off(lan: Any, make_plan: Any, tmp_path: Path) -> None:
    lan.enrol(make_plan(3, timing=PATIENT), tmp_path)
    lan.machines[1].cut_off()
    said = diagnosis(lan, 0, "user-1")
    assert "BAD user-1: port: no " in said  # no answer, or no way there: the kernel decides


def test_a_name_that_means_nothing_here(lan: Any, make_plan: Any, tmp_path: Path) -> None:
    lan.enrol(make_plan(3, timing=PATIENT), tmp_path, {"user-1": "laptop-of-bert.invalid:7000"})
    said = diagnosis(lan, 0, "user-1")
    assert 'BAD user-1: name: "laptop-of-bert.invalid" has no address here' in said
    assert "addresses.toml" in said


def test_somebody_else_at_the_address(lan: Any, make_plan: Any, tmp_path: Path) -> None:
    lan.enrol(make_plan(3, timing=PATIENT), tmp_path, {"user-1": "10.77.0.3:7000", "user-2": "10.77.0.2:7000"})
    serve(lan, 1, 2)
    said = diagnosis(lan, 0, "user-1")
    assert "BAD user-1: certificate: user-2 answers at 10.77.0.3:7000, not user-1" in said
    assert "the address of user-1 is wrong" in said


def test_another_program_on_the_port(lan: Any, make_plan: Any, tmp_path: Path) -> None:
    lan.enrol(make_plan(3, timing=PATIENT), tmp_path)
    command = ["ip", "netns", "exec", lan.machines[1].namespace, sys.executable, "-u", "-m", "http.server", "7000"]
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    lan.machines[1].helpers.append(server)
    assert server.stdout is not None
    assert "7000" in server.stdout.readline()
    assert "BAD user-1: certificate: what listens at 10.77.0.2:7000 does not speak TLS" in diagnosis(lan, 0, "user-1")


def test_another_plan(lan: Any, make_plan: Any, tmp_path: Path) -> None:
    lan.enrol(make_plan(3, timing=PATIENT), tmp_path)
    cards = [Card.read(machine.folder / f"{machine.name}.card") for machine in lan.machines]
    (tmp_path / "signer/public").rename(tmp_path / "old")
    public = sign(make_plan(3, timing=PATIENT, noise={"sigma": 9.0}), cards, tmp_path / "signer")
    accept(public, lan.machines[1].folder, replace=True)
    serve(lan, 1)
    said = diagnosis(lan, 0, "user-1")
    assert "BAD user-1: plan: user-1 has another plan" in said
    assert "take the newest one" in said


def test_a_renewed_certificate_the_others_do_not_have(lan: Any, make_plan: Any, tmp_path: Path) -> None:
    lan.enrol(make_plan(3, timing=PATIENT), tmp_path)
    cards = [Card.read(machine.folder / f"{machine.name}.card") for machine in lan.machines]
    (tmp_path / "signer/public").rename(tmp_path / "old")
    accept(sign(make_plan(3, timing=PATIENT), cards, tmp_path / "signer"), lan.machines[1].folder)
    serve(lan, 1)
    said = diagnosis(lan, 0, "user-1")
    assert "BAD user-1: certificate: user-1 has a newer or older certificate" in said


def test_a_new_key_after_signing(lan: Any, make_plan: Any, tmp_path: Path) -> None:
    """user-1 lost its key, made another and had only its own card signed again, with the others' old ones."""
    from coordinator_free_launcher.identity.enrol import keygen

    lan.enrol(make_plan(3, timing=PATIENT), tmp_path)
    machine = lan.machines[1]
    (machine.folder / "users").rename(machine.folder / "lost")
    keygen(machine.name, f"{machine.ip}:7000", machine.folder, "0.0.0.0:7000", machine.folder / "mine.csv")
    cards = [Card.read(other.folder / f"{other.name}.card") for other in lan.machines]
    (tmp_path / "signer/public").rename(tmp_path / "old")
    accept(sign(make_plan(3, timing=PATIENT), cards, tmp_path / "signer"), machine.folder)
    serve(lan, 1)
    said = diagnosis(lan, 0, "user-1")
    assert "BAD user-1: certificate: user-1 answers at 10.77.0.2:7000 with a key the plan does not pin" in said


def test_a_clock_two_hours_ahead(lan: Any, make_plan: Any, tmp_path: Path, libfaketime: None) -> None:
    lan.enrol(make_plan(3, timing=PATIENT), tmp_path)
    lan.machines[1].clock = "+2h"
    serve(lan, 1)
    said = diagnosis(lan, 0, "user-1")
    assert "BAD user-1: clock: user-1's clock is 7,2" in said
    assert "ahead of yours" in said


def test_a_clock_days_behind_is_seen_from_both_sides(
    lan: Any, make_plan: Any, tmp_path: Path, libfaketime: None
) -> None:
    """To a machine that lives last week, nobody's certificate is valid yet."""
    lan.enrol(make_plan(3, timing=PATIENT), tmp_path)
    lan.machines[1].clock = "-7d"
    serve(lan, 1, 2)
    from_here = diagnosis(lan, 0, "user-1")
    assert "BAD user-1: talk: user-1 breaks off the connection" in from_here
    assert "its clock may be wrong" in from_here
    from_there = diagnosis(lan, 1, "user-2")
    assert "BAD user-2: certificate: valid from" in from_there
    assert "if your clock is wrong, set it" in from_there
